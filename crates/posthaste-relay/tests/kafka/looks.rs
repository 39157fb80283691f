//! `check`: what a look at the cluster tells, and that it leaves nothing behind.

use std::time::Duration;

use posthaste_relay::sink::{Kafka, Sink};

use crate::cluster::*;

#[tokio::test]
async fn a_look_tells_of_the_topic_and_what_an_acknowledgement_means() {
    let brokers = shared().await;
    let name = fresh_name();
    create(&brokers, &name, 3, &[("max.message.bytes", "50000")]).await;
    let found = sink(&brokers, &name)
        .build()
        .unwrap()
        .check()
        .await
        .unwrap();
    for part in [
        "connected and accepted; 1 broker",
        "has 3 partitions with 1 replica",
        "records of up to 50000 bytes; this user may write to it",
        "all in-sync replicas have it, at least 1: one broker that is lost for good can take it along",
    ] {
        assert!(found.contains(part), "{found}");
    }
    assert!(read(&brokers, &name).await.is_empty());
}

#[tokio::test]
async fn a_look_at_a_topic_that_is_made_of_events_tells_of_the_cluster() {
    let brokers = shared().await;
    let found = sink(&brokers, "{topic}").build().unwrap().check().await;
    assert!(found.unwrap().contains("the topic is made of each event"));
}

#[tokio::test]
async fn a_look_at_a_topic_that_is_not_there_does_not_make_it() {
    let brokers = shared().await;
    let name = fresh_name();
    let sink = sink(&brokers, &name).build().unwrap();
    for _ in 0..2 {
        let why = sink.check().await.unwrap_err();
        assert!(why.contains("does not exist, or may not be seen"), "{why}");
    }
}

#[tokio::test]
async fn a_look_at_nobody_says_so() {
    for broker in ["127.0.0.1:1", "no-such-host.invalid:9092"] {
        let sink = Kafka::builder([broker]).timeout(Duration::from_secs(5));
        let why = sink.build().unwrap().check().await.unwrap_err();
        let host = broker.split(':').next().unwrap();
        assert!(why.contains(host), "{why}");
    }
}
