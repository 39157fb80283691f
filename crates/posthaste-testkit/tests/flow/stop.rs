//! SIGTERM under load: no attempt spent, nothing repeated, and the next relay goes on at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::scene::Scene;

async fn replaced_under_load(ordered: bool) {
    let scene = Scene::new(ordered).await;
    let producers = scene.producers(3);
    let options = [("takes", 20)];
    let mut relay = scene.relay(&options).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        relay.signal(Signal::TERM);
        let asked = Instant::now();
        // The next one starts while this one is stopping, as in a rolling update.
        let next = scene.relay(&options).await;
        assert!(relay.ended().success());
        assert!(
            asked.elapsed() < Duration::from_secs(25),
            "took {:?}",
            asked.elapsed()
        );
        relay = next;
    }
    let produced = producers.stop().await;
    let began = Instant::now();
    let consumed = scene.close(&produced, vec![relay], &scene.faults()).await;
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "far less than the lease of 60 s"
    );
    assert_eq!(
        consumed.deliveries.len(),
        produced.committed.len(),
        "no repeats"
    );
    let attempts = consumed
        .deliveries
        .iter()
        .map(|delivery| delivery.attempts)
        .max();
    assert_eq!(
        attempts,
        Some(1),
        "no attempt was spent on what was handed back"
    );
    assert!(consumed.lost.is_empty());
}

// M16
#[tokio::test]
async fn relays_replaced_under_load_spend_no_attempt_and_repeat_nothing() {
    replaced_under_load(false).await;
}

// M16
#[tokio::test]
async fn relays_replaced_under_load_keep_every_key_in_sequence() {
    replaced_under_load(true).await;
}
