//! What fails: tried again, dead in the end, and never in the way of the rest.

use std::sync::Arc;

use posthaste::store::{Claim, Settlement, Verdict};
use posthaste::{DeadReason, Event, Status};
use posthaste_relay::sink::{self, Outcome};

use crate::support::*;

// org-6.2.7, org-6.2.8, org-6.2.13, org-8.1, org-9.5, M7, M13
#[tokio::test]
async fn two_workers_that_claim_at_once_never_get_the_same_event() {
    let scene = Scene::new().await;
    scene.create_many(30).await;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = open(&scene.address, "org_outbox").await;
        workers.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let batch = store.claim(&Claim::new(7)).await.unwrap();
                if batch.events.is_empty() && !batch.more {
                    // The store goes along: what is gone loses its leases.
                    return (claimed, store);
                }
                claimed.extend(batch.events.iter().map(|event| event.id));
            }
        });
    }
    let done = workers.join_all().await;
    let mut claimed: Vec<_> = done.iter().flat_map(|(claimed, _)| claimed).collect();
    assert_eq!(claimed.len(), 30);
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 30);
    let attempts = "select count(*) from org_outbox where attempts = 1 and status = 'processing'";
    assert_eq!(scene.number(attempts).await, 30);
}

// org-6.2.7, org-8.1, org-9.6, M7
#[tokio::test]
async fn what_a_worker_claimed_and_never_acknowledged_is_claimed_again_after_its_time() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let hanging = open(&scene.address, "org_outbox").await;
    let claim = Claim {
        lease: MS(3_600_000),
        ..Claim::new(1)
    };
    assert_eq!(hanging.claim(&claim).await.unwrap().events.len(), 1);
    let meanwhile = scene.store.claim(&Claim::new(1)).await.unwrap();
    assert!(meanwhile.events.is_empty());
    let later = "update org_outbox set lease_until = lease_until - interval '1 hour'";
    assert_eq!(scene.client.execute(later, &[]).await.unwrap(), 1);
    let relays = scene.relays(&[], willing()).await;
    let record = scene.until(event, Status::Delivered).await;
    relays.stop().await;
    assert_eq!(record.attempts, 2);
}

/// Notes each change of an event, as no test is quick enough to see them all.
const NOTE_CHANGES: &str = "
    create table changes (like org_outbox);
    alter table changes add column change bigint generated always as identity;
    create function note() returns trigger language plpgsql as
      $$ begin insert into changes select new.*; return null; end $$;
    create trigger note after update on org_outbox for each row execute function note();";

