//! What a record is like: key, partition, body, and what others make of it.

use std::sync::Arc;

use posthaste::{Event, Message};
use posthaste_relay::Envelope;
use posthaste_relay::sink::kafka::Compression;
use posthaste_relay::sink::{Kafka, Outcome, Sink};
use serde_json::json;

use crate::cluster::*;

// K3
#[tokio::test]
async fn the_key_is_the_ordering_key_else_the_aggregates_id_else_the_events() {
    let brokers = shared().await;
    let topic = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &topic).build().unwrap();
    let aggregate = message().aggregate("Order", "42");
    let bare = event_of(message()).await;
    for event in [
        event_of(aggregate.clone().ordering_key("k 1")).await,
        event_of(aggregate).await,
        bare.clone(),
    ] {
        assert_eq!(sink.deliver(event).await, Outcome::Delivered);
    }
    let keys: Vec<_> = read(&brokers, &topic)
        .await
        .into_iter()
        .map(|one| one.key)
        .collect();
    let id = bare.id.to_string();
    assert_eq!(
        keys,
        [b"k 1".as_slice(), b"42", id.as_bytes()].map(|key| Some(key.to_vec()))
    );
}

// K3: these hashes are from the tests of Kafka's own client.
#[tokio::test]
async fn a_key_has_the_partition_that_clients_in_java_choose() {
    let brokers = shared().await;
    let (topic, partitions) = (fresh_name(), 7);
    create(&brokers, &topic, partitions, &[]).await;
    let sink = sink(&brokers, &topic).build().unwrap();
    let hashes = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        (
            "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        ),
        ("abc", 479_470_107),
    ];
    for (key, _) in hashes {
        let event = event_of(message().ordering_key(key)).await;
        assert_eq!(sink.deliver(event).await, Outcome::Delivered);
    }
    let records = read(&brokers, &topic).await;
    for (key, hash) in hashes {
        let found = records
            .iter()
            .find(|one| one.key.as_deref() == Some(key.as_bytes()));
        assert_eq!(
            found.unwrap().partition,
            (hash & 0x7fff_ffff) % partitions,
            "{key}"
        );
    }
}

// B21
#[tokio::test]
async fn an_empty_payload_is_no_tombstone() {
    let brokers = shared().await;
    let topic = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &topic).build().unwrap();
    let empty = event_of(Message::bytes(TOPIC, "text/plain", "")).await;
    assert_eq!(sink.deliver(empty).await, Outcome::Delivered);
    let record = read(&brokers, &topic).await.remove(0);
    assert_eq!(record.value, Some(Vec::new()));
}

// B21 F10
#[tokio::test]
async fn a_batch_is_compressed_on_the_way_and_a_payload_stays_as_it_is() {
    let brokers = shared().await;
    let topic = fresh_topic(&brokers).await;
    let mut event = Event::clone(&*event_of(of_size(10_000)).await);
    event
        .headers
        .insert("content-encoding".to_owned(), "zstd".to_owned());
    let event = Arc::new(event);
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let sink = sink(&brokers, &topic).compression(compression);
        let outcome = sink.build().unwrap().deliver(event.clone()).await;
        assert_eq!(outcome, Outcome::Delivered, "{compression:?}");
    }
    let records = read(&brokers, &topic).await;
    assert_eq!(records.len(), 4);
    for record in records {
        assert_eq!(record.value.as_deref(), Some(&event.payload[..]));
        assert_eq!(record.headers["content-encoding"], "zstd");
    }
}

// B21 K8
#[tokio::test]
async fn another_library_reads_the_cloud_events() {
    let brokers = shared().await;
    for (envelope, mode) in [
        (Envelope::cloud_events(), "binary"),
        (Envelope::cloud_events_structured(), "structured"),
    ] {
        let topic = fresh_topic(&brokers).await;
        let sink = sink(&brokers, &topic).envelope(envelope).build().unwrap();
        let event = event_of(
            message()
                .aggregate("Order", "№ 42")
                .event_type("OrderPlaced"),
        )
        .await;
        assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
        let read = python(&["cloud_events", &brokers, &topic, mode])
            .await
            .remove(0);
        let attributes = &read["attributes"];
        assert_eq!(attributes["id"], event.id.to_string());
        assert_eq!(attributes["type"], "OrderPlaced");
        assert_eq!(attributes["subject"], "Order/№ 42");
        assert_eq!(attributes["source"], "/shop/orders");
        assert_eq!(read["data"], json!({"n": 1}));
    }
}

#[tokio::test]
async fn a_topic_is_made_of_the_event_and_odd_characters_are_refused() {
    let brokers = shared().await;
    let prefix = fresh_name();
    for name in ["Order", "other"] {
        create(&brokers, &format!("{prefix}.{name}"), 1, &[]).await;
    }
    let template = format!("{prefix}.{{aggregate_type|other}}");
    let sink: Kafka = sink(&brokers, &template).build().unwrap();
    for (message, topic) in [
        (message().aggregate("Order", "1"), "Order"),
        (message(), "other"),
    ] {
        let event = event_of(message).await;
        assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
        let found = read(&brokers, &format!("{prefix}.{topic}")).await;
        assert_eq!(found[0].id(), event.id.to_string());
    }
    for odd in ["a b", "a/b", "ü", &"x".repeat(250)] {
        let outcome = sink
            .deliver(event_of(message().aggregate(odd, "1")).await)
            .await;
        assert!(
            matches!(&outcome, Outcome::Reject(why) if why.contains("Kafka topic")),
            "{outcome:?}"
        );
    }
}
