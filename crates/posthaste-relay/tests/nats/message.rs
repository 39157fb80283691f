//! What is in a stream: subjects, headers, sizes, and what arrives once.

use std::sync::Arc;

use posthaste::{Event, Message};
use posthaste_relay::Envelope;
use posthaste_relay::sink::{Nats, Outcome};
use posthaste_testkit::sink_contract;

use crate::stream::*;

const TOPIC: &str = "shop.order.placed.v1";

// B21 N3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_carries_the_events_id_as_its_own() {
    let stream = Stream::new().await;
    for envelope in [
        Envelope::raw(),
        Envelope::cloud_events(),
        Envelope::cloud_events_structured(),
    ] {
        let sink = stream.builder().envelope(envelope).build().unwrap();
        let event = event().await;
        let outcome = sink_contract::deliver(&sink, &event).await;
        assert_eq!(outcome, Outcome::Delivered);
        let arrived = stream.arrived().await.pop().unwrap();
        assert_eq!(arrived.headers["Nats-Msg-Id"], event.id.to_string());
    }
}

// K8: the stream knows the id, and keeps the first only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_delivered_again_is_delivered_and_stored_once() {
    let stream = Stream::new().await;
    let event = event().await;
    for sink in [stream.sink(), stream.sink()] {
        for _ in 0..3 {
            let outcome = sink_contract::deliver(&sink, &event).await;
            assert_eq!(outcome, Outcome::Delivered);
        }
    }
    assert_eq!(stream.arrived().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_is_made_of_the_event_and_odd_characters_are_escaped() {
    let stream = Stream::new().await;
    let template = format!("{}.{{aggregate_id}}.{{tenant|none}}", stream.name);
    let sink = Nats::builder(&stream.url)
        .subject(template)
        .build()
        .unwrap();
    for (odd, token) in [
        ("42", "42"),
        ("a.b", "a%2Eb"),
        ("*", "%2A"),
        (">", "%3E"),
        ("a b", "a%20b"),
        ("50%", "50%25"),
        ("$JS", "%24JS"),
        ("№ 😀", "№%20😀"),
    ] {
        let message = sink_contract::message().aggregate("Order", odd);
        assert_eq!(
            outcome_of(&sink, message).await,
            Outcome::Delivered,
            "{odd}"
        );
        let (subject, _) = stream.messages().await.pop().unwrap();
        assert_eq!(subject, format!("{}.{token}.none", stream.name));
    }
    // What has none is rejected.
    let none = outcome(&sink).await;
    assert!(is_reject(&none, "aggregate_id"), "{none:?}");
}

// F6: no event can name a subject that means something else to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_are_no_subjects_are_rejected() {
    let stream = Stream::new().await;
    let bare = Nats::builder(&stream.url)
        .subject("{topic}")
        .build()
        .unwrap();
    let with_topic = async |topic: &str| {
        let mut event = Event::clone(&*event().await);
        event.topic = topic.to_owned();
        sink_contract::deliver(&bare, &Arc::new(event)).await
    };
    for topic in ["a..b", ".a", "a.", "."] {
        let outcome = with_topic(topic).await;
        assert!(is_reject(&outcome, "empty token"), "{topic}: {outcome:?}");
    }
    let inbox = with_topic("_INBOX.a").await;
    assert!(is_reject(&inbox, "answers"), "{inbox:?}");
    let long = with_topic(&"x".repeat(2049)).await;
    assert!(is_reject(&long, "too long"), "{long:?}");
    let api = format!("$JS.API.STREAM.DELETE.{}", stream.name);
    let outcome = with_topic(&api).await;
    assert!(is_retry(&outcome, "%24JS.API"), "{outcome:?}");
    assert_eq!(stream.arrived().await.len(), 0);
}

/// How many bytes a payload may have beside this event's headers.
async fn room(limit: usize, stream: &Stream) -> usize {
    let sink = stream.sink();
    let message = Message::bytes(TOPIC, "text/plain", "");
    assert_eq!(outcome_of(&sink, message).await, Outcome::Delivered);
    let arrived = stream.arrived().await.pop().unwrap();
    let lines = arrived.headers.iter();
    let lines: usize = lines
        .map(|(name, value)| name.len() + value.len() + ": \r\n".len())
        .sum();
    limit - "NATS/1.0\r\n".len() - lines - "\r\n".len()
}

// F6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_as_many_bytes_as_the_server_takes_arrives_and_one_more_is_rejected() {
    const LIMIT: usize = 64 * 1024;
    let server = private(&[("max_payload", &LIMIT.to_string())]);
    let stream = Stream {
        url: server.url(),
        name: NAME.to_owned(),
    };
    let config = async_nats::jetstream::stream::Config {
        name: NAME.to_owned(),
        subjects: vec![format!("{NAME}.>")],
        ..Default::default()
    };
    add(&server.url(), config).await;
    let room = room(LIMIT, &stream).await;
    let sink = stream.sink();
    let of_size = |size| Message::bytes(TOPIC, "text/plain", vec![b'x'; size]);
    for size in [0, room - 1, room] {
        let outcome = outcome_of(&sink, of_size(size)).await;
        assert_eq!(outcome, Outcome::Delivered, "{size}");
    }
    let large = outcome_of(&sink, of_size(room + 1)).await;
    assert!(is_reject(&large, "65536"), "{large:?}");
    let arrived = stream.arrived().await;
    let sizes: Vec<usize> = arrived.iter().map(|one| one.body.len()).collect();
    assert_eq!(sizes, [0, 0, room - 1, room]);
}

// F10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_payload_travels_with_its_encoding() {
    let stream = Stream::new().await;
    let mut event = Event::clone(&*event().await);
    let encoding = ("content-encoding".to_owned(), "zstd".to_owned());
    event.headers.extend([encoding]);
    let outcome = sink_contract::deliver(&stream.sink(), &Arc::new(event)).await;
    assert_eq!(outcome, Outcome::Delivered);
    let arrived = stream.arrived().await.remove(0);
    assert_eq!(arrived.header("content-encoding"), Some("zstd"));
}
