//! Eight workers, four of which are killed with their hands full.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use posthaste::store::{Act, Target};
use uuid::Uuid;

use crate::scene::*;

// logistics-1.3, logistics-1.5, logistics-3.7, logistics-3.9, M13, N4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_killed_workers_held_is_taken_over_at_once_and_nothing_is_lost() {
    let broker = broker_alone().await;
    let mut scene = Scene::new(&broker).await;
    let mut workers = scene.eight_workers(&broker).await;
    scene.order(40).await;
    scene.has(40, "PUBLISHED").await;

    // More than all of them can hold piles up, and the broker halts: whoever publishes now, waits for it.
    let act = Act {
        actor: "a test".to_owned(),
        why: "to have all begin at the same time".to_owned(),
    };
    scene.store.pause(&Target::Outbox, &act).await.unwrap();
    eventually("each worker knows that it is to pause", async || {
        workers.iter().all(Worker::is_paused)
    })
    .await;
    scene.order(450).await;
    broker.pause().unwrap();
    scene.store.resume(&Target::Outbox, &act).await.unwrap();
    let held = async || scene.store.relays().await.unwrap();
    eventually("each worker holds a batch", async || {
        let relays = held().await;
        relays.iter().filter(|relay| relay.leases == 50).count() == 8
    })
    .await;
    let killed: Vec<u32> = workers.iter().take(4).map(Worker::pid).collect();
    let dead: Vec<Uuid> = held()
        .await
        .iter()
        .filter(|relay| relay.pid.is_some_and(|pid| killed.contains(&pid)))
        .map(|relay| relay.owner)
        .collect();
    assert_eq!(dead.len(), 4);
    for worker in &mut workers[..4] {
        worker.kill();
    }
    let sql = "select id, clock_timestamp() from outbox_events where lease_owner = any($1)";
    let rows = scene.client.query(sql, &[&dead]).await.unwrap();
    let orphans: BTreeMap<Uuid, SystemTime> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(orphans.len(), 200);
    // The others have no hand free before.
    broker.resume().unwrap();

    // Orders keep coming. All of it is published by those that are left.
    scene.order(20).await;
    scene.has(510, "PUBLISHED").await;
    for (id, killed) in &orphans {
        let attempts = scene.store.history(*id).await.unwrap();
        let taken_over = attempts.iter().find(|attempt| attempt.number == 2);
        let taken_over = taken_over.and_then(|attempt| attempt.claimed_at).unwrap();
        let waited = taken_over.duration_since(*killed).unwrap();
        // Nobody waited for the dead to lose their leases, which are for a minute.
        assert!(waited < Duration::from_secs(10), "{id}: {waited:?}");
    }

    let arrived = scene.arrived(&broker).await;
    assert_eq!(arrived.len(), 510);
    let twice = arrived.iter().filter(|(_, bodies)| bodies.len() > 1);
    let twice: BTreeSet<Uuid> = twice.map(|(id, _)| *id).collect();
    // A killed worker may have published what it could not settle. No other event comes twice.
    let unexpected: Vec<_> = twice
        .iter()
        .filter(|id| !orphans.contains_key(id))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    for bodies in arrived.values() {
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
