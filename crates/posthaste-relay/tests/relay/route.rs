//! Which destination an event goes to, and what it means for others when that one is down or slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use posthaste::{DeadReason, Status, Store};
use posthaste_relay::Matcher;
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;
use uuid::Uuid;

use crate::support::*;

const HERS: Uuid = Uuid::from_u128(1);
const HIS: Uuid = Uuid::from_u128(2);

#[tokio::test]
async fn events_are_routed_by_topic_namespace_tenant_and_aggregate() {
    let mut fresh = Fresh::new().await;
    let names = ["mail", "eu", "hers", "orders"];
    let witnesses = names.map(|_| Witness::willing());
    let mut builder = brisk(&fresh).await;
    for (name, witness) in names.iter().zip(&witnesses) {
        builder = builder.destination(*name, witness.clone());
    }
    let builder = builder
        .route("shop.mail.*", "mail")
        .route(Matcher::any().namespace("eu-*"), "eu")
        .route(Matcher::from("shop.*").tenant(HERS), "hers")
        .route(Matcher::any().aggregate_type("Order"), "orders");
    let relay = Running::start(builder.build().unwrap());
    let to_mail = message("shop.mail.sent.v1").namespace("eu-1").tenant(HERS);
    let batch = [
        to_mail,
        message(TOPIC).namespace("eu-1").tenant(HERS),
        message(TOPIC)
            .namespace("us-1")
            .tenant(HERS)
            .aggregate("Order", "1"),
        message(TOPIC).tenant(HIS).aggregate("Order", "1"),
        message(TOPIC).tenant(HIS).aggregate("Cart", "1"),
    ];
    let receipts = fresh.enqueue(&batch).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    for (witness, receipt) in witnesses.iter().zip(&receipts) {
        let ids: Vec<Uuid> = witness.seen().iter().map(|event| event.id).collect();
        assert_eq!(ids, [receipt.id]);
    }
    let nowhere = record(&store, receipts[4].id).await;
    assert_eq!(nowhere.dead_reason, Some(DeadReason::Rejected));
    assert!(nowhere.last_error.unwrap().contains("no route"));
}

// F9: her endpoint is down, his is not, and both get events of one topic.
#[tokio::test]
async fn a_destination_that_is_down_costs_others_of_its_topics_nothing() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let switch = up.clone();
    let hers = Witness::new(move |_| {
        let is_up = switch.load(Ordering::SeqCst);
        async move {
            match is_up {
                true => Outcome::Delivered,
                false => Outcome::Unavailable("connection refused".to_owned()),
            }
        }
    });
    let his = Witness::willing();
    // With one attempt in all, an outage that cost one would show at once.
    let builder = brisk(&fresh)
        .await
        .max_attempts(1)
        .batch_size(50)
        .in_flight(200);
    let builder = builder
        .destination("hers", hers.clone())
        .destination("his", his.clone());
    let builder = builder
        .route(Matcher::any().tenant(HERS), "hers")
        .route("*", "his");
    let relay = Running::start(builder.build().unwrap());
    let (store, started) = (fresh.store().await, Instant::now());
    for round in 1..=10 {
        let batch: Vec<_> = (0..50)
            .flat_map(|_| [message(TOPIC).tenant(HERS), message(TOPIC).tenant(HIS)])
            .collect();
        fresh.enqueue(&batch).await;
        his.until_delivered(round * 50).await;
    }
    tokio::time::sleep(MS(1500)).await;
    assert!(hers.delivered().is_empty());
    let asked = hers.seen().len();
    assert!(
        asked < 150,
        "its circuit is open, and yet it was asked {asked} times"
    );
    let live = with_status(&store, Status::Pending).await;
    let claims: i64 = live.iter().map(|record| record.lease_epoch).sum();
    // Once each, and then at a bounded rate, however long this takes: not over and over.
    let rate = 500.0 * started.elapsed().as_secs_f64();
    assert!(
        (claims as f64) < 700.0 + rate,
        "{claims} claims, more than {rate}"
    );

    up.store(true, Ordering::SeqCst);
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!((hers.delivered().len(), his.seen().len()), (500, 500));
    let delivered = with_status(&store, Status::Delivered).await;
    assert!(delivered.len() == 1000 && delivered.iter().all(|record| record.attempts == 1));
}

// B8
#[tokio::test]
async fn a_slow_destination_does_not_slow_others_of_its_topics() {
    let mut fresh = Fresh::new().await;
    let hers = Witness::new(|_| std::future::pending());
    let his = Witness::willing();
    // For longer than his are waited for: none of hers ends meanwhile.
    let builder = brisk(&fresh).await.lease(MS(120_000));
    let builder = builder.dispatch_timeout(MS(70_000));
    let builder = builder.batch_size(50).in_flight(200);
    let builder = builder.destination("hers", hers.clone()).concurrency(4);
    let builder = builder.destination("his", his.clone());
    let builder = builder
        .route(Matcher::any().tenant(HERS), "hers")
        .route("*", "his");
    let relay = Running::start(builder.build().unwrap());
    // Her backlog is larger than what the relay can have in hand.
    let backlog: Vec<_> = (0..1000).map(|_| message(TOPIC).tenant(HERS)).collect();
    fresh.enqueue(&backlog).await;
    for round in 1..=5 {
        let batch: Vec<_> = (0..200).map(|_| message(TOPIC).tenant(HIS)).collect();
        fresh.enqueue(&batch).await;
        his.until_delivered(round * 200).await;
    }
    assert!(hers.seen().len() <= 4, "one of hers has ended");
    let stats = fresh.store().await.stats().await.unwrap();
    assert_eq!(stats.dead, 0);
    drop(relay);
}
