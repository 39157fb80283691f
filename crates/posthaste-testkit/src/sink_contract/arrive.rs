//! Arrive: what is delivered is what was enqueued.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use posthaste::store::Claim;
use posthaste::{Compression, DEFAULT_PAYLOAD_LIMIT, Event, Message, Store, decompress};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::{Outcome, Sink};
use tokio::task::JoinSet;

use super::{Arrived, Place, TOPIC, arrived, deliver, delivered, event, events, full, message};
use crate::outbox::Fresh;
use crate::server;

/// What an envelope makes of an event, in the headers of this place.
fn assert_carries<P: Place>(arrived: &Arrived, envelope: &Envelope, event: &Event) {
    let sealed = envelope.seal(event).unwrap();
    for (name, value) in sealed.headers(P::BINDING) {
        assert_eq!(arrived.header(&name), Some(&*value), "{name}");
    }
    assert_eq!(arrived.header("content-type"), Some(&*sealed.content_type));
    assert!(arrived.body == sealed.body, "the body is another");
}

async fn arrives_in<P: Place>(
    place: &P,
    envelope: Envelope,
    message: Message,
) -> (Arc<Event>, Arrived) {
    let event = event(message).await;
    let sink = place.sink(envelope.clone()).await;
    delivered(&sink, &event).await;
    let arrived = arrived(place, 1).await.remove(0);
    assert_carries::<P>(&arrived, &envelope, &event);
    (event, arrived)
}

// org-5.1.9, org-5.4.4, B21 K8 K9 N3 B12
pub async fn an_event_arrives_with_all_that_it_says<P: Place>(place: P) {
    let (event, arrived) = arrives_in(&place, Envelope::raw(), full()).await;
    assert_eq!(arrived.id(), Some(event.id));
    assert_eq!(arrived.header("posthaste-topic"), Some(TOPIC));
    assert_eq!(arrived.header("posthaste-key"), Some("order-42"));
    assert_eq!(arrived.header("source"), Some("check out, 50% \"off\""));
    let trace = event.trace.as_ref().unwrap();
    assert_eq!(arrived.header("traceparent"), Some(&*trace.traceparent));
    assert_eq!(arrived.header("tracestate"), trace.tracestate.as_deref());
    assert_eq!(arrived.body, event.payload);
}

// B21 K8 B12
pub async fn a_cloud_event_arrives_with_its_attributes<P: Place>(place: P) {
    let (event, arrived) = arrives_in(&place, Envelope::cloud_events(), full()).await;
    // What each protocol's binding puts before the name of an attribute.
    let prefix = match P::BINDING {
        Binding::Http | Binding::Nats => "ce-",
        Binding::Kafka | Binding::Redis => "ce_",
        Binding::Amqp => "cloudEvents_",
    };
    let id = arrived.header(&format!("{prefix}id"));
    assert_eq!(id, Some(&*event.id.to_string()));
    assert_eq!(arrived.body, event.payload);
    let headers = arrived.headers.iter().map(|(name, value)| {
        let name = match name.get(..prefix.len()) {
            Some(start) if start.eq_ignore_ascii_case(prefix) => {
                format!("ce-{}", &name[prefix.len()..])
            }
            _ => name.clone(),
        };
        (name, value.clone())
    });
    assert_understood(headers.collect(), &arrived.body, &event).await;
}

/// The library of the CloudEvents project reads in it what was enqueued. It knows HTTP: what other protocols
/// call the attributes is to be told in its words.
async fn assert_understood(headers: BTreeMap<String, String>, body: &[u8], event: &Event) {
    const SCRIPT: &str = include_str!("../../python/cloudevent.py");
    let headers = serde_json::to_string(&headers).unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let read = move || server::python(SCRIPT, &[&headers, &body]).unwrap();
    let printed = tokio::task::spawn_blocking(read).await.unwrap();
    let read: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    let attributes = &read["attributes"];
    assert_eq!(attributes["specversion"], "1.0");
    assert_eq!(attributes["id"], event.id.to_string());
    assert_eq!(attributes["type"], "OrderPlaced");
    assert_eq!(attributes["datacontenttype"], "application/json");
    let trace = event.trace.as_ref().unwrap();
    assert_eq!(attributes["traceparent"], trace.traceparent);
    assert_eq!(read["data"], serde_json::json!({"n": 1}));
}

