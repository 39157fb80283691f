//! Single-active: one relay works, the others stand by, and one of them follows when it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::Status;
use posthaste_relay::sink::Outcome;
use posthaste_relay::{Mode, Relay};
use posthaste_testkit::outbox::{Fresh, connect};
use tokio::sync::Semaphore;

use crate::support::*;

/// Relays of one outbox, each with a witness of its own.
struct Crew {
    relays: Vec<Running>,
    witnesses: Vec<Arc<Witness>>,
    /// Deliveries under way, by relay.
    busy: Arc<[AtomicUsize; 3]>,
    /// How often one relay began a delivery while another had one under way.
    overlaps: Arc<AtomicUsize>,
}

impl Crew {
    async fn of(fresh: &Fresh, size: usize) -> Self {
        let busy = Arc::new([const { AtomicUsize::new(0) }; 3]);
        let overlaps = Arc::new(AtomicUsize::new(0));
        let (mut relays, mut witnesses) = (Vec::new(), Vec::new());
        for place in 0..size {
            let (busy, overlaps) = (busy.clone(), overlaps.clone());
            let witness = Witness::new(move |_| {
                let (busy, overlaps) = (busy.clone(), overlaps.clone());
                async move {
                    busy[place].fetch_add(1, Ordering::SeqCst);
                    let others = (0..3).filter(|n| *n != place);
                    if others
                        .into_iter()
                        .any(|n| busy[n].load(Ordering::SeqCst) > 0)
                    {
                        overlaps.fetch_add(1, Ordering::SeqCst);
                    }
                    tokio::time::sleep(MS(2)).await;
                    busy[place].fetch_sub(1, Ordering::SeqCst);
                    Outcome::Delivered
                }
            });
            // Its sessions are told apart by this name.
            let url = format!("{}?application_name={}", fresh.url, name(fresh, place));
            let store = posthaste::store::postgres::Postgres::connect(&url, fresh.table.clone());
            let builder = Relay::builder(store.await.unwrap())
                .mode(Mode::SingleActive)
                .poll_interval(MS(50))
                .destination("w", witness.clone());
            relays.push(Running::start(builder.build().unwrap()));
            witnesses.push(witness);
        }
        Self {
            relays,
            witnesses,
            busy,
            overlaps,
        }
    }

    fn delivered(&self) -> Vec<usize> {
        self.witnesses.iter().map(|w| w.delivered().len()).collect()
    }
}

fn name(fresh: &Fresh, place: usize) -> String {
    format!("relay-{place}-{}", &fresh.table.schema()[..8])
}

/// The key of the leader's lock, which every version has to take: FNV-1a of the outbox's name.
fn leader_key(fresh: &Fresh) -> i64 {
    let hash = format!("outbox:{}", fresh.table)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    i64::from_be_bytes(hash.to_be_bytes())
}

/// Which of the relays holds the lock of the leader, and in which session. Never more than one.
async fn leader(fresh: &Fresh) -> Option<(usize, i32)> {
    let sql = "select a.application_name, a.pid from pg_locks l join pg_stat_activity a using (pid)
               where l.locktype = 'advisory' and l.granted and l.objsubid = 1
               and (l.classid::bigint << 32) | l.objid::bigint = $1";
    let row = fresh
        .client
        .query_opt(sql, &[&leader_key(fresh)])
        .await
        .unwrap()?;
    let name: &str = row.get(0);
    let place = name.split('-').nth(1).unwrap().parse().unwrap();
    Some((place, row.get(1)))
}

/// Waits for a leader in another session than this.
async fn leader_after(fresh: &Fresh, session: i32) -> (usize, i32) {
    let mut found = None;
    eventually("there is a leader", async || {
        found = leader(fresh).await.filter(|(_, other)| *other != session);
        found.is_some()
    })
    .await;
    found.unwrap()
}

// B7
#[tokio::test]
async fn only_one_of_three_relays_delivers() {
    let mut fresh = Fresh::new().await;
    let crew = Crew::of(&fresh, 3).await;
    let (leader, _) = leader_after(&fresh, 0).await;
    for _ in 0..10 {
        fresh.enqueue(&messages(100)).await;
        tokio::time::sleep(MS(50)).await;
    }
    crew.witnesses[leader].until_delivered(1000).await;
    assert_eq!(crew.delivered().iter().sum::<usize>(), 1000);
    assert_eq!(crew.overlaps.load(Ordering::SeqCst), 0);
    for relay in crew.relays {
        relay.stop().await;
    }
}

