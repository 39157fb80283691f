//! `Sink::check`: a look that adds nothing.

use posthaste_relay::sink::{Redis, Sink};

use crate::stream::*;

async fn found(sink: Redis) -> String {
    sink.check().await.unwrap()
}

async fn wrong(sink: Redis) -> String {
    sink.check().await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_what_an_acknowledgement_means() {
    let server = private(&[]);
    let sink = || Redis::builder(server.url()).key("orders").build().unwrap();
    let told = found(sink()).await;
    assert!(told.starts_with("Redis "), "{told}");
    assert!(
        told.contains("on the server's disk (appendonly yes, appendfsync always)"),
        "{told}"
    );
    for (name, value, expected) in [
        ("appendfsync", "everysec", "about a second later"),
        ("appendfsync", "no", "when its system sees fit"),
        ("appendonly", "no", "in memory only"),
        ("maxmemory", "100mb", "in memory only"),
    ] {
        ask(&server.url(), &["CONFIG", "SET", name, value])
            .await
            .unwrap();
        let told = found(sink()).await;
        assert!(told.contains(expected), "{told}");
    }
    ask(
        &server.url(),
        &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
    )
    .await
    .unwrap();
    let told = found(sink()).await;
    assert!(told.contains("beware"), "{told}");
    assert_eq!(read(&server.url(), "*").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_a_key_that_is_no_stream_and_a_right_that_is_missing() {
    let server = private(&[]);
    let url = server.url();
    ask(&url, &["SET", "taken", "x"]).await.unwrap();
    let told = wrong(Redis::builder(&url).key("taken").build().unwrap()).await;
    assert!(told.contains("is a string, and no stream"), "{told}");
    let rules = [
        "ACL", "SETUSER", "reader", "on", ">canary", "~*", "+@read", "+info", "+acl",
    ];
    ask(&url, &rules).await.unwrap();
    let reader = Redis::builder(&url)
        .key("orders")
        .user("reader")
        .password("canary");
    let told = wrong(reader.build().unwrap()).await;
    assert!(
        told.contains("may not add") && !told.contains("canary"),
        "{told}"
    );
}

#[tokio::test]
async fn it_says_when_there_is_no_server() {
    let sink = Redis::builder("redis://127.0.0.1:1").build().unwrap();
    let told = wrong(sink).await;
    assert!(told.contains("cannot connect to 127.0.0.1:1"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_not_wait_for_ever() {
    let server = private(&[]);
    server.pause().unwrap();
    let sink = Redis::builder(server.url()).connect_timeout(MS(200));
    let told = wrong(sink.build().unwrap()).await;
    assert!(told.contains("no answer"), "{told}");
}
