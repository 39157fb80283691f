use std::time::{Duration, UNIX_EPOCH};

use posthaste::Message;
use serde_json::{Value, json};

use super::*;
use crate::sample;

const ALL: [Binding; 5] = [
    Binding::Http,
    Binding::Kafka,
    Binding::Amqp,
    Binding::Nats,
    Binding::Redis,
];

async fn full() -> Event {
    let mut event = sample::full().await;
    event.created_at = UNIX_EPOCH + Duration::from_secs(1_709_208_000);
    event
}

fn lines(sealed: &Sealed<'_>, binding: Binding) -> Vec<String> {
    let headers = sealed.headers(binding);
    let mut lines: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.sort();
    lines
}

// B21 K8 K9 N3 B12
#[tokio::test]
async fn a_raw_event_travels_with_its_fields_and_its_payload_untouched() {
    let event = full().await;
    let envelope = Envelope::raw();
    let sealed = envelope.seal(&event).unwrap();
    assert_eq!(sealed.body, event.payload);
    let expected = [
        "content-type: application/json",
        "posthaste-aggregate-id: № 42",
        "posthaste-aggregate-type: Order",
        "posthaste-id: 00000000-0000-0000-0000-000000000001",
        "posthaste-key: 42/a.b",
        "posthaste-namespace: eu",
        "posthaste-sequence: 1",
        "posthaste-tenant: 00000000-0000-0000-0000-000000000007",
        "posthaste-time: 2024-02-29T12:00:00.000000Z",
        "posthaste-topic: shop.order.placed.v1",
        "posthaste-type: OrderPlaced",
        "source: check out",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "tracestate: vendor=a b",
    ];
    assert_eq!(lines(&sealed, Binding::Kafka), expected);
    assert_eq!(lines(&sealed, Binding::Redis), expected);
    let http = lines(&sealed, Binding::Http);
    // What the producer wrote stays as it is; our own values are encoded, as in CloudEvents.
    assert!(http.contains(&"source: check out".to_owned()));
    assert!(http.contains(&"posthaste-aggregate-id: %E2%84%96%2042".to_owned()));
    assert!(!lines(&sealed, Binding::Amqp)[0].starts_with("content-type"));
}

// B21 K8 B12
#[tokio::test]
async fn attributes_of_cloud_events_have_the_names_of_each_binding() {
    let event = full().await;
    let envelope = Envelope::cloud_events();
    let sealed = envelope.seal(&event).unwrap();
    assert_eq!(
        (&sealed.body, &*sealed.content_type),
        (&event.payload, "application/json")
    );
    assert_eq!(
        lines(&sealed, Binding::Http),
        [
            "ce-aggregateid: %E2%84%96%2042",
            "ce-aggregatetype: Order",
            "ce-id: 00000000-0000-0000-0000-000000000001",
            "ce-namespace: eu",
            "ce-partitionkey: 42/a.b",
            "ce-sequence: 0000000000000000001",
            "ce-source: /shop/orders",
            "ce-specversion: 1.0",
            "ce-subject: Order/%E2%84%96%2042",
            "ce-tenantid: 00000000-0000-0000-0000-000000000007",
            "ce-time: 2024-02-29T12:00:00.000000Z",
            "ce-topic: shop.order.placed.v1",
            "ce-traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ce-tracestate: vendor=a%20b",
            "ce-type: OrderPlaced",
            "content-type: application/json",
            "source: check out",
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "tracestate: vendor=a b",
        ]
    );
    for (binding, id, subject) in [
        (Binding::Kafka, "ce_id: ", "ce_subject: Order/№ 42"),
        (Binding::Redis, "ce_id: ", "ce_subject: Order/№ 42"),
        (
            Binding::Amqp,
            "cloudEvents_id: ",
            "cloudEvents_subject: Order/№ 42",
        ),
        (Binding::Nats, "ce-id: ", "ce-subject: Order/%E2%84%96%2042"),
    ] {
        let lines = lines(&sealed, binding);
        assert!(lines.contains(&format!("{id}{}", event.id)), "{lines:?}");
        assert!(lines.contains(&subject.to_owned()), "{lines:?}");
    }
    assert!(
        lines(&sealed, Binding::Nats).contains(&"ce-datacontenttype: application/json".to_owned())
    );
}