// B21 K8
pub async fn a_structured_cloud_event_arrives_as_one_object<P: Place>(place: P) {
    let (event, arrived) = arrives_in(&place, Envelope::cloud_events_structured(), full()).await;
    let whole: serde_json::Value = serde_json::from_slice(&arrived.body).unwrap();
    assert_eq!(whole["id"], event.id.to_string());
    assert_eq!(whole["data"], serde_json::json!({"n": 1}));
    let content_type = arrived.header("content-type").unwrap().to_owned();
    let headers = BTreeMap::from([("content-type".to_owned(), content_type)]);
    assert_understood(headers, &arrived.body, &event).await;
}

// B21
pub async fn a_bare_event_arrives<P: Place>(place: P) {
    let bare = Message::bytes(TOPIC, "text/plain", "x");
    arrives_in(&place, Envelope::raw(), bare).await;
}

// B21
pub async fn payloads_arrive_as_they_were<P: Place>(place: P) {
    let binary = |size: usize| (0..=255_u8).cycle().take(size).collect::<Vec<u8>>();
    let mut payloads = vec![
        Vec::new(),
        vec![0],
        b"\r\n\r\n.\r\n".to_vec(),
        "{ \"kept\" : [1.50, \"ü\"] }".into(),
        binary(65_537),
    ];
    if place.too_large().is_none_or(|limit| limit > 1024 * 1024) {
        payloads.push(binary(1024 * 1024));
    }
    let messages: Vec<Message> = payloads
        .iter()
        .map(|payload| Message::bytes(TOPIC, "application/octet-stream", payload.clone()))
        .collect();
    let sink = place.sink(Envelope::raw()).await;
    let events = events(&messages).await;
    for event in &events {
        delivered(&sink, event).await;
    }
    let arrived = arrived(&place, payloads.len()).await;
    for (event, payload) in events.iter().zip(&payloads) {
        let found = arrived.iter().find(|one| one.id() == Some(event.id));
        let same = found.expect("it arrived").body == *payload;
        assert!(same, "a payload of {} bytes changed", payload.len());
    }
}

// F10
pub async fn what_was_compressed_arrives_compressed_and_says_so<P: Place>(place: P) {
    let mut fresh = Fresh::new().await;
    fresh.outbox = fresh.outbox.clone().compress(Compression::default());
    let text = format!("{{\"text\":\"{}\"}}", "all work and no play ".repeat(1000));
    fresh
        .enqueue(&[Message::json_text(TOPIC, text.clone()).unwrap()])
        .await;
    let claimed = fresh.store().await.claim(&Claim::new(1)).await.unwrap();
    let event = Arc::new(claimed.events.into_iter().next().unwrap());
    assert!(event.payload.len() < text.len() / 10);
    let sink = place.sink(Envelope::raw()).await;
    delivered(&sink, &event).await;
    let arrived = arrived(&place, 1).await.remove(0);
    assert_eq!(arrived.header("content-encoding"), Some("zstd"));
    let unpacked = decompress(Some("zstd"), arrived.body.into(), DEFAULT_PAYLOAD_LIMIT).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&unpacked).unwrap();
    assert_eq!(
        read,
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    );
}

// B21
pub async fn odd_texts_arrive_as_they_were<P: Place>(place: P) {
    let odd = r#"№ "42" 50% a/b.c*>#; ünï 😀"#;
    let message = message()
        .aggregate(odd, odd)
        .event_type(odd)
        .ordering_key(odd)
        .namespace(odd);
    arrives_in(&place, Envelope::cloud_events(), message).await;
}

// K8
pub async fn an_event_that_is_delivered_twice_carries_the_same_id<P: Place>(place: P) {
    let sink = place.sink(Envelope::raw()).await;
    let event = event(full()).await;
    delivered(&sink, &event).await;
    delivered(&sink, &event).await;
    let arrived = arrived(&place, 1).await;
    // A destination that knows the id keeps the first only.
    assert!(arrived.len() <= 2);
    assert!(arrived.iter().all(|one| one.id() == Some(event.id)));
}

