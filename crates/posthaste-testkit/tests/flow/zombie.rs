//! A relay that is frozen past its lease and comes back: it must change nothing.

use std::time::Duration;

use rustix::process::Signal;

use crate::producer::produce_at_once;
use crate::scene::Scene;

/// All that can be known about the rows, down to their very versions.
async fn rows(scene: &Scene) -> Vec<String> {
    let sql = scene
        .fresh
        .sql("select (e.xmin, e.ctid, e.*)::text from {outbox} e order by sequence");
    let rows = scene.fresh.client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn comes_back(ordered: bool) {
    let mut scene = Scene::new(ordered).await;
    let mut faults = scene.faults();
    let options = [("lease", 1500), ("takes", 300)];
    let zombie = scene.relay(&options).await;
    let table = scene.fresh.table.clone();
    let produced = produce_at_once(&mut scene.fresh.client, &table, 120).await;
    let pid = zombie.pid();
    scene
        .eventually("it is at work", async |scene| scene.consumed().by(pid) >= 5)
        .await;
    zombie.signal(Signal::STOP);
    faults.hit(pid);
    let before = scene.consumed().by(pid);
    let other = scene.relay(&options).await;
    scene.until_done(&produced).await;
    assert_eq!(scene.consumed().by(pid), before, "it is frozen");
    let settled = rows(&scene).await;

    zombie.signal(Signal::CONT);
    scene
        .eventually("its settlements are refused", async |scene| {
            scene.consumed().lost.contains_key(&pid)
        })
        .await;
    // What it had begun it may finish, and nothing else.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rows(&scene).await, settled, "the zombie changed something");
    scene.close(&produced, vec![zombie, other], &faults).await;
    assert_eq!(rows(&scene).await, settled);
}

// M9
#[tokio::test]
async fn a_relay_frozen_past_its_lease_changes_nothing_when_it_comes_back() {
    comes_back(false).await;
}

// M9
#[tokio::test]
async fn a_relay_frozen_past_its_lease_leaves_every_key_in_sequence() {
    comes_back(true).await;
}

// M9
#[tokio::test]
async fn relays_frozen_again_and_again_under_load_lose_and_reorder_nothing() {
    let scene = Scene::new(true).await;
    let mut faults = scene.faults();
    let producers = scene.producers(2);
    let options = [("lease", 1000), ("takes", 10)];
    let relays = vec![scene.relay(&options).await, scene.relay(&options).await];
    for round in 0..4 {
        let frozen = &relays[round % 2];
        frozen.signal(Signal::STOP);
        faults.hit(frozen.pid());
        tokio::time::sleep(Duration::from_millis(1500)).await;
        frozen.signal(Signal::CONT);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let produced = producers.stop().await;
    scene.close(&produced, relays, &faults).await;
}