// B21
#[tokio::test]
async fn structured_mode_holds_json_as_it_is() {
    let event = full().await;
    let envelope = Envelope::cloud_events_structured()
        .source("urn:shop")
        .unwrap();
    let sealed = envelope.seal(&event).unwrap();
    assert_eq!(
        sealed.content_type,
        "application/cloudevents+json; charset=utf-8"
    );
    let text = std::str::from_utf8(&sealed.body).unwrap();
    let payload = std::str::from_utf8(&event.payload).unwrap();
    assert!(text.ends_with(&format!(",\"data\":{payload}}}")), "{text}");
    let whole: Value = serde_json::from_str(text).unwrap();
    assert_eq!(whole["id"], json!(event.id.to_string()));
    assert_eq!(whole["source"], "urn:shop");
    assert_eq!(whole["subject"], "Order/№ 42");
    assert_eq!(whole["datacontenttype"], "application/json");
    assert_eq!(
        lines(&sealed, Binding::Nats),
        [
            "Content-Type: application/cloudevents+json; charset=utf-8",
            "source: check out",
            "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "tracestate: vendor=a b",
        ]
    );
}

// B21
#[tokio::test]
async fn structured_mode_holds_anything_else_as_base64() {
    let envelope = Envelope::cloud_events_structured();
    for (content_type, payload, base64) in [
        ("application/octet-stream", &[0_u8, 159, 146][..], "AJ+S"),
        ("application/json", b"no json", "bm8ganNvbg=="),
        ("application/json", b"", ""),
        ("text/plain", b"{}", "e30="),
    ] {
        let event = sample::event(Message::bytes(
            "shop.order.placed.v1",
            content_type,
            payload,
        ))
        .await;
        let sealed = envelope.seal(&event).unwrap();
        let whole: Value = serde_json::from_slice(&sealed.body).unwrap();
        assert_eq!(whole["data_base64"], base64);
        assert!(whole.get("data").is_none());
    }
}

