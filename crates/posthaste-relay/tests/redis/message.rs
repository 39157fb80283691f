//! What is in a stream: keys, fields, sizes, and what is trimmed.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste::Event;
use posthaste_relay::sink::{Outcome, Redis, Sink as _};
use posthaste_testkit::scene::{Log, eventually};
use posthaste_testkit::sink_contract::{self, Arrived};

use crate::stream::*;

// B21 N3
#[tokio::test]
async fn an_entry_has_a_field_for_each_header_and_one_for_the_payload() {
    let stream = Stream::new();
    let sent = sink_contract::full().id(uuid::Uuid::new_v4());
    assert_eq!(outcome_of(&stream.sink(), sent).await, Outcome::Delivered);
    let arrived = stream.arrived().await.remove(0);
    let names: Vec<&str> = arrived.headers.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "X-Empty",
            "content-type",
            "posthaste-aggregate-id",
            "posthaste-aggregate-type",
            "posthaste-id",
            "posthaste-key",
            "posthaste-namespace",
            "posthaste-sequence",
            "posthaste-tenant",
            "posthaste-time",
            "posthaste-topic",
            "posthaste-type",
            "source",
            "traceparent",
            "tracestate"
        ]
    );
    assert_eq!(arrived.body, b"{\"n\":1}");
}

#[tokio::test]
async fn events_go_over_as_many_connections_as_are_asked_for() {
    let server = private(&[]);
    let connections = async || {
        let clients = ask(&server.url(), &["CLIENT", "LIST"]).await.unwrap();
        let clients: String = redis::from_redis_value(clients).unwrap();
        clients.matches("cmd=xadd ").count()
    };
    for asked in [1, 3] {
        let sink = Redis::builder(server.url()).connections(asked);
        let sink = sink.build().unwrap();
        let events = sink_contract::events(&vec![sink_contract::message(); 500]).await;
        let all = events.iter().map(|event| sink.deliver(event.clone()));
        let outcomes = futures_util::future::join_all(all).await;
        assert!(outcomes.iter().all(|one| *one == Outcome::Delivered));
        assert_eq!(connections().await, asked);
        drop(sink);
        let is_over = async || connections().await == 0;
        eventually("the server saw them end", is_over).await;
    }
}

// Told in the log; whether it wants a password or not.
#[tokio::test]
async fn a_server_with_room_for_some_connections_only_is_delivered_to() {
    for password in ["", "canary"] {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let server = private(&[("maxclients", "2"), ("requirepass", password)]);
        let builder = |connections| {
            let builder = Redis::builder(server.url()).connections(connections);
            match password {
                "" => builder,
                password => builder.password(password),
            }
        };
        let sink = builder(4).build().unwrap();
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
        let told = log.text();
        assert!(
            told.contains("fewer connections: ") && told.contains("max number of clients"),
            "{told}"
        );
        let none = outcome(&builder(1).build().unwrap()).await;
        assert!(is_unavailable(&none, "max number of clients"), "{none:?}");
    }
}

#[tokio::test]
async fn a_key_is_made_of_the_event_and_keeps_odd_characters() {
    let stream = Stream::new();
    let template = format!("{}:{{aggregate_id}}:{{tenant|none}}", stream.key);
    let sink = Redis::builder(&stream.url).key(template).build().unwrap();
    let odd = "№ 42 \"a\" 50% *?[x] 😀";
    let message = sink_contract::message().aggregate("Order", odd);
    assert_eq!(outcome_of(&sink, message).await, Outcome::Delivered);
    let key = format!("{}:{odd}:none", stream.key);
    assert_eq!(read(&stream.url, &key).await.len(), 1);
    // What has none is rejected, and so is a key that is too long.
    let none = outcome(&sink).await;
    assert!(matches!(none, Outcome::Reject(_)), "{none:?}");
    let mut long = Event::clone(&*event().await);
    long.aggregate_id = Some("x".repeat(9000));
    let long = sink_contract::deliver(&sink, &Arc::new(long)).await;
    assert!(
        matches!(&long, Outcome::Reject(why) if why.contains("too long")),
        "{long:?}"
    );
}

#[tokio::test]
async fn a_stream_that_is_trimmed_forgets_its_oldest_entries() {
    let stream = Stream::new();
    let sink = stream.builder().max_length(100).build().unwrap();
    let events = sink_contract::events(&vec![sink_contract::message(); 1000]).await;
    for event in &events {
        assert_eq!(
            sink_contract::deliver(&sink, event).await,
            Outcome::Delivered
        );
    }
    let arrived: Vec<_> = stream
        .arrived()
        .await
        .iter()
        .filter_map(Arrived::id)
        .collect();
    // Whole nodes of a hundred are dropped, so it is never fewer.
    assert!((100..=300).contains(&arrived.len()), "{}", arrived.len());
    let last: Vec<_> = events.iter().map(|event| event.id).collect();
    assert!(last.ends_with(&arrived));
}

// F6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_as_many_bytes_as_the_server_takes_arrives_and_one_more_is_rejected() {
    const LIMIT: usize = 1024 * 1024;
    let server = private(&[("proto-max-bulk-len", &LIMIT.to_string())]);
    let sink = Redis::builder(server.url()).build().unwrap();
    let deliver = async |size| {
        let mut event = Event::clone(&*event().await);
        event.payload = vec![b'x'; size].into();
        sink_contract::deliver(&sink, &Arc::new(event)).await
    };
    for size in [0, LIMIT - 1, LIMIT] {
        assert_eq!(deliver(size).await, Outcome::Delivered);
    }
    let large = deliver(LIMIT + 1).await;
    assert!(
        matches!(&large, Outcome::Reject(why) if why.contains("1048577") && why.contains("1048576")),
        "{large:?}"
    );
    let sizes: HashSet<usize> = read(&server.url(), "*")
        .await
        .iter()
        .map(|one| one.body.len())
        .collect();
    assert_eq!(sizes, HashSet::from([0, LIMIT - 1, LIMIT]));
}

#[tokio::test]
async fn databases_are_chosen_by_number() {
    let server = private(&[]);
    let url = format!("{}/3", server.url());
    let sink = Redis::builder(&url).build().unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    assert_eq!(read(&url, "*").await.len(), 1);
    assert_eq!(read(&server.url(), "*").await.len(), 0);
}

// F10
#[tokio::test]
async fn a_compressed_payload_travels_with_its_encoding() {
    let stream = Stream::new();
    let mut event = Event::clone(&*event().await);
    let encoding = ("content-encoding".to_owned(), "zstd".to_owned());
    event.headers.extend([encoding]);
    let outcome = sink_contract::deliver(&stream.sink(), &Arc::new(event)).await;
    assert_eq!(outcome, Outcome::Delivered);
    let arrived = stream.arrived().await.remove(0);
    assert_eq!(arrived.header("content-encoding"), Some("zstd"));
    assert_eq!(arrived.header("content-type"), Some("application/json"));
}
