//! One active instance and others that stand by: who delivers, and who takes over.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use org::ORG_OUTBOX;
use posthaste::Status;
use posthaste_relay::sink::{self, Outcome, Sink};
use uuid::Uuid;

use crate::support::*;

/// A bus that counts what it is given.
fn counting() -> (Arc<AtomicUsize>, impl Sink) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let bus = sink::from_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Outcome::Delivered)
    });
    (count, bus)
}

async fn until_led(scene: &Scene) {
    eventually("one leads", async || {
        let relays = scene.store.relays().await.unwrap();
        relays.iter().any(|relay| relay.leads)
    })
    .await;
}

// org-3.3, org-6.2.16, org-6.2.18, org-9.12, org-10.1.3, org-10.5.3, B7
#[tokio::test]
async fn of_two_instances_one_delivers_and_the_other_follows_when_it_is_gone() {
    let scene = Scene::new().await;
    let (first, bus) = counting();
    let one = scene.relays(&[], bus).await;
    until_led(&scene).await;
    let (second, bus) = counting();
    let two = scene.relays(&[], bus).await;
    for event in scene.create_many(15).await {
        scene.until(event, Status::Delivered).await;
    }
    assert_eq!(
        (first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)),
        (15, 0)
    );
    // As in a crash: nothing is said to anybody.
    drop(one);
    for event in scene.create_many(15).await.into_iter().rev() {
        scene.until(event, Status::Delivered).await;
    }
    two.stop().await;
    assert_eq!(
        (first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)),
        (15, 15)
    );
}

// org-6.2.20, org-6.2.16, org-6.2.17, org-10.5.1, B7
#[tokio::test]
async fn the_leader_holds_a_session_lock_whose_key_follows_from_the_table() {
    let scene = Scene::new().await;
    let relays = scene.relays(&[], willing()).await;
    until_led(&scene).await;
    let key = format!("outbox:{ORG_OUTBOX}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    let held = "select pid from pg_locks where locktype = 'advisory' and granted
                and database = (select oid from pg_database where datname = current_database())
                and classid::bigint = $1 and objid::bigint = $2";
    let (high, low) = ((key >> 32) as i64, (key & 0xffff_ffff) as i64);
    let rows = scene.client.query(held, &[&high, &low]).await.unwrap();
    assert_eq!(rows.len(), 1, "fnv64a of the table's name, in one session");
    relays.stop().await;
    let rows = scene.client.query(held, &[&high, &low]).await.unwrap();
    assert_eq!(rows.len(), 0, "and whoever stops lets go of it");
}

// org-3.6, org-6.2.19, org-10.1.3, M13
#[tokio::test]
async fn without_single_active_all_instances_share_the_work_and_nothing_is_done_twice() {
    let scene = Scene::new().await;
    let events = scene.create_many(30).await;
    let witnesses = [Witness::new(), Witness::new()];
    let switches = [
        ("OUTBOX_RELAY_SINGLE_ACTIVE", "false"),
        ("OUTBOX_RELAY_BATCH_SIZE", "2"),
    ];
    let mut instances = Vec::new();
    for witness in &witnesses {
        // Slow enough that one alone does not have it all.
        let seen = witness.0.clone();
        let slow = sink::from_fn(move |event: Arc<posthaste::Event>| {
            seen.lock().unwrap().push((*event).clone());
            async {
                tokio::time::sleep(MS(100)).await;
                Outcome::Delivered
            }
        });
        instances.push(scene.relays(&switches, slow).await);
    }
    let more = scene.create_many(30).await;
    for event in events.iter().chain(&more) {
        scene.until(*event, Status::Delivered).await;
    }
    for instance in instances {
        instance.stop().await;
    }
    let [first, second] = witnesses.map(|witness| witness.seen());
    assert!(!second.is_empty(), "both work");
    let all: HashSet<_> = first.iter().chain(&second).map(|event| event.id).collect();
    assert_eq!((all.len(), first.len() + second.len()), (60, 60));
}

// org-10.5.2
#[tokio::test]
async fn a_relay_has_four_connections_for_each_outbox_whether_it_leads_or_stands_by() {
    let scene = Scene::new().await;
    let named = format!("{}?application_name=org-relays", scene.address);
    let environment = environment(BRISK);
    let shutdown = tokio_util::sync::CancellationToken::new();
    let connections = "select count(*) from pg_stat_activity
                       where application_name = 'org-relays' and datname = current_database()";
    let start = async || {
        let relays = org::Relays::start(&named, &environment, willing(), &shutdown).await;
        relays.unwrap()
    };
    let mut instances = vec![start().await];
    until_led(&scene).await;
    // Each is opened when it is needed, the one that settles by the first delivery.
    scene.create("Nuts").await;
    let (command, organization) = (scene.command(), Uuid::now_v7());
    let hired = scene.staff.hire(&command, organization, "Ada").await;
    hired.unwrap();
    scene.until_settled().await;
    eventually("four for each outbox", async || {
        scene.number(connections).await == 8
    })
    .await;
    instances.push(start().await);
    // The one that stands by waits for the lock, watches and counts.
    eventually("the second has its own", async || {
        scene.number(connections).await >= 8 + 4
    })
    .await;
    for _ in 0..10 {
        let open = scene.number(connections).await;
        assert!(open <= 16, "{open} connections");
        tokio::time::sleep(MS(100)).await;
    }
    shutdown.cancel();
    for relays in instances {
        relays.stopped().await;
    }
}