#[tokio::test]
async fn names_of_attributes_are_what_cloud_events_allows() {
    let event = full().await;
    let envelope = Envelope::cloud_events();
    for (name, value) in envelope.attributes(&event) {
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        assert!(plain && name.len() <= 20 && !value.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn no_name_travels_twice_and_an_empty_text_is_none() {
    let mut event = full().await;
    event.aggregate_type = Some(String::new());
    event.event_type = Some(String::new());
    for envelope in [
        Envelope::raw(),
        Envelope::cloud_events(),
        Envelope::cloud_events_structured(),
    ] {
        let sealed = envelope.seal(&event).unwrap();
        for binding in ALL {
            let mut names: Vec<String> = sealed
                .headers(binding)
                .map(|(name, _)| name.to_ascii_lowercase())
                .collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "{envelope} {binding:?}");
            assert!(sealed.headers(binding).all(|(_, value)| !value.is_empty()));
        }
    }
    let envelope = Envelope::cloud_events();
    let attributes = envelope.attributes(&event);
    assert!(attributes.contains(&("type", "shop.order.placed.v1".into())));
    assert!(attributes.contains(&("subject", "№ 42".into())));
}

#[tokio::test]
async fn a_row_that_nobody_checked_is_refused_and_never_changed() {
    let good = full().await;
    let bad = |change: fn(&mut Event)| {
        let mut event = good.clone();
        change(&mut event);
        Envelope::raw()
            .seal(&event)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    for (error, word) in [
        (
            bad(|event| drop(event.headers.insert("ce-id".into(), "x".into()))),
            "ce-id",
        ),
        (
            bad(|event| drop(event.headers.insert("a".into(), "x\r\ny: z".into()))),
            "\"a\"",
        ),
        (bad(|event| event.topic = "a\nb".into()), "topic"),
        (
            bad(|event| event.aggregate_id = Some("a\rb".into())),
            "aggregate_id",
        ),
        (
            bad(|event| event.content_type = "text/ü".into()),
            "content_type",
        ),
        (bad(|event| event.content_type.clear()), "content_type"),
        (
            bad(|event| event.trace.as_mut().unwrap().traceparent = "a\nb".into()),
            "traceparent",
        ),
    ] {
        assert!(error.contains(word), "{error}");
    }
}

// M15
#[tokio::test]
async fn an_event_that_is_sent_again_says_of_which() {
    let mut event = full().await;
    let old = uuid::Uuid::new_v4().to_string();
    event
        .headers
        .insert("posthaste-redelivery-of".into(), old.clone());
    let envelope = Envelope::raw();
    let sealed = envelope.seal(&event).unwrap();
    let line = format!("posthaste-redelivery-of: {old}");
    assert!(lines(&sealed, Binding::Http).contains(&line));
}

#[test]
fn a_source_is_a_uri_reference() {
    for good in [
        "/orders",
        "https://shop.example/a?b#c",
        "urn:uuid:1",
        "a%20b",
        "//h/p",
    ] {
        assert!(Envelope::cloud_events().source(good).is_ok(), "{good}");
    }
    for bad in ["", "a b", "a%2", "a%zz", "ü", "<a>", "a\nb"] {
        let error = Envelope::cloud_events().source(bad).unwrap_err();
        assert_eq!(error.code(), "envelope.source");
    }
}

#[test]
fn an_envelope_is_known_by_its_name() {
    for name in ["raw", "cloudevents", "cloudevents-structured"] {
        assert_eq!(name.parse::<Envelope>().unwrap().to_string(), name);
    }
    assert_eq!(
        "xml".parse::<Envelope>().unwrap_err().code(),
        "envelope.unknown"
    );
}

// F10
#[tokio::test]
async fn a_dead_letter_travels_without_the_headers_that_its_event_died_of() {
    let mut event = full().await;
    event.headers.insert("two words".to_owned(), "x".to_owned());
    let envelope = Envelope::raw();
    assert!(envelope.seal(&event).is_err());
    let told = [
        (
            header::DEAD_LETTER_OF,
            "00000000-0000-0000-0000-000000000002",
        ),
        (header::DEAD_REASON, "rejected"),
    ];
    let told = told.map(|(name, value)| (name.to_owned(), value.to_owned()));
    event.headers.extend(told);
    let sealed = envelope.seal(&event).unwrap();
    for binding in ALL {
        let lines = lines(&sealed, binding);
        assert!(lines.contains(&"posthaste-dead-reason: rejected".to_owned()));
        assert!(lines.contains(&"source: check out".to_owned()));
        assert!(!lines.iter().any(|line| line.starts_with("two words")));
    }
}

// F10
#[tokio::test]
async fn a_compressed_payload_travels_as_it_is_with_its_encoding_stated() {
    let mut event = full().await;
    let encoding = ("content-encoding".to_owned(), "zstd".to_owned());
    event.headers.extend([encoding]);
    event.payload = Bytes::from_static(b"\x28\xb5\x2f\xfd whatever");
    for envelope in [Envelope::raw(), Envelope::cloud_events()] {
        let sealed = envelope.seal(&event).unwrap();
        assert_eq!(sealed.body, event.payload);
        assert_eq!(sealed.content_type, "application/json");
        for binding in ALL {
            let stated = "content-encoding: zstd".to_owned();
            assert!(lines(&sealed, binding).contains(&stated), "{binding:?}");
        }
    }
    let envelope = Envelope::cloud_events_structured();
    let sealed = envelope.seal(&event).unwrap();
    let whole: Value = serde_json::from_slice(&sealed.body).unwrap();
    assert_eq!(whole["contentencoding"], "zstd");
    assert_eq!(whole["datacontenttype"], "application/json");
    assert_eq!(whole["data_base64"], "KLUv/SB3aGF0ZXZlcg==");
    for binding in ALL {
        let lines = lines(&sealed, binding);
        assert!(
            !lines.iter().any(|line| line.contains("encoding")),
            "{lines:?}"
        );
    }
}

// Rows may come from anywhere, with anything in the headers that are ours.
#[tokio::test]
async fn a_header_of_ours_is_checked_as_any_other() {
    let mut event = full().await;
    for name in [header::REDELIVERY_OF, header::CONTENT_ENCODING] {
        let injected = "x\r\nauthorization: mine".to_owned();
        event.headers.insert(name.to_owned(), injected);
        assert!(Envelope::raw().seal(&event).is_err(), "{name}");
        event.headers.remove(name);
    }
    assert!(Envelope::raw().seal(&event).is_ok());
}
