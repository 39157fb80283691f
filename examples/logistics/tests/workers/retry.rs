//! Retries: powers of two in seconds, five of them, then FAILED.

use std::time::Duration;

use logistics::worker::{settings, worker};
use posthaste::{DeadReason, Message, TopicRule};

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
    scene.client.batch_execute(NOTED).await.unwrap();
    let worker = worker(&scene.address, &broker.url(), settings())
        .await
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(worker.run(async { drop(stopped.await) }));
    for (attempt, seconds) in [(1, 1.0), (2, 2.0)] {
        waits(&scene, attempt, seconds).await;
    }
    // The further ones would take half a minute: they are made due at once, with their attempts as they are.
    let due = "update outbox_events set next_attempt_at = clock_timestamp()
               where id = $1 and status = 'pending'";
    for attempt in 3..=5 {
        scene.client.execute(due, &[&lost]).await.unwrap();
        waits(&scene, attempt, f64::from(1 << (attempt - 1))).await;
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

/// The database notes how long an event is to wait whenever it is pending again: we may look too late.
const NOTED: &str = "
    create table public.noted (attempts int, waits double precision);
    create function note() returns trigger language plpgsql as $$ begin
        insert into public.noted
        values (new.attempts, extract(epoch from new.next_attempt_at - new.updated_at));
        return new;
    end $$;
    create trigger noted after update on outbox_events for each row
    when (old.status = 'processing' and new.status = 'pending') execute function note();";

/// Once so many attempts have failed, it is pending for so many seconds.
async fn waits(scene: &Scene, attempts: i32, seconds: f64) {
    let sql = "select waits from public.noted where attempts = $1";
    let mut noted = Vec::new();
    eventually(&format!("attempt {attempts} has failed"), async || {
        let rows = scene.client.query(sql, &[&attempts]).await.unwrap();
        noted = rows.iter().map(|row| row.get::<_, f64>(0)).collect();
        !noted.is_empty()
    })
    .await;
    // By the database's clock, which is looked at twice in the statement.
    let [waits] = noted[..] else {
        panic!("attempt {attempts} has failed {} times", noted.len())
    };
    assert!(
        (waits - seconds).abs() < 0.4,
        "{waits} s after attempt {attempts}"
    );
}
