//! Enqueue: what becomes of messages, seen from the outbox.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use posthaste::store::{Claim, Filter};
use posthaste::{Message, Status, Store, TopicRule, TraceContext};
use uuid::Uuid;

use super::{HOUR, TOPIC, all, claim_all, deliver, enqueue, ids, message, record};
use crate::bed::Bed;

// M3
pub async fn a_new_event_is_pending_due_and_unleased(bed: impl Bed) {
    let receipt = enqueue(&bed, &[message()]).await[0];
    assert!(receipt.new);
    let record = record(&bed.relay().await, receipt.id).await;
    assert_eq!(record.status, Status::Pending);
    assert_eq!((record.attempts, record.lease_epoch), (0, 0));
    assert_eq!((record.lease_owner, record.lease_until), (None, None));
    assert_eq!((record.last_error, record.dead_reason), (None, None));
    let due = record.next_attempt_at.duration_since(record.created_at);
    assert!(due.unwrap_or_default() < Duration::from_secs(1));
}

// P1
pub async fn many_events_are_numbered_in_the_order_of_their_messages(bed: impl Bed) {
    let messages: Vec<Message> = (0..1000)
        .map(|n| message().header("n", n.to_string()))
        .collect();
    let receipts = enqueue(&bed, &messages).await;
    assert!(receipts.iter().all(|receipt| receipt.new));
    assert!(receipts.is_sorted_by(|a, b| a.sequence < b.sequence));
    let events = claim_all(&bed.relay().await, &Claim::new(300)).await;
    for (n, (event, receipt)) in events.iter().zip(&receipts).enumerate() {
        assert_eq!(event.id, receipt.id);
        assert_eq!(event.headers["n"], n.to_string());
    }
    assert_eq!(events.len(), 1000);
}

// M5, B4
pub async fn the_same_id_makes_one_event(bed: impl Bed) {
    let message = message().id(Uuid::new_v4());
    let first = enqueue(&bed, from_ref(&message)).await[0];
    let second = enqueue(&bed, &[message]).await[0];
    assert!(first.new && !second.new);
    assert_eq!((second.id, second.sequence), (first.id, first.sequence));
    assert_eq!(all(&bed.relay().await).await.len(), 1);
}

// M5
pub async fn the_same_dedupe_key_makes_one_event(bed: impl Bed) {
    let message = message().dedupe_key("order-42");
    let first = enqueue(&bed, from_ref(&message)).await[0];
    let second = enqueue(&bed, &[message]).await[0];
    assert!(first.new && !second.new);
    assert_eq!((second.id, second.sequence), (first.id, first.sequence));
    assert_eq!(all(&bed.relay().await).await.len(), 1);
}

// M5
pub async fn a_dedupe_key_counts_within_its_namespace_and_topic(bed: impl Bed) {
    let receipts = enqueue(
        &bed,
        &[
            message().dedupe_key("a"),
            message().dedupe_key("a").namespace("elsewhere"),
            Message::bytes("shop.order.paid.v1", "text/plain", "x").dedupe_key("a"),
            message().dedupe_key("b"),
            message(),
            message(),
        ],
    )
    .await;
    assert!(receipts.iter().all(|receipt| receipt.new));
}

// M5
pub async fn twins_in_one_call_make_one_event(bed: impl Bed) {
    let id = Uuid::new_v4();
    let receipts = enqueue(
        &bed,
        &[
            message().id(id),
            message().id(id),
            message().dedupe_key("a"),
            message().dedupe_key("a"),
        ],
    )
    .await;
    let new: Vec<bool> = receipts.iter().map(|receipt| receipt.new).collect();
    assert_eq!(new, [true, false, true, false]);
    assert_eq!(receipts[0].sequence, receipts[1].sequence);
    assert_eq!(receipts[2].id, receipts[3].id);
    assert_eq!(all(&bed.relay().await).await.len(), 2);
}

// M5: one wins, the others observe it.
pub async fn racing_producers_make_one_event(bed: impl Bed) {
    let bed = Arc::new(bed);
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let bed = bed.clone();
            tokio::spawn(async move { enqueue(&*bed, &[message().dedupe_key("a")]).await[0] })
        })
        .collect();
    let mut receipts = Vec::new();
    for racer in racers {
        receipts.push(racer.await.expect("a receipt"));
    }
    let winners = receipts.iter().filter(|receipt| receipt.new).count();
    assert_eq!(winners, 1);
    assert!(receipts.iter().all(|receipt| receipt.id == receipts[0].id));
    assert_eq!(all(&bed.relay().await).await.len(), 1);
}

// M5: for as long as the event is kept.
pub async fn a_delivered_event_still_counts_as_enqueued(bed: impl Bed) {
    let store = bed.relay().await;
    let message = message().dedupe_key("a");
    enqueue(&bed, from_ref(&message)).await;
    let events = claim_all(&store, &Claim::new(1)).await;
    deliver(&store, &events).await;
    assert!(!enqueue(&bed, &[message]).await[0].new);
    assert!(claim_all(&store, &Claim::new(1)).await.is_empty());
}

