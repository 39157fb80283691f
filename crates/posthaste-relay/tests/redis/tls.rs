//! TLS and passwords, against servers that want them.

use posthaste_relay::sink::redis::RedisBuilder;
use posthaste_relay::sink::{Outcome, Redis, Sink};
use posthaste_testkit::server::{self, Options};

use crate::authority::Authority;
use crate::stream::*;

/// A server that shows a certificate for this name, and wants one of this authority (`yes`) or not (`no`).
fn serve(authority: &Authority, name: &str, wants_one: &str) -> server::Redis {
    server::Redis::start(options(authority, name, wants_one)).unwrap()
}

fn options(authority: &Authority, name: &str, wants_one: &str) -> Options {
    let (certificate, key) = authority.certificate(name);
    Options::new()
        .file("ca.pem", authority.pem())
        .file("server.pem", certificate)
        .file("server.key", key)
        .setting("tls-ca-cert-file", "ca.pem")
        .setting("tls-cert-file", "server.pem")
        .setting("tls-key-file", "server.key")
        .setting("tls-auth-clients", wants_one)
}

fn trusting(server: &server::Redis, authority: &Authority) -> RedisBuilder {
    Redis::builder(server.url()).trust(authority.pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_a_private_authority_is_delivered_to_and_others_are_not() {
    let authority = Authority::new();
    let server = serve(&authority, "127.0.0.1", "no");
    let sink = trusting(&server, &authority).build().unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    assert!(sink.check().await.is_ok());
    let untrusting = Redis::builder(server.url()).build().unwrap();
    let refused = outcome(&untrusting).await;
    assert!(is_unavailable(&refused, "certificate"), "{refused:?}");
    let other = serve(&authority, "other.example", "no");
    let refused = outcome(&trusting(&other, &authority).build().unwrap()).await;
    assert!(is_unavailable(&refused, "certificate"), "{refused:?}");
    // Nor is anything said in the open to a server that wants TLS.
    let open = Redis::builder(server.url().replace("rediss", "redis"));
    let refused = outcome(&open.connect_timeout(MS(1000)).build().unwrap()).await;
    assert!(is_unavailable(&refused, "cannot connect"), "{refused:?}");
}

// It cannot say so before the handshake, and closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_room_for_some_connections_only_is_delivered_to_over_tls() {
    let authority = Authority::new();
    let options = options(&authority, "127.0.0.1", "no").setting("maxclients", "2");
    let server = server::Redis::start(options).unwrap();
    let sink = trusting(&server, &authority).connections(4);
    assert_eq!(outcome(&sink.build().unwrap()).await, Outcome::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_shows_its_certificate() {
    let authority = Authority::new();
    let server = serve(&authority, "127.0.0.1", "yes");
    let (certificate, key) = authority.certificate("relay.example");
    let known = trusting(&server, &authority).client_certificate(certificate, key);
    assert_eq!(outcome(&known.build().unwrap()).await, Outcome::Delivered);
    let unknown = outcome(&trusting(&server, &authority).build().unwrap()).await;
    assert!(is_unavailable(&unknown, "cannot connect"), "{unknown:?}");
}

// B13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_clear_and_is_not_told() {
    let server = private(&[("requirepass", "canary-right")]);
    let builder = || Redis::builder(server.url());
    let right = builder().password("canary-right").build().unwrap();
    assert_eq!(outcome(&right).await, Outcome::Delivered);
    let wrong = builder().password("canary-wrong").build().unwrap();
    let wrong_user = builder()
        .user("nobody")
        .password("canary-right")
        .build()
        .unwrap();
    let none = builder().build().unwrap();
    for sink in [wrong, wrong_user, none] {
        let refused = outcome(&sink).await;
        let looked = sink.check().await.unwrap_err();
        assert!(is_unavailable(&refused, "password"), "{refused:?}");
        let told = format!("{refused:?} {looked} {sink:?}");
        assert!(!told.contains("canary"), "{told}");
    }
    // A password that is changed is asked for when the connection is made anew.
    let url = server.url().replace("://", "://:canary-right@");
    ask(&url, &["CONFIG", "SET", "requirepass", ""])
        .await
        .unwrap();
    assert_eq!(
        outcome(&builder().build().unwrap()).await,
        Outcome::Delivered
    );
}
