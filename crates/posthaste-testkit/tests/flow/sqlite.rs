//! The same on a SQLite file: producers in processes of their own, and one relay at a time.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use posthaste::store::{Filter, Store};
use posthaste::{DeadReason, Message, Status};
use posthaste_testkit::file::FreshFile;
use rand::RngExt;
use rustix::process::Signal;
use uuid::Uuid;

use crate::kill::{SIGKILL, random};
use crate::ledger::Produced;
use crate::scene::{Process, Scene};

type SqliteScene = Scene<FreshFile>;

impl SqliteScene {
    /// Starts this many producers, each a process that makes about 250 events a second at most.
    fn processes(&self, count: usize) -> Vec<Process> {
        (0..count).map(|place| self.producer(place)).collect()
    }

    /// Starts a producer, and waits until it stops in order when it is asked to.
    fn producer(&self, place: usize) -> Process {
        let ledger = self.fresh.dir.join(format!("producer-{place}"));
        let child = Command::new(env!("CARGO_BIN_EXE_flow-producer"))
            .arg(self.fresh.path())
            .arg(self.fresh.table.to_string())
            .arg(&ledger)
            .arg(place.to_string())
            .stdin(Stdio::null())
            .spawn();
        let producer = Process::of(child.unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !ledger.exists() {
            assert!(Instant::now() < deadline, "the producer does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        producer
    }

    /// What producers have written down so far, each in a ledger of its own.
    fn ledgers(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.fresh.dir).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let ledgers = paths.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("producer-")
        });
        ledgers
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }

    /// Stops producers, and gives back what all that there were have done.
    fn produced(&self, producers: Vec<Process>) -> Produced {
        for mut producer in producers {
            producer.signal(Signal::TERM);
            assert!(producer.ended().success(), "a producer failed");
        }
        let mut produced = Produced::default();
        for text in self.ledgers() {
            // One that was killed may have left half a line: before its transaction ended, or after
            // it was written down that it was about to.
            for line in text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
            {
                let ids = line[1..].split_whitespace().map(|id| id.parse::<Uuid>());
                let ids: Vec<Uuid> = ids.map(Result::unwrap).collect();
                match &line[..1] {
                    "C" => produced.committed.extend(ids),
                    "R" => produced.rolled_back.extend(ids),
                    _ => produced.unsure.extend(ids),
                }
            }
        }
        let sure: HashSet<Uuid> = produced
            .committed
            .union(&produced.rolled_back)
            .copied()
            .collect();
        produced.unsure.retain(|id| !sure.contains(id));
        produced
    }

    /// Enqueues this many events at once.
    fn at_once(&self, count: usize) -> Produced {
        let messages: Vec<Message> = (0..count)
            .map(|n| {
                let message = Message::json("shop.order.placed.v1", &n).unwrap();
                message.ordering_key(format!("key-{}", n % 7))
            })
            .collect();
        let receipts = self.fresh.enqueue(&messages);
        Produced {
            committed: receipts.iter().map(|receipt| receipt.id).collect(),
            rolled_back: HashSet::new(),
            unsure: HashSet::new(),
        }
    }
}

async fn kills_at_random(ordered: bool) {
    let mut random = random();
    let scene = Scene::on_sqlite(ordered);
    let mut faults = scene.faults();
    let producers = scene.processes(3);
    let options = [("takes", 10), ("fails", 3)];
    let mut relay = scene.relay(&options).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..400))).await;
        faults.hit(relay.pid());
        relay.kill();
        relay = scene.relay(&options).await;
    }
    let produced = scene.produced(producers);
    assert!(
        produced.committed.len() > 100,
        "{}",
        produced.committed.len()
    );
    let began = Instant::now();
    scene.close(&produced, vec![relay], &faults).await;
    assert!(began.elapsed() < Duration::from_secs(30), "half of a lease");
}

// N4
#[tokio::test]
async fn a_relay_killed_at_random_loses_nothing() {
    kills_at_random(false).await;
}

#[tokio::test]
async fn a_relay_killed_at_random_keeps_every_key_in_sequence() {
    kills_at_random(true).await;
}