// M4, B10: a typed error, and no row.
pub async fn a_refused_message_leaves_nothing_behind(bed: impl Bed) {
    let tenant = Uuid::new_v4();
    for (refused, code) in [
        (
            Message::bytes("Orders!", "text/plain", "x"),
            "outbox.topic_invalid",
        ),
        (
            message().tenant(tenant).dedupe_key("42"),
            "outbox.dedupe_tenant_mismatch",
        ),
        (
            Message::bytes(TOPIC, "text/plain", vec![0; 1024 * 1024 + 1]),
            "outbox.payload_too_large",
        ),
        (message().namespace("a\0b"), "outbox.nul_character"),
    ] {
        let error = bed.enqueue(&[message(), refused]).await;
        assert_eq!(error.expect_err("refused").code(), code);
    }
    assert!(all(&bed.relay().await).await.is_empty());
    let good = message().tenant(tenant).dedupe_key(format!("{tenant}/42"));
    assert!(enqueue(&bed, &[good]).await[0].new);
}

// M1, M12, B12: nothing is changed on the way.
pub async fn what_was_enqueued_is_what_is_claimed(bed: impl Bed) {
    let (id, tenant) = (Uuid::new_v4(), Uuid::new_v4());
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("a=1".to_owned()),
    };
    let value = serde_json::json!({"order": 42, "note": "naïve \"quotes\" \u{1F600}", "lines": [1.5, null]});
    let json = Message::json(TOPIC, &value)
        .expect("JSON")
        .id(id)
        .namespace("shop")
        .tenant(tenant)
        .aggregate("Order", "42")
        .event_type("OrderPlaced")
        .ordering_key("42")
        .dedupe_key(format!("{tenant}/42"))
        .header("source", "checkout")
        .trace(trace.clone());
    let bytes = Message::bytes(TOPIC, "application/x-odd", vec![0, 255, 10]);
    let receipts = enqueue(&bed, &[json, bytes]).await;
    let store = bed.relay().await;
    let events = claim_all(&store, &Claim::new(10)).await;

    let event = &events[0];
    assert_eq!(event.table.as_ref(), store.table());
    assert_eq!((event.id, event.sequence), (id, receipts[0].sequence));
    assert_eq!(
        (event.namespace.as_str(), event.topic.as_str()),
        ("shop", TOPIC)
    );
    assert_eq!(event.tenant_id, Some(tenant));
    assert_eq!(event.aggregate_type.as_deref(), Some("Order"));
    assert_eq!(event.aggregate_id.as_deref(), Some("42"));
    assert_eq!(event.event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(event.ordering_key.as_deref(), Some("42"));
    assert_eq!(event.dedupe_key, Some(format!("{tenant}/42")));
    assert_eq!(event.headers["source"], "checkout");
    assert_eq!(event.content_type, "application/json");
    let payload: serde_json::Value = serde_json::from_slice(&event.payload).expect("JSON");
    assert_eq!(payload, value);
    assert_eq!(event.trace, Some(trace));
    assert_eq!((event.attempts, event.lease.id), (1, id));

    let event = &events[1];
    assert_eq!(event.content_type, "application/x-odd");
    assert_eq!(event.payload.as_ref(), [0, 255, 10]);
    assert_eq!((&event.trace, &event.tenant_id), (&None, &None));
    assert!(event.headers.is_empty());
}

// M1: deliver not before.
pub async fn a_delayed_event_waits_for_its_time(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(
        &bed,
        &[
            message().deliver_after(2 * HOUR),
            message().deliver_at(SystemTime::now() + HOUR),
            message().deliver_at(SystemTime::now() - HOUR),
        ],
    )
    .await;
    let mut order = Vec::new();
    for _ in 0..3 {
        order.extend(claim_all(&store, &Claim::new(10)).await);
        deliver(&store, &order).await;
        bed.pass(HOUR + Duration::from_secs(60)).await;
    }
    let order: Vec<Uuid> = order.iter().map(|event| event.id).collect();
    assert_eq!(order, [receipts[2].id, receipts[1].id, receipts[0].id]);
    let waiting = Filter {
        status: vec![Status::Pending],
        ..Filter::default()
    };
    assert!(store.list(&waiting, 10).await.expect("a list").is_empty());
}

// P1, B10
pub async fn a_tool_enqueues_without_a_transaction_of_its_own(bed: impl Bed) {
    let store = bed.relay().await;
    let messages = [message().dedupe_key("a"), message()];
    let receipts = Store::enqueue(&store, &messages, TopicRule::Strict)
        .await
        .unwrap();
    assert!(receipts.iter().all(|receipt| receipt.new));
    let again = Store::enqueue(&store, &messages[..1], TopicRule::Strict)
        .await
        .unwrap();
    assert_eq!((again[0].id, again[0].new), (receipts[0].id, false));
    let loose = [message(), Message::bytes("loose topic", "text/plain", "x")];
    let refused = Store::enqueue(&store, &loose, TopicRule::Strict)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "outbox.topic_invalid");
    assert_eq!(ids(&all(&store).await), ids(&receipts));
    Store::enqueue(&store, &loose, TopicRule::Relaxed)
        .await
        .unwrap();
    assert_eq!(all(&store).await.len(), 4);
}
