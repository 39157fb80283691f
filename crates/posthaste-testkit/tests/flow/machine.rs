//! A machine vanishes with its relay: no connection is closed, and nobody is told.

use std::io::Write;
use std::time::Duration;

use posthaste::Store;
use posthaste_testkit::server::{Machine, Options, Postgres, has_own_network};

use crate::ledger::Produced;
use crate::producer::produce_at_once;
use crate::scene::Scene;

/// Far longer than any test takes: nothing here is taken over for a lease that ended.
const LEASE: (&str, u64) = ("lease", 600_000);

/// Another machine, a server that it can reach, and the address of that server from there.
fn connected() -> (Machine, Postgres, String) {
    let machine = Machine::start().unwrap();
    let addresses = format!("127.0.0.1,{}", machine.host());
    let options = Options::new().setting("listen_addresses", addresses);
    let mut server = Postgres::start(options).unwrap();
    let rules = server.dir().join("data/pg_hba.conf");
    let mut rules = std::fs::File::options().append(true).open(rules).unwrap();
    rules.write_all(b"host all all samenet trust\n").unwrap();
    server.restart().unwrap();
    let url = server.url().replace("127.0.0.1", machine.host());
    (machine, server, url)
}

async fn produce(scene: &mut Scene, produced: &mut Produced, count: usize) {
    let table = scene.fresh.table.clone();
    produced.add(produce_at_once(&mut scene.fresh.client, &table, count).await);
}

// N4, M9
#[tokio::test]
async fn what_a_vanished_machine_had_is_taken_over_and_it_starts_nothing_more() {
    let this = "machine::what_a_vanished_machine_had_is_taken_over_and_it_starts_nothing_more";
    if !has_own_network(this).unwrap() {
        return;
    }
    let (machine, server, url) = connected();
    let mut scene = Scene::at(&server.url(), true).await;
    let (mut produced, mut faults) = (Produced::default(), scene.faults());
    // One after the other in each of seven keys: it is busy with what it has for longer than it is missed.
    let options = [("takes", 4000), LEASE];
    let victim = scene.relay_on(&machine, &url, &options).await;
    let pid = victim.pid();
    produce(&mut scene, &mut produced, 40).await;
    let store = scene.fresh.store().await;
    scene
        .eventually("it has all in hand", async |_| {
            store.stats().await.unwrap().pending == 0
        })
        .await;

    machine.vanish().unwrap();
    faults.hit(pid);
    // What was on its way to the server has arrived. It may have settled some before, on a slow machine.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let left = store.stats().await.unwrap().processing;
    assert!(left > 0, "it is done with all");
    let other = scene.relay(&[LEASE]).await;
    scene
        .eventually("all is settled by the other", async |_| {
            let stats = store.stats().await.unwrap();
            stats.pending + stats.processing == 0
        })
        .await;
    // One who went on would deliver the next of each key by now.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let relays: Vec<u32> = scene
        .consumed()
        .deliveries
        .iter()
        .map(|delivery| delivery.relay)
        .collect();
    let taken_over = relays.iter().position(|relay| *relay == other.pid());
    let after = &relays[taken_over.unwrap()..];
    assert!(after.iter().all(|relay| *relay != pid), "{relays:?}");
    assert_eq!(after.len() as u64, left, "it settled nothing more");

    machine.come_back().unwrap();
    produce(&mut scene, &mut produced, 40).await;
    scene.close(&produced, vec![victim, other], &faults).await;
}

// N4, B7
#[tokio::test]
async fn the_lead_of_a_vanished_machine_goes_to_another_and_stays_there() {
    let this = "machine::the_lead_of_a_vanished_machine_goes_to_another_and_stays_there";
    if !has_own_network(this).unwrap() {
        return;
    }
    let (machine, server, url) = connected();
    let mut scene = Scene::at(&server.url(), false).await;
    let (mut produced, mut faults) = (Produced::default(), scene.faults());
    let options = [("single-active", 1), LEASE];
    let victim = scene.relay_on(&machine, &url, &options).await;
    produce(&mut scene, &mut produced, 10).await;
    scene.until_done(&produced).await;
    let other = scene.relay(&options).await;
    let (first, second) = (victim.pid(), other.pid());
    produce(&mut scene, &mut produced, 10).await;
    scene.until_done(&produced).await;
    assert_eq!(scene.consumed().by(first), 20, "it leads");

    machine.vanish().unwrap();
    faults.hit(first);
    produce(&mut scene, &mut produced, 30).await;
    scene.until_done(&produced).await;
    machine.come_back().unwrap();
    produce(&mut scene, &mut produced, 30).await;
    let consumed = scene.close(&produced, vec![victim, other], &faults).await;
    assert_eq!((consumed.by(first), consumed.by(second)), (20, 60));
}