// B7
#[tokio::test]
async fn when_the_leader_stops_another_goes_on_within_a_moment() {
    let mut fresh = Fresh::new().await;
    let mut crew = Crew::of(&fresh, 2).await;
    let (first, _) = leader_after(&fresh, 0).await;
    fresh.enqueue(&messages(100)).await;
    crew.witnesses[first].until_delivered(100).await;
    crew.relays.remove(first).stop().await;
    fresh.enqueue(&messages(100)).await;
    crew.witnesses[1 - first].until_delivered(100).await;
    assert_eq!(crew.overlaps.load(Ordering::SeqCst), 0);
    crew.relays.remove(0).stop().await;
}

// B7
#[tokio::test]
async fn when_the_leader_loses_its_connection_there_is_exactly_one_leader_again_soon() {
    let mut fresh = Fresh::new().await;
    let crew = Crew::of(&fresh, 3).await;
    let watcher = connect(&fresh.url).await;
    let mut total = 0;
    for _ in 0..5 {
        let (first, session) = leader_after(&fresh, 0).await;
        fresh.enqueue(&messages(200)).await;
        total += 200;
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1";
        let cut = watcher
            .query_one(cut, &[&name(&fresh, first)])
            .await
            .unwrap();
        assert!(cut.get::<_, i64>(0) > 0);
        let began = std::time::Instant::now();
        leader_after(&fresh, session).await;
        assert!(began.elapsed() < MS(10_000), "{:?}", began.elapsed());
        eventually("all is delivered", async || {
            crew.delivered().iter().sum::<usize>() >= total
        })
        .await;
        eventually("calm", async || {
            crew.busy.iter().all(|n| n.load(Ordering::SeqCst) == 0)
        })
        .await;
    }
    let store = fresh.store().await;
    until_settled(&store).await;
    for relay in crew.relays {
        relay.stop().await;
    }
    assert_eq!(with_status(&store, Status::Delivered).await.len(), total);
    assert_eq!(
        leader(&fresh).await,
        None,
        "whoever stops lets go of the lock"
    );
}

// B7
#[tokio::test]
async fn one_that_lost_the_lead_while_its_hands_were_full_claims_nothing() {
    let mut fresh = Fresh::new().await;
    let gates = [Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0))];
    let (mut relays, mut witnesses, mut views) = (Vec::new(), Vec::new(), Vec::new());
    for (place, gate) in gates.iter().enumerate() {
        let gate = gate.clone();
        let witness = Witness::new(move |_| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Outcome::Delivered
            }
        });
        let url = format!("{}?application_name={}", fresh.url, name(&fresh, place));
        let store = posthaste::store::postgres::Postgres::connect(&url, fresh.table.clone());
        let builder = Relay::builder(store.await.unwrap())
            .mode(Mode::SingleActive)
            .poll_interval(MS(50))
            .batch_size(10)
            .in_flight(10)
            .destination("w", witness.clone());
        let relay = builder.build().unwrap();
        views.push(relay.view());
        relays.push(Running::start(relay));
        witnesses.push(witness);
        if place == 0 {
            fresh.enqueue(&messages(100)).await;
            let full = async || witnesses[0].seen().len() == 10;
            eventually("its hands are full", full).await;
        }
    }
    let cut =
        "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1";
    fresh
        .client
        .query_one(cut, &[&name(&fresh, 0)])
        .await
        .unwrap();
    eventually("the other leads, with full hands", async || {
        witnesses[1].seen().len() == 10
    })
    .await;
    gates[0].add_permits(1000);
    eventually("the first has put down what it had", async || {
        views[0]
            .look()
            .is_some_and(|it| it.in_flight == 0 && !it.leads)
    })
    .await;
    // Long enough to claim, for one who does not ask first.
    tokio::time::sleep(MS(1000)).await;
    assert_eq!(witnesses[0].seen().len(), 10, "it claimed without the lead");
    gates[1].add_permits(1000);
    until_settled(&fresh.store().await).await;
    for relay in relays {
        relay.stop().await;
    }
}
