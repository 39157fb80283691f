//! What was committed is delivered, whole and untouched; what was not, is not.

use std::collections::HashSet;

use posthaste::{Message, Record, Status, TraceContext};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;
use uuid::Uuid;

use crate::support::*;

// M12 B5 B12 B21 K8 K9 N3
#[tokio::test]
async fn an_event_arrives_with_its_id_and_all_that_is_known_about_it() {
    let mut fresh = Fresh::new().await;
    let (id, tenant) = (Uuid::new_v4(), Uuid::new_v4());
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("vendor=opaque,other=1".to_owned()),
    };
    let message = Message::json_text(TOPIC, r#"{"order": 42, "lines": [1.50, "é"]}"#)
        .unwrap()
        .id(id)
        .namespace("shop")
        .tenant(tenant)
        .aggregate("Order", "42")
        .event_type("OrderPlaced")
        .ordering_key("order-42")
        .dedupe_key(format!("{tenant}/42"))
        .header("source", "checkout")
        .trace(trace.clone());
    let receipt = fresh.enqueue(&[message]).await[0];
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(1).await;
    relay.stop().await;

    let event = &witness.delivered()[0];
    assert_eq!(*event.table, fresh.table);
    assert_eq!((event.id, event.sequence), (id, receipt.sequence));
    assert_eq!((&*event.namespace, &*event.topic), ("shop", TOPIC));
    assert_eq!(event.tenant_id, Some(tenant));
    assert_eq!(event.aggregate_type.as_deref(), Some("Order"));
    assert_eq!(event.aggregate_id.as_deref(), Some("42"));
    assert_eq!(event.event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(event.ordering_key.as_deref(), Some("order-42"));
    assert_eq!(event.headers["source"], "checkout");
    assert_eq!(event.trace, Some(trace));
    assert_eq!(event.attempts, 1);
    assert_eq!(event.content_type, "application/json");
    let json = std::str::from_utf8(&event.payload).unwrap();
    assert!(
        json.contains(r#""order": 42"#) && json.contains(r#"[1.50, "é"]"#),
        "{json}"
    );
}

// M12 B21
#[tokio::test]
async fn a_payload_of_any_bytes_is_delivered_untouched() {
    let mut fresh = Fresh::new().await;
    let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let odd_json = b"{ \"a\" :1,\n\"a\":1 }".to_vec();
    let payloads = [all, odd_json, Vec::new(), vec![0]];
    let messages: Vec<Message> = payloads
        .iter()
        .map(|bytes| Message::bytes(TOPIC, "application/octet-stream", bytes.clone()))
        .collect();
    fresh.enqueue(&messages).await;
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(payloads.len()).await;
    relay.stop().await;

    let mut delivered = witness.delivered();
    delivered.sort_by_key(|event| event.sequence);
    for (event, payload) in delivered.iter().zip(&payloads) {
        assert!(event.payload == payload, "{} bytes differ", payload.len());
        assert_eq!(event.content_type, "application/octet-stream");
    }
}

// M6
#[tokio::test]
async fn everything_committed_is_delivered_once_and_nothing_that_was_rolled_back() {
    let mut fresh = Fresh::new().await;
    let mut committed = HashSet::new();
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    for round in 0..50 {
        let transaction = fresh.client.transaction().await.unwrap();
        let receipts = fresh
            .outbox
            .enqueue_all(&transaction, &messages(20))
            .await
            .unwrap();
        if round % 5 == 4 {
            transaction.rollback().await.unwrap();
        } else {
            transaction.commit().await.unwrap();
            committed.extend(receipts.iter().map(|receipt| receipt.id));
        }
    }
    witness.until_delivered(committed.len()).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    let seen: Vec<Uuid> = witness.seen().iter().map(|event| event.id).collect();
    assert_eq!(seen.len(), committed.len());
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), committed);
    let delivered = with_status(&store, Status::Delivered).await;
    assert_eq!(delivered.len(), committed.len());
    assert!(
        delivered
            .iter()
            .all(|record| record.attempts == 1 && record.delivered_at.is_some())
    );
}

#[tokio::test]
async fn a_delayed_event_is_not_delivered_before_its_time() {
    let mut fresh = Fresh::new().await;
    let delay = MS(1500);
    let late = message(TOPIC).deliver_after(delay);
    let ids: Vec<Uuid> = fresh
        .enqueue(&[late, message(TOPIC)])
        .await
        .iter()
        .map(|r| r.id)
        .collect();
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(1).await;
    assert_eq!(
        witness.delivered()[0].id,
        ids[1],
        "the other one does not wait for it"
    );
    witness.until_delivered(2).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    let late = record(&store, ids[0]).await;
    let waited = late
        .delivered_at
        .unwrap()
        .duration_since(late.created_at)
        .unwrap();
    assert!(waited >= delay, "by the database's clock: {waited:?}");
    assert_eq!(late.attempts, 1);
}

// M7
#[tokio::test]
async fn a_relay_delivers_what_is_in_its_scope_and_leaves_the_rest() {
    let mut fresh = Fresh::new().await;
    let tenant = Uuid::new_v4();
    let ours = message(TOPIC).namespace("ours").tenant(tenant);
    let receipts = fresh
        .enqueue(&[
            ours.clone(),
            ours.clone().namespace("theirs"),
            ours.clone().tenant(Uuid::new_v4()),
            message("shop.order.paid.v1")
                .namespace("ours")
                .tenant(tenant),
        ])
        .await;
    let witness = Witness::willing();
    let scope = posthaste::store::Scope {
        namespace: Some("ours".to_owned()),
        topics: vec![TOPIC.to_owned()],
        tenant_id: Some(tenant),
    };
    let builder = brisk(&fresh)
        .await
        .scope(scope)
        .destination("w", witness.clone());
    let relay = Running::start(builder.build().unwrap());
    witness.until_delivered(1).await;
    tokio::time::sleep(MS(300)).await;
    relay.stop().await;

    let seen: Vec<Uuid> = witness.seen().iter().map(|event| event.id).collect();
    assert_eq!(seen, [receipts[0].id]);
    let pending = with_status(&fresh.store().await, Status::Pending).await;
    assert!(pending.len() == 3 && pending.iter().all(|record| record.attempts == 0));
}

// M11: a lease is prolonged for as long as its event waits or is delivered.
#[tokio::test]
async fn events_that_wait_longer_than_their_lease_are_claimed_once() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(20)).await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(500)).await;
        Outcome::Delivered
    });
    let builder = brisk(&fresh)
        .await
        .lease(MS(9000))
        .dispatch_timeout(MS(1000));
    let builder = builder.destination("slow", slow.clone()).concurrency(1);
    let relay = Running::start(builder.build().unwrap());
    slow.until_delivered(20).await;
    relay.stop().await;
    assert_eq!(slow.seen().len(), 20);
    let delivered = with_status(&fresh.store().await, Status::Delivered).await;
    assert_eq!(delivered.len(), 20);
    let once = |record: &Record| (record.attempts, record.lease_epoch) == (1, 1);
    assert!(delivered.iter().all(once), "{delivered:?}");
}
