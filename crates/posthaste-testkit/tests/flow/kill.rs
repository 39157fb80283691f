//! `kill -9` of relays, at random moments and at each named point.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use posthaste::store::{Filter, Store};
use posthaste::{DeadReason, Status};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::producer::produce_at_once;
use crate::scene::Scene;

pub(crate) const SIGKILL: i32 = 9;

/// The seed of a run, to be given again by the environment.
pub(crate) fn random() -> StdRng {
    let given = std::env::var("POSTHASTE_FLOW_SEED").ok();
    let seed = given.map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("POSTHASTE_FLOW_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

async fn kills_at_random(ordered: bool) {
    let mut random = random();
    let scene = Scene::new(ordered).await;
    let mut faults = scene.faults();
    let producers = scene.producers(3);
    let options = [("takes", 10), ("fails", 3)];
    let mut relays = vec![scene.relay(&options).await, scene.relay(&options).await];
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..400))).await;
        let victim = relays.swap_remove(random.random_range(0..2));
        faults.hit(victim.pid());
        victim.kill();
        relays.push(scene.relay(&options).await);
    }
    let produced = producers.stop().await;
    let began = Instant::now();
    scene.close(&produced, relays, &faults).await;
    assert!(
        began.elapsed() < Duration::from_secs(45),
        "less than the lease of 60 s"
    );
}

// N4
#[tokio::test]
async fn relays_killed_at_random_lose_nothing() {
    kills_at_random(false).await;
}

#[tokio::test]
async fn relays_killed_at_random_keep_every_key_in_sequence() {
    kills_at_random(true).await;
}

/// One relay dies at a point; another finishes. Gives back how many deliveries each made,
/// and how many were repeated.
async fn dies(at: &str, after: u64, ordered: bool) -> (usize, usize, usize) {
    let mut scene = Scene::new(ordered).await;
    let table = scene.fresh.table.clone();
    let produced = produce_at_once(&mut scene.fresh.client, &table, 300).await;
    let mut faults = scene.faults();
    let mut victim = scene
        .relay_that_dies(Some(at), &[("die-after", after)])
        .await;
    assert_eq!(victim.ended().signal(), Some(SIGKILL));
    let first = victim.pid();
    faults.hit(first);
    let follower = scene.relay(&[]).await;
    let second = follower.pid();
    let consumed = scene.close(&produced, vec![follower], &faults).await;
    (consumed.by(first), consumed.by(second), consumed.repeats())
}

#[tokio::test]
async fn a_relay_that_dies_after_a_claim_has_delivered_nothing_of_it() {
    assert_eq!(dies("after-claim", 1, false).await, (0, 300, 0));
    let (first, _, repeats) = dies("after-claim", 4, true).await;
    assert!(first > 0 && repeats <= first);
}

#[tokio::test]
async fn a_relay_that_dies_during_a_delivery_has_it_made_by_another() {
    assert_eq!(dies("mid-dispatch", 1, false).await, (0, 300, 0));
    let (first, _, _) = dies("mid-dispatch", 100, true).await;
    assert!(first > 0);
}

// logistics-0.3, logistics-3.8, N4
#[tokio::test]
async fn what_was_published_and_not_settled_is_published_again() {
    let (first, second, repeats) = dies("before-settle", 1, false).await;
    assert_eq!((second, repeats), (300, first));
    assert!(first > 0);
    dies("before-settle", 3, true).await;
}

#[tokio::test]
async fn what_was_settled_is_not_published_again() {
    let (first, second, repeats) = dies("after-settle", 1, false).await;
    assert!(
        first > 0 && second < 300 && repeats < first,
        "{first} {second} {repeats}"
    );
    dies("after-settle", 3, true).await;
}

// M8
#[tokio::test]
async fn a_crash_on_the_last_attempt_strands_no_event() {
    let mut scene = Scene::new(false).await;
    let table = scene.fresh.table.clone();
    let produced = produce_at_once(&mut scene.fresh.client, &table, 100).await;
    let last = [("max-attempts", 1)];
    let mut victim = scene.relay_that_dies(Some("after-claim"), &last).await;
    victim.ended();
    let _follower = scene.relay(&last).await;
    let store = scene.fresh.store().await;
    scene
        .eventually("none is live", async |_| {
            let stats = store.stats().await.unwrap();
            stats.pending + stats.processing == 0
        })
        .await;
    let filter = Filter {
        status: vec![Status::Dead],
        ..Filter::default()
    };
    let dead = store.list(&filter, 1000).await.unwrap();
    assert!(
        !dead.is_empty()
            && dead
                .iter()
                .all(|r| r.dead_reason == Some(DeadReason::Crashed))
    );
    let delivered = scene.consumed().ids();
    assert_eq!(delivered.len() + dead.len(), produced.committed.len());
    assert!(dead.iter().all(|record| !delivered.contains(&record.id)));
}

// N4
#[tokio::test]
async fn what_a_killed_relay_held_is_delivered_in_about_a_second_not_after_its_lease() {
    let mut scene = Scene::new(false).await;
    let mut faults = scene.faults();
    // It holds what it has claimed for much longer than this test takes.
    let victim = scene.relay(&[("takes", 50_000)]).await;
    let table = scene.fresh.table.clone();
    let produced = produce_at_once(&mut scene.fresh.client, &table, 30).await;
    let store = scene.fresh.store().await;
    scene
        .eventually("it holds all", async |_| {
            store.stats().await.unwrap().processing == 30
        })
        .await;
    let other = scene.relay(&[]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(scene.consumed().deliveries.is_empty(), "its owner lives");

    faults.hit(victim.pid());
    victim.kill();
    let killed = Instant::now();
    scene
        .eventually("all is delivered", async |scene| {
            produced.committed.is_subset(&scene.consumed().ids())
        })
        .await;
    let took = killed.elapsed();
    println!("taken over within {took:?}");
    assert!(
        took < Duration::from_secs(20),
        "far less than the lease of 60 s: {took:?}"
    );
    let consumed = scene.close(&produced, vec![other], &faults).await;
    assert!(
        consumed
            .deliveries
            .iter()
            .all(|delivery| delivery.attempts == 2)
    );
}
