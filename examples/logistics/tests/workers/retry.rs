//! Retries: powers of two in seconds, five of them, then FAILED.

use std::time::Duration;

use logistics::worker::{settings, worker};
use posthaste::{DeadReason, Message, Record, Status, TopicRule};
use uuid::Uuid;

use crate::scene::*;

// logistics-3.6, logistics-3.10, logistics-3.11, logistics-3.12, logistics-3.13, N5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_event_is_pending_again_after_one_then_two_seconds_and_failed_after_five_retries()
{
    let broker = broker().await;
    let scene = Scene::new(&broker).await;
    // No queue is bound for it, so the broker returns it.
    let lost = Message::json("logistics.order.lost.v1", &1).unwrap();
    let lost = scene
        .store
        .enqueue(&[lost], TopicRule::Strict)
        .await
        .unwrap()[0]
        .id;
    let worker = worker(&scene.address, &broker.url(), settings())
        .await
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(worker.run(async { drop(stopped.await) }));
    for (attempt, seconds) in [(1, 1.0), (2, 2.0)] {
        let event = failed(&scene, lost, attempt).await;
        assert_eq!(event.status, Status::Pending);
        let waits = event
            .next_attempt_at
            .duration_since(event.updated_at)
            .unwrap();
        // By the database's clock, which is looked at twice in the statement.
        let difference = (waits.as_secs_f64() - seconds).abs();
        assert!(difference < 0.1, "{waits:?} after attempt {attempt}");
    }
    // The further ones would take half a minute: they are made due at once, with their attempts as they are.
    let due = "update outbox_events set next_attempt_at = clock_timestamp()
               where id = $1 and status = 'pending'";
    for attempt in 3..=5 {
        scene.client.execute(due, &[&lost]).await.unwrap();
        let event = failed(&scene, lost, attempt).await;
        let waits = event
            .next_attempt_at
            .duration_since(event.updated_at)
            .unwrap();
        let expected = Duration::from_secs(1 << (attempt - 1));
        assert!(
            waits.abs_diff(expected) < Duration::from_millis(100),
            "{waits:?}"
        );
    }
    scene.client.execute(due, &[&lost]).await.unwrap();
    scene.has(1, "FAILED").await;
    drop(stop);
    working.await.unwrap();
    let event = scene.store.show(lost).await.unwrap().unwrap();
    assert_eq!(
        (event.attempts, event.dead_reason),
        (6, Some(DeadReason::Exhausted))
    );
    assert!(
        event
            .last_error
            .unwrap()
            .contains("logistics.order.lost.v1")
    );
    let row = "select retry_count::bigint from outbox_events_view";
    assert_eq!(scene.count(row).await, 5);
}

// logistics-0.1, F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_broker_cannot_be_reached_events_wait_and_none_is_lost() {
    let broker = broker_alone().await;
    let mut scene = Scene::new(&broker).await;
    let _worker = scene.worker(&broker);
    let mut events = scene.order(10).await;
    scene.has(10, "PUBLISHED").await;
    tokio::task::block_in_place(|| broker.stop_broker()).unwrap();
    events.extend(scene.order(40).await);
    scene.has(40, "PENDING").await;
    // Long enough to use up some retries, if this cost any.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let retries = "select sum(retry_count)::bigint from outbox_events_view";
    assert_eq!(scene.count(retries).await, 0);
    tokio::task::block_in_place(|| broker.start_broker()).unwrap();
    scene.has(50, "PUBLISHED").await;
    let arrived = scene.arrived(&broker).await;
    assert!(events.iter().all(|event| arrived.contains_key(event)));
}

/// The event, once so many attempts of it have failed.
async fn failed(scene: &Scene, id: Uuid, attempts: u32) -> Record {
    let mut found = None;
    eventually(&format!("attempt {attempts} has failed"), async || {
        let event = scene.store.show(id).await.unwrap().unwrap();
        let is_over = event.attempts == attempts && event.status == Status::Pending;
        found = Some(event);
        is_over
    })
    .await;
    found.unwrap()
}
