//! TLS, passwords, tokens, nkeys and rights, against servers that want them.

use posthaste_relay::sink::nats::NatsBuilder;
use posthaste_relay::sink::{Nats, Outcome, Sink};
use posthaste_testkit::scene::Log;
use posthaste_testkit::server::{self, Options};

use crate::authority::Authority;
use crate::keys::*;
use crate::stream::*;

/// A server that shows a certificate for this name, and wants one of this authority or not.
fn serve(authority: &Authority, name: &str, wants_one: bool) -> server::Nats {
    let (certificate, key) = authority.certificate(name);
    let tls = format!(
        "{{ cert_file: server.pem, key_file: server.key, ca_file: ca.pem, verify: {wants_one} }}"
    );
    let options = Options::new()
        .file("ca.pem", authority.pem())
        .file("server.pem", certificate)
        .file("server.key", key)
        .setting("tls", tls);
    server::Nats::start(options).unwrap()
}

fn trusting(server: &server::Nats, authority: &Authority) -> NatsBuilder {
    let url = server.url().replace("nats://", "tls://");
    Nats::builder(url).trust(authority.pem())
}

// Without a stream, an event that gets through is told so.
fn got_through(outcome: &Outcome) -> bool {
    let known = "no stream";
    is_retry(outcome, known) || is_unavailable(outcome, known)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_a_private_authority_is_delivered_to_and_others_are_not() {
    let authority = Authority::new();
    let server = serve(&authority, "127.0.0.1", false);
    let known = outcome(&trusting(&server, &authority).build().unwrap()).await;
    assert!(got_through(&known), "{known:?}");
    let untrusting = outcome(&Nats::builder(server.url()).build().unwrap()).await;
    assert!(is_unavailable(&untrusting, "certificate"), "{untrusting:?}");
    let other = serve(&authority, "other.example", false);
    let refused = outcome(&trusting(&other, &authority).build().unwrap()).await;
    assert!(is_unavailable(&refused, "certificate"), "{refused:?}");
    // Who asks for TLS sends nothing in the open.
    let open = private(&[]);
    let builder = trusting(&open, &authority).connect_timeout(MS(1000));
    let refused = outcome(&builder.build().unwrap()).await;
    assert!(is_unavailable(&refused, "cannot connect"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_shows_its_certificate() {
    let authority = Authority::new();
    let server = serve(&authority, "127.0.0.1", true);
    let (certificate, key) = authority.certificate("relay.example");
    let known = trusting(&server, &authority).client_certificate(certificate, key);
    let known = outcome(&known.build().unwrap()).await;
    assert!(got_through(&known), "{known:?}");
    let unknown = outcome(&trusting(&server, &authority).build().unwrap()).await;
    assert!(is_unavailable(&unknown, "cannot connect"), "{unknown:?}");
}

/// What stands in a credentials file.
fn credentials(seed: &str) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{USER_CLAIMS}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

// B13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_log_in_works_and_a_wrong_secret_is_clear_and_not_told() {
    type LogIn = fn(NatsBuilder, &str) -> NatsBuilder;
    let authorization = |value: &str| Options::new().setting("authorization", value);
    let ways: [(Options, LogIn, &str, &str); 4] = [
        (
            authorization("{ user: relay, password: canary-right }"),
            |builder, secret| builder.user("relay", secret),
            "canary-right",
            "canary-wrong",
        ),
        (
            authorization("{ token: canary-right }"),
            |builder, secret| builder.token(secret),
            "canary-right",
            "canary-wrong",
        ),
        (
            authorization(&format!("{{ users: [ {{ nkey: {PUBLIC} }} ] }}")),
            |builder, secret| builder.nkey(secret),
            SEED,
            OTHER_SEED,
        ),
        (
            Options::new()
                .setting("operator", OPERATOR)
                .setting("resolver", "MEMORY")
                .setting(
                    "resolver_preload",
                    format!("{{ {ACCOUNT}: {ACCOUNT_CLAIMS}, {SYSTEM}: {SYSTEM_CLAIMS} }}"),
                )
                .setting("system_account", SYSTEM),
            |builder, seed| builder.credentials(credentials(seed)),
            SEED,
            OTHER_SEED,
        ),
    ];
    for (options, log_in, right, wrong) in ways {
        let server = server::Nats::start(options).unwrap();
        let builder = || Nats::builder(server.url());
        let known = outcome(&log_in(builder(), right).build().unwrap()).await;
        assert!(got_through(&known), "{right}: {known:?}");
        let unknown = [log_in(builder(), wrong), builder()];
        for sink in unknown.map(|builder| builder.build().unwrap()) {
            let refused = outcome(&sink).await;
            let looked = sink.check().await.unwrap_err();
            assert!(is_unavailable(&refused, "credentials"), "{refused:?}");
            let told = format!("{refused:?} {looked} {sink:?}");
            assert!(!told.contains("canary") && !told.contains(wrong), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_to_a_subject_is_told_at_once_and_its_neighbours_go_on() {
    let rights = r#"{ users: [
        { user: admin, password: canary }
        { user: relay, password: canary, permissions: {
            publish: [ "shop.order.placed.v1" ], subscribe: [ "_INBOX.>" ] } }
    ] }"#;
    let server = private(&[("authorization", rights)]);
    let admin = async_nats::ConnectOptions::with_user_and_password("admin".into(), "canary".into());
    let admin = admin.connect(server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(admin);
    jetstream.create_stream(usual()).await.unwrap();
    let sink = Nats::builder(server.url())
        .user("relay", "canary")
        .build()
        .unwrap();
    // Of many at once, too: what the server says about them comes in one piece, and the client drops some of it.
    let topics: Vec<_> = (1..=500).map(|n| format!("shop.order.paid.v{n}")).collect();
    let denied = topics.iter().map(|topic| {
        let message = posthaste::Message::json_text(topic, "{}").unwrap();
        outcome_of(&sink, message)
    });
    let (denied, fine) = tokio::join!(futures_util::future::join_all(denied), outcome(&sink));
    for (topic, denied) in topics.iter().zip(denied) {
        let told = format!("may not publish to subject {topic:?}");
        assert!(is_retry(&denied, &told), "{denied:?}");
    }
    assert_eq!(fine, Outcome::Delivered);
    // The server writes quotes and the like in its own way.
    let quoting = Nats::builder(server.url()).user("relay", "canary");
    let quoting = quoting.subject("{aggregate_id}").build().unwrap();
    let message = posthaste_testkit::sink_contract::message().aggregate("Order", "\"a\\b\u{200b}");
    let denied = outcome_of(&quoting, message).await;
    assert!(is_retry(&denied, "may not publish"), "{denied:?}");
    let looked = sink.check().await.unwrap_err();
    assert!(
        looked.contains("$JS.API") && !looked.contains("canary"),
        "{looked}"
    );
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_among_many_denials_is_not_taken_for_one_of_them() {
    // JetStream is not for this account, so nobody answers for it.
    let accounts = r#"{ A: { users: [
        { user: listener, password: canary }
        { user: relay, password: canary, permissions: {
            publish: [ "shop.order.placed.v1", "$JS.API.>" ], subscribe: [ "_INBOX.>" ] } }
    ] } }"#;
    let server = private(&[("accounts", accounts)]);
    let listener =
        async_nats::ConnectOptions::with_user_and_password("listener".into(), "canary".into());
    let listener = listener.connect(server.url()).await.unwrap();
    let _silent = listener.subscribe("shop.order.placed.v1").await.unwrap();
    listener.flush().await.unwrap();
    let sink = Nats::builder(server.url()).user("relay", "canary");
    let sink = sink.timeout(MS(5000)).build().unwrap();
    let topics: Vec<_> = (1..=500).map(|n| format!("shop.order.paid.v{n}")).collect();
    let denied = topics.iter().map(|topic| {
        let message = posthaste::Message::json_text(topic, "{}").unwrap();
        outcome_of(&sink, message)
    });
    let (stuck, _) = tokio::join!(outcome(&sink), futures_util::future::join_all(denied));
    assert!(is_unavailable(&stuck, ""), "{stuck:?}");
}

// B13: not even in the lines of the client that we use, on a thread of its own.
#[tokio::test]
async fn no_log_line_tells_a_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = private(&[("authorization", "{ user: relay, password: canary-right }")]);
    for password in ["canary-right", "canary-wrong"] {
        let sink = Nats::builder(server.url()).user("relay", password);
        let sink = sink.build().unwrap();
        let _ = (outcome(&sink).await, sink.check().await);
    }
    let text = log.text();
    assert!(text.contains("async_nats"), "nothing was logged");
    assert!(!text.contains("canary"), "{text}");
}
