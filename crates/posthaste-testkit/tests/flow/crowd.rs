//! Many relays at once, and nothing goes wrong: nothing is delivered twice.

use std::time::Duration;

use crate::scene::Scene;

async fn crowd(size: usize, ordered: bool) {
    let scene = Scene::new(ordered).await;
    let producers = scene.producers(3);
    let mut relays = Vec::new();
    for _ in 0..size {
        relays.push(scene.relay(&[("fails", 5)]).await);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let produced = producers.stop().await;
    let pids: Vec<u32> = relays.iter().map(|relay| relay.pid()).collect();
    let consumed = scene.close(&produced, relays, &scene.faults()).await;
    assert_eq!(consumed.deliveries.len(), produced.committed.len());
    let at_work = pids.iter().filter(|pid| consumed.by(**pid) > 0).count();
    assert!(at_work > 1, "they share the work");
    assert!(
        consumed.lost.is_empty(),
        "no lease was lost: {:?}",
        consumed.lost
    );
}

// M13
#[tokio::test]
async fn two_relays_deliver_everything_once() {
    crowd(2, false).await;
}

// M13
#[tokio::test]
async fn eight_relays_deliver_everything_once() {
    crowd(8, false).await;
}

// M13
#[tokio::test]
async fn two_relays_keep_every_key_in_sequence() {
    crowd(2, true).await;
}

// M13
#[tokio::test]
async fn eight_relays_keep_every_key_in_sequence() {
    crowd(8, true).await;
}