// F6
pub async fn a_row_that_cannot_be_carried_is_rejected<P: Place>(place: P) {
    let sink = place.sink(Envelope::raw()).await;
    let good = event(message()).await;
    for (name, value) in [
        ("a", "b\r\nposthaste-id: forged"),
        ("posthaste-id", "forged"),
        ("ü", "x"),
    ] {
        let mut bad = Event::clone(&good);
        bad.headers.insert(name.to_owned(), value.to_owned());
        let outcome = deliver(&sink, &Arc::new(bad)).await;
        assert!(matches!(outcome, Outcome::Reject(_)), "{name}: {outcome:?}");
    }
    delivered(&sink, &good).await;
    assert_eq!(arrived(&place, 1).await.len(), 1);
}

// F6
pub async fn what_is_too_large_is_rejected_and_its_neighbours_arrive<P: Place>(place: P) {
    let Some(size) = place.too_large() else {
        return;
    };
    // Larger than an outbox takes by default, and yet it may be in one.
    let mut large = Event::clone(&*event(message()).await);
    large.payload = vec![b'x'; size].into();
    let large = Arc::new(large);
    let sink = place.sink(Envelope::raw()).await;
    let neighbours = events(&vec![message(); 20]).await;
    let (before, after) = neighbours.split_at(10);
    let (outcome, (), ()) = tokio::join!(
        deliver(&sink, &large),
        all(&sink, before),
        all(&sink, after)
    );
    assert!(matches!(outcome, Outcome::Reject(_)), "{outcome:?}");
    let ids: BTreeSet<_> = arrived(&place, 20).await.iter().map(Arrived::id).collect();
    assert!(neighbours.iter().all(|event| ids.contains(&Some(event.id))));
    assert!(!ids.contains(&Some(large.id)));
}

async fn all(sink: &impl Sink, events: &[Arc<Event>]) {
    for event in events {
        delivered(sink, event).await;
    }
}

// B8
pub async fn a_thousand_at_once_all_arrive<P: Place>(place: P) {
    let sink = Arc::new(place.sink(Envelope::raw()).await);
    let events = events(&vec![message(); 1000]).await;
    let mut deliveries = JoinSet::new();
    for event in events.clone() {
        let sink = sink.clone();
        deliveries.spawn(async move { delivered(&*sink, &event).await });
    }
    while let Some(ended) = deliveries.join_next().await {
        ended.unwrap();
    }
    let ids: BTreeSet<_> = arrived(&place, 1000)
        .await
        .iter()
        .map(Arrived::id)
        .collect();
    assert!(events.iter().all(|event| ids.contains(&Some(event.id))));
}

// M7
pub async fn events_delivered_one_after_the_other_arrive_in_that_order<P: Place>(place: P) {
    let sink = place.sink(Envelope::raw()).await;
    let events = events(&vec![message().ordering_key("k"); 100]).await;
    all(&sink, &events).await;
    let arrived: Vec<_> = arrived(&place, 100).await.iter().map(Arrived::id).collect();
    let sent: Vec<_> = events.iter().map(|event| Some(event.id)).collect();
    assert_eq!(arrived, sent);
}

// M11
pub async fn a_delivery_that_is_given_up_leaves_the_sink_usable<P: Place>(place: P) {
    let sink = place.sink(Envelope::raw()).await;
    let events = events(&vec![message(); 200]).await;
    for (n, event) in events.iter().enumerate() {
        // Dropped at once, or a little later.
        let patience = Duration::from_micros(n as u64 * 20);
        let _ = tokio::time::timeout(patience, sink.deliver(event.clone())).await;
    }
    let last = event(message()).await;
    delivered(&sink, &last).await;
    let arrived = place.arrived().await;
    assert!(arrived.iter().any(|one| one.id() == Some(last.id)));
    let known: BTreeSet<_> = events
        .iter()
        .chain([&last])
        .map(|event| Some(event.id))
        .collect();
    assert!(arrived.iter().all(|one| known.contains(&one.id())));
}
