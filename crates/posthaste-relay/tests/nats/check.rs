//! `Sink::check`: a look that publishes nothing.

use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::StreamExt;
use posthaste_relay::sink::{Nats, Sink};

use crate::stream::*;

async fn found(sink: Nats) -> String {
    sink.check().await.unwrap()
}

async fn wrong(sink: Nats) -> String {
    sink.check().await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_what_an_acknowledgement_means() {
    for (storage, expected) in [
        (StorageType::File, "in a file of one server"),
        (
            StorageType::Memory,
            "in the memory of one server, and lost with it",
        ),
    ] {
        let stream = Stream::with(Config {
            storage,
            max_message_size: 1234,
            ..Config::default()
        })
        .await;
        let fixed = Nats::builder(&stream.url).subject(format!("{}.orders", stream.name));
        for sink in [fixed.build().unwrap(), stream.sink()] {
            let told = found(sink).await;
            assert!(
                told.starts_with("NATS ") && told.contains("1048576 bytes"),
                "{told}"
            );
            assert!(
                told.contains(expected) && told.contains("up to 1234 bytes"),
                "{told}"
            );
            assert!(
                told.contains(&stream.name) && told.contains("duplicates for 120 s"),
                "{told}"
            );
        }
        assert_eq!(stream.arrived().await.len(), 0);
    }
}

// Found out before the first event, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_out_whether_the_user_may_publish() {
    let rights = r#"{ users: [
        { user: admin, password: canary }
        { user: relay, password: canary, permissions: {
            publish: [ "shop.orders", "$JS.API.>" ], subscribe: [ "_INBOX.>" ] } }
    ] }"#;
    let server = private(&[("authorization", rights)]);
    let admin = async_nats::ConnectOptions::with_user_and_password("admin".into(), "canary".into());
    let listener = admin.connect(server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(listener.clone());
    jetstream.create_stream(usual()).await.unwrap();
    let mut heard = listener.subscribe("shop.>").await.unwrap();
    listener.flush().await.unwrap();
    let look = async |subject: &str| {
        let sink = Nats::builder(server.url()).user("relay", "canary");
        sink.subject(subject).build().unwrap().check().await
    };
    let found = look("shop.orders").await.unwrap();
    assert!(found.contains("this user may publish there"), "{found}");
    let found = look("shop.invoices").await.unwrap_err();
    assert_eq!(
        found,
        "this user may not publish to subject \"shop.invoices\""
    );
    let found = look("shop.{topic}").await.unwrap();
    assert!(found.contains("shows with the first events"), "{found}");
    let mut stream = jetstream.get_stream(NAME).await.unwrap();
    assert_eq!(stream.info().await.unwrap().state.messages, 0);
    // Who listens without a stream sees it, and can tell.
    let message = heard.next().await.unwrap();
    assert_eq!(
        (&*message.subject, message.payload.len()),
        ("shop.orders", 0)
    );
    let headers = message.headers.unwrap();
    assert_eq!(headers.get("posthaste-check").unwrap().as_str(), "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_what_would_store_nothing() {
    let server = private(&[]);
    let sink = |subject: &str| {
        Nats::builder(server.url())
            .subject(subject)
            .build()
            .unwrap()
    };
    let told = wrong(sink("{topic}")).await;
    assert!(told.contains("there is no stream yet"), "{told}");
    let told = wrong(sink("orders.placed")).await;
    assert!(told.contains("\"orders.placed\""), "{told}");
    let silent = Config {
        no_ack: true,
        ..usual()
    };
    add(&server.url(), silent).await;
    let told = wrong(sink("shop.orders")).await;
    assert!(told.contains("does not acknowledge"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_a_server_without_jetstream() {
    let accounts = r#"{ A: { users: [ { user: a, password: canary } ] } }"#;
    let server = private(&[("accounts", accounts)]);
    let sink = Nats::builder(server.url()).user("a", "canary");
    let told = wrong(sink.build().unwrap()).await;
    assert!(
        told.contains("JetStream") && !told.contains("canary"),
        "{told}"
    );
}

#[tokio::test]
async fn it_says_when_there_is_no_server() {
    let told = wrong(Nats::builder("nats://127.0.0.1:1").build().unwrap()).await;
    assert!(told.contains("cannot connect to 127.0.0.1:1"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_not_wait_for_ever() {
    let server = private(&[]);
    server.pause().unwrap();
    let sink = Nats::builder(server.url())
        .connect_timeout(MS(200))
        .timeout(MS(200));
    let told = wrong(sink.build().unwrap()).await;
    assert!(
        told.contains("cannot connect") || told.contains("no answer"),
        "{told}"
    );
}
