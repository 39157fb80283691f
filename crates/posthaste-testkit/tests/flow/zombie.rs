//! A relay that is frozen past its lease and comes back: it must change nothing.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Signal;
use uuid::Uuid;

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

/// Whether a relay that is frozen was in the midst of a delivery, which it will want to settle.
async fn is_in_its_midst(scene: &Scene, pid: u32) -> bool {
    // What it had asked of the database before is done, or will never be.
    let asking = "select 1 from pg_stat_activity where application_name = $1 and state = 'active'";
    scene
        .eventually("its statements are done", async |scene| {
            let asked = scene.fresh.client.query(asking, &[&scene.name()]).await;
            asked.unwrap().is_empty()
        })
        .await;
    let leased = scene
        .fresh
        .sql("select id from {outbox} where status = 'processing'");
    let leased = scene.fresh.client.query(&leased, &[]).await.unwrap();
    let leased: HashSet<Uuid> = leased.iter().map(|row| row.get(0)).collect();
    let consumed = scene.consumed();
    let mut told = consumed.deliveries.iter().filter(|it| it.relay == pid);
    told.any(|delivery| leased.contains(&delivery.id))
}

async fn comes_back(ordered: bool) {
    let mut scene = Scene::new(ordered).await;
    let mut faults = scene.faults();
    let zombie = scene.relay(&[("lease", 1500), ("takes", 300)]).await;
    let table = scene.fresh.table.clone();
    // Far more than it gets done before it is frozen.
    let produced = produce_at_once(&mut scene.fresh.client, &table, 1000).await;
    let pid = zombie.pid();
    scene
        .eventually("it is frozen in its midst", async |scene| {
            if scene.consumed().by(pid) < 5 {
                return false;
            }
            zombie.freeze();
            faults.hit(pid);
            let well_timed = is_in_its_midst(scene, pid).await;
            if !well_timed {
                zombie.signal(Signal::CONT);
            }
            well_timed
        })
        .await;
    let before = scene.consumed().by(pid);
    let other = scene.relay(&[("takes", 30)]).await;
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