// M6
#[tokio::test]
async fn producers_killed_at_random_leave_no_phantom_and_lose_nothing() {
    let mut random = random();
    let scene = Scene::on_sqlite(true);
    let relay = scene.relay(&[("takes", 5)]).await;
    let mut producers = scene.processes(2);
    for place in 2..10 {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..300))).await;
        producers.swap_remove(0).kill();
        producers.push(scene.producer(place));
    }
    scene
        .eventually("something was rolled back", async |scene| {
            let ledgers = scene.ledgers();
            let mut lines = ledgers.iter().flat_map(|text| text.split_inclusive('\n'));
            lines.any(|line| line.starts_with('R') && line.ends_with('\n'))
        })
        .await;
    let produced = scene.produced(producers);
    assert!(!produced.committed.is_empty() && !produced.rolled_back.is_empty());
    let consumed = scene.close(&produced, vec![relay], &scene.faults()).await;
    assert_eq!(consumed.repeats(), 0);
}

/// One relay dies at a point; another finishes. Gives back how many deliveries each made,
/// and how many were repeated.
async fn dies(at: &str, after: u64, ordered: bool) -> (usize, usize, usize) {
    let scene = Scene::on_sqlite(ordered);
    let produced = scene.at_once(300);
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
    let scene = Scene::on_sqlite(false);
    let produced = scene.at_once(100);
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
}

/// Each relay is asked to stop while the next one has started, and is refused until then.
async fn replaced_under_load(ordered: bool) {
    let scene = Scene::on_sqlite(ordered);
    let producers = scene.processes(3);
    let options = [("takes", 20)];
    let mut relay = scene.relay(&options).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        relay.signal(Signal::TERM);
        let next = scene.relay(&options).await;
        assert!(relay.ended().success());
        relay = next;
    }
    let produced = scene.produced(producers);
    let consumed = scene.close(&produced, vec![relay], &scene.faults()).await;
    assert_eq!(consumed.repeats(), 0, "no repeats");
    let attempts = consumed.deliveries.iter().map(|delivery| delivery.attempts);
    assert_eq!(
        attempts.max(),
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

// N4: the second is refused while the first lives, says so, and goes on when it does not.
#[tokio::test]
async fn a_second_relay_is_refused_until_the_first_is_gone() {
    let scene = Scene::on_sqlite(false);
    let mut faults = scene.faults();
    // It holds what it has claimed for much longer than this test takes.
    let first = scene.relay(&[("takes", 50_000)]).await;
    let produced = scene.at_once(30);
    let store = scene.fresh.store().await;
    scene
        .eventually("it holds all", async |_| {
            store.stats().await.unwrap().processing == 30
        })
        .await;
    let second = scene.relay(&[]).await;
    let refusal = format!("is relayed by process {}", first.pid());
    scene
        .eventually("the second says who has the file", async |scene| {
            let log = scene.log();
            log.contains("store.taken") && log.contains(&refusal)
        })
        .await;
    // Long enough for its claims to become rare.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(scene.consumed().deliveries.is_empty());
    faults.hit(first.pid());
    first.kill();
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
        "about a second, far less than the lease of 60 s: {took:?}"
    );
    scene.close(&produced, vec![second], &faults).await;
}

// M9: frozen, it still has the file; when it comes back it goes on.
#[tokio::test]
async fn a_relay_frozen_past_its_lease_keeps_the_file_and_loses_nothing() {
    for ordered in [false, true] {
        let scene = Scene::on_sqlite(ordered);
        let mut faults = scene.faults();
        let producers = scene.processes(2);
        let options = [("lease", 1000), ("takes", 20)];
        let frozen = scene.relay(&options).await;
        scene
            .eventually("it has the file", async |scene| {
                scene.consumed().by(frozen.pid()) > 0
            })
            .await;
        let waiting = scene.relay(&options).await;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            frozen.signal(Signal::STOP);
            faults.hit(frozen.pid());
            tokio::time::sleep(Duration::from_millis(1500)).await;
            frozen.signal(Signal::CONT);
        }
        let produced = scene.produced(producers);
        scene.until_done(&produced).await;
        assert_eq!(scene.consumed().by(waiting.pid()), 0);
        scene.close(&produced, vec![frozen, waiting], &faults).await;
    }
}