// org-2.4, org-5.1.7, org-6.2.5, org-6.2.10, org-6.2.11, org-6.2.12, org-8.1, org-9.7, B9
#[tokio::test]
async fn a_failure_is_tried_again_after_a_backoff_and_in_the_end_is_dead_and_still_there() {
    let scene = Scene::new().await;
    scene.client.batch_execute(NOTE_CHANGES).await.unwrap();
    let event = scene.create("Nuts").await;
    let witness = Witness::new();
    let failing = witness.bus(|event| Outcome::Retry(format!("failure {}", event.attempts)));
    let relays = scene
        .relays(&[("OUTBOX_RELAY_MAX_ATTEMPTS", "3")], failing)
        .await;
    let record = scene.until(event, Status::Dead).await;
    // It is due, were it not dead: nobody takes it.
    tokio::time::sleep(MS(300)).await;
    relays.stop().await;
    assert_eq!(witness.seen().len(), 3);
    assert_eq!(
        (record.attempts, record.dead_reason),
        (3, Some(DeadReason::Exhausted))
    );
    assert_eq!(record.last_error.as_deref(), Some("failure 3"));
    assert_eq!((record.lease_owner, record.delivered_at), (None, None));
    let select = "select extract(epoch from next_attempt_at - updated_at)::float8, last_error,
                  lease_owner is null from changes where status = 'pending' order by change";
    let rows = scene.client.query(select, &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    for (row, delay) in rows.iter().zip([1.0, 2.0]) {
        let waits: f64 = row.get(0);
        // Both times are read from a clock that goes on, the later one last.
        assert!(
            waits > delay - 0.2 && waits <= delay + 0.201,
            "{waits} for {delay}"
        );
        assert!(row.get::<_, &str>(1).starts_with("failure "));
        assert!(row.get::<_, bool>(2), "the lock is given back");
    }
}

// org-6.2.10, org-9.8, org-10.1.8, B8
#[tokio::test]
async fn a_poison_pill_holds_up_nobody_whether_it_fails_panics_or_hangs() {
    let scene = Scene::new().await;
    let mut pills = Vec::new();
    for name in ["fails", "panics", "hangs"] {
        pills.push(scene.create(name).await);
    }
    let bus = sink::from_fn(|event: Arc<Event>| async move {
        let text = String::from_utf8_lossy(&event.payload).into_owned();
        if text.contains("fails") {
            return Outcome::Retry("it fails".to_owned());
        }
        assert!(!text.contains("panics"), "it panics");
        if text.contains("hangs") {
            std::future::pending::<()>().await;
        }
        Outcome::Delivered
    });
    let switches = [
        ("OUTBOX_RELAY_MAX_ATTEMPTS", "2"),
        ("OUTBOX_RELAY_DISPATCH_TIMEOUT", "300ms"),
        // Each claim takes one: a claim that waited for the ones before would be seen.
        ("OUTBOX_RELAY_BATCH_SIZE", "1"),
    ];
    let relays = scene.relays(&switches, bus).await;
    for event in scene.create_many(10).await {
        let record = scene.until(event, Status::Delivered).await;
        assert_eq!(record.attempts, 1);
    }
    for (pill, error) in pills
        .iter()
        .zip(["it fails", "it panics", "timed out after 300ms"])
    {
        let record = scene.until(*pill, Status::Dead).await;
        assert_eq!(record.attempts, 2);
        let told = record.last_error.unwrap();
        assert!(told.contains(error), "{told}");
    }
    let later = scene.create("later").await;
    scene.until(later, Status::Delivered).await;
    relays.stop().await;
}

// org-7.4, org-7.5, org-9.13, org-10.1.9, B13
#[tokio::test]
async fn a_kept_error_is_cut_and_tells_neither_payload_nor_secret() {
    let scene = Scene::new().await;
    let name = "Confidential & Sons of Nottingham";
    let event = scene.create(name).await;
    let witness = Witness::new();
    let telling = witness.bus(|event| {
        let payload = String::from_utf8_lossy(&event.payload).into_owned();
        let tail = "x".repeat(5000);
        Outcome::Reject(format!("password=hunter2 refused {payload}: {tail}"))
    });
    let relays = scene
        .relays(&[("OUTBOX_LAST_ERROR_MAX_BYTES", "300")], telling)
        .await;
    let record = scene.until(event, Status::Dead).await;
    relays.stop().await;
    let error = record.last_error.unwrap();
    assert_eq!(error.len(), 300);
    assert!(
        error.starts_with("password=*** refused [payload]: xxx"),
        "{error}"
    );
    assert!(!error.contains(name) && !error.contains("hunter2"));
}

// org-4.1.19, org-6.2.11, org-6.2.14, org-3.3, org-6.2.15
#[tokio::test]
async fn a_failed_event_lets_later_ones_overtake_it() {
    let scene = Scene::new().await;
    let events = scene.create_many(3).await;
    let witness = Witness::new();
    let first = events[0];
    let bus = witness.bus(move |event| match (event.id == first, event.attempts) {
        (true, 1) => Outcome::Retry("not yet".to_owned()),
        _ => Outcome::Delivered,
    });
    let relays = scene.relays(&[], bus).await;
    eventually("the error of the first is kept", async || {
        scene.event(first).await.last_error.as_deref() == Some("not yet")
    })
    .await;
    for event in &events {
        scene.until(*event, Status::Delivered).await;
    }
    relays.stop().await;
    let record = scene.event(first).await;
    assert_eq!((record.last_error, record.lease_owner), (None, None));
    assert!(record.delivered_at.is_some());
    let order: Vec<i64> = witness.seen().iter().map(|event| event.sequence).collect();
    assert_eq!(order.len(), 4);
    assert_eq!(
        order.last(),
        order.iter().min(),
        "the first comes last: {order:?}"
    );
}

// org-6.2.7, org-6.2.8, org-4.1.6
#[tokio::test]
async fn a_claim_takes_what_is_due_in_the_order_of_time_and_sequence() {
    let scene = Scene::new().await;
    let events = scene.create_many(5).await;
    let later = "update org_outbox set next_attempt_at = clock_timestamp() + interval '1 hour' where id = $1";
    scene.client.execute(later, &[&events[0]]).await.unwrap();
    let claimed = scene.store.claim(&Claim::new(3)).await.unwrap().events;
    let ids: Vec<_> = claimed.iter().map(|event| event.id).collect();
    assert_eq!(ids, events[1..4]);
    assert!(claimed.is_sorted_by_key(|event| event.sequence));
    // An acknowledgement ends it.
    let delivered = Verdict::Delivered { keep: true };
    let settled = scene
        .store
        .settle(&[Settlement::new(claimed[0].lease, delivered)])
        .await;
    assert_eq!(settled.unwrap().applied, 1);
    let record = scene.event(events[1]).await;
    assert!(record.delivered_at.is_some() && record.lease_owner.is_none());
}

// org-6.2.9, B8
#[tokio::test]
async fn while_an_event_is_dispatched_the_relay_has_no_transaction_open() {
    let scene = Scene::new().await;
    let named = format!("{}?application_name=org-relays", scene.address);
    let event = scene.create("Nuts").await;
    let begun = Arc::new(tokio::sync::Notify::new());
    let go_on = Arc::new(tokio::sync::Notify::new());
    let (tell, wait) = (begun.clone(), go_on.clone());
    let bus = sink::from_fn(move |_: Arc<Event>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            Outcome::Delivered
        }
    });
    let shutdown = tokio_util::sync::CancellationToken::new();
    let relays = org::Relays::start(&named, &environment(BRISK), bus, &shutdown).await;
    let relays = relays.unwrap();
    begun.notified().await;
    let sessions = "select count(*) from pg_stat_activity
                    where application_name = 'org-relays' and datname = current_database()";
    assert!(scene.number(sessions).await >= 2);
    let waiting = format!("{sessions} and state = 'idle in transaction'");
    for _ in 0..20 {
        assert_eq!(scene.number(&waiting).await, 0);
        tokio::time::sleep(MS(10)).await;
    }
    assert_eq!(scene.event(event).await.status, Status::Processing);
    go_on.notify_one();
    scene.until(event, Status::Delivered).await;
    shutdown.cancel();
    relays.stopped().await;
}

// org-5.1.4, org-9.4, B22
#[tokio::test]
async fn an_event_with_too_large_a_payload_is_refused_with_a_code_and_its_change_rolled_back() {
    let scene = Scene::new().await;
    let name = "x".repeat(2 << 20);
    let command = scene.command();
    let hired = scene
        .staff
        .hire(&command, uuid::Uuid::now_v7(), &name)
        .await;
    let refused = hired.unwrap_err();
    let org::ModuleError::Enqueue(error) = &refused else {
        panic!("{refused}");
    };
    assert_eq!(error.code(), "outbox.payload_too_large");
    assert_eq!(scene.number("select count(*) from hrm.employees").await, 0);
}
