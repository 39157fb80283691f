//! Stopping in order: finish what is under way, hand back the rest, leave nothing to wait for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use posthaste::{Status, Store};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

fn slow(takes: u64) -> Arc<Witness> {
    Witness::new(move |_| async move {
        tokio::time::sleep(MS(takes)).await;
        Outcome::Delivered
    })
}

// M16
#[tokio::test]
async fn a_stop_under_load_finishes_what_is_under_way_and_spends_no_other_attempt() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(500)).await;
    let witness = slow(200);
    let builder = brisk(&fresh)
        .await
        .destination("w", witness.clone())
        .concurrency(10);
    let relay = Running::start(builder.build().unwrap());
    eventually("some under way", async || witness.seen().len() >= 20).await;
    relay.stop().await;

    let started = witness.seen().len();
    assert!(started < 100, "{started} of 500 were started");
    assert_eq!(
        witness.delivered().len(),
        started,
        "what was started was finished"
    );
    let store = fresh.store().await;
    let stats = store.stats().await.unwrap();
    assert_eq!(
        (stats.processing, stats.pending as usize),
        (0, 500 - started)
    );
    let pending = with_status(&store, Status::Pending).await;
    assert!(
        pending
            .iter()
            .all(|record| record.attempts == 0 && record.lease_owner.is_none())
    );
    let delivered = with_status(&store, Status::Delivered).await;
    assert!(delivered.len() == started && delivered.iter().all(|record| record.attempts == 1));
}

// M16 M13
#[tokio::test]
async fn the_relay_that_follows_goes_on_at_once_and_repeats_nothing() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(600)).await;
    let witness = slow(20);
    let began = Instant::now();
    for _ in 0..3 {
        let before = witness.delivered().len();
        let builder = brisk(&fresh)
            .await
            .destination("w", witness.clone())
            .concurrency(10);
        let relay = Running::start(builder.build().unwrap());
        witness.until_delivered(before + 50).await;
        relay.stop().await;
    }
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(600).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    assert!(began.elapsed() < MS(40_000), "far less than a lease");

    let ids: HashSet<_> = witness.seen().iter().map(|event| event.id).collect();
    assert_eq!((witness.seen().len(), ids.len()), (600, 600));
    assert!(witness.seen().iter().all(|event| event.attempts == 1));
    let gone = fresh
        .sql("select count(*) from {outbox}")
        .replace("outbox\"", "outbox_relay\"");
    let left: i64 = fresh.client.query_one(&gone, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "each relay took its name off the list");
}

#[tokio::test]
async fn a_relay_that_waits_for_a_database_that_is_down_stops_as_well() {
    let mut server = posthaste_testkit::server::Postgres::start(Default::default()).unwrap();
    let mut fresh = Fresh::at(&server.url()).await;
    fresh.enqueue(&messages(10)).await;
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(10).await;
    until_settled(&fresh.store().await).await;
    server.stop().unwrap();
    tokio::time::sleep(MS(500)).await;
    let asked = Instant::now();
    relay.stop().await;
    assert!(asked.elapsed() < MS(40_000), "took {:?}", asked.elapsed());
}

// M13
#[tokio::test]
async fn a_relay_whose_future_is_dropped_claims_nothing_more_and_others_take_over() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(20)).await;
    let hangs = Witness::new(|_| std::future::pending());
    let dropped = brisk(&fresh)
        .await
        .destination("w", hangs.clone())
        .build()
        .unwrap();
    let dropped = tokio::spawn(dropped.run(std::future::pending()));
    eventually("all are under way", async || hangs.seen().len() == 20).await;
    dropped.abort();
    let _ = dropped.await;

    fresh.enqueue(&messages(5)).await;
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(5).await;
    relay.stop().await;
    assert_eq!(hangs.seen().len(), 20, "it was not asked for the new ones");
}
