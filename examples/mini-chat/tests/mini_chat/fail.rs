//! What becomes of an event that cannot be published: later again, then dead, and seen by people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use mini_chat::Charge;
use posthaste::store::{Claim, Settlement, Verdict};
use posthaste::{DeadReason, Event, Status};
use posthaste_relay::sink::{self, Outcome, Sink};
use posthaste_relay::{Retry, Settings};

use crate::support::*;

/// Notes each change of an event, as no test is quick enough to see them all.
const NOTE_CHANGES: &str = "
    create table changes (like modkit_outbox_events);
    alter table changes add column change bigint generated always as identity;
    create function note() returns trigger language plpgsql as
      $$ begin insert into changes select new.*; return null; end $$;
    create trigger note after update on modkit_outbox_events for each row execute function note();";

// mini-chat-6.5, mini-chat-2.2.3, mini-chat-2.2.16, mini-chat-3.3.1, mini-chat-3.3.2, mini-chat-3.3.3,
// mini-chat-3.3.5, mini-chat-5.2.3, M10
#[tokio::test]
async fn a_failed_publish_is_tried_again_after_ever_longer_times_and_says_why() {
    let scene = Scene::new().await;
    scene.client.batch_execute(NOTE_CHANGES).await.unwrap();
    let turn = scene.turn().await;
    let settings = Settings {
        retry: Retry::EqualJitter {
            base: MS(200),
            max: MS(800),
        },
        random: || 1.0,
        ..brisk()
    };
    let publish = answer(|event| match event.attempts {
        attempt @ 1..=4 => Outcome::Retry(format!("failure {attempt}")),
        _ => Outcome::Delivered,
    });
    let dispatcher = scene.dispatcher_with(settings, publish).await;
    scene.until(turn.event, Status::Delivered).await;
    dispatcher.stop().await;
    let select =
        "select attempts, last_error, extract(epoch from next_attempt_at - updated_at)::float8,
                  lease_owner is null and lease_until is null, next_attempt_at
                  from changes where status = 'pending' order by change";
    let failures = scene.client.query(select, &[]).await.unwrap();
    assert_eq!(failures.len(), 4);
    let mut before = None;
    for (row, (attempts, delay)) in failures
        .iter()
        .zip([(1, 0.2), (2, 0.4), (3, 0.8), (4, 0.8)])
    {
        assert_eq!(row.get::<_, i32>(0), attempts);
        assert_eq!(row.get::<_, &str>(1), format!("failure {attempts}"));
        let waits: f64 = row.get(2);
        // Both times are read from a clock that goes on, the later one last.
        assert!(
            waits > delay * 0.5 && waits <= delay + 0.001,
            "{waits} for {delay}"
        );
        assert!(row.get::<_, bool>(3), "the lease is cleared");
        let next: std::time::SystemTime = row.get(4);
        assert!(before < Some(next), "ever later");
        before = Some(next);
    }
    assert_eq!(scene.event(turn.event).await.attempts, 5);
}

// mini-chat-1.6.15, mini-chat-3.2.6, mini-chat-3.2.8, mini-chat-4.3, mini-chat-4.4
#[tokio::test]
async fn claiming_failing_and_delivering_each_say_when_and_only_a_claim_holds_a_lease() {
    let scene = Scene::new().await;
    scene.client.batch_execute(NOTE_CHANGES).await.unwrap();
    let turn = scene.turn().await;
    let publish = answer(|event| match event.attempts {
        1 => Outcome::Retry("not yet".to_owned()),
        _ => Outcome::Delivered,
    });
    let dispatcher = scene.dispatcher(publish).await;
    let owner = dispatcher.dispatcher.store().owner();
    scene.until(turn.event, Status::Delivered).await;
    dispatcher.stop().await;
    let select = "select status, attempts, lease_owner, lease_until - updated_at > interval '29 s',
                  updated_at from changes order by change";
    let changes = scene.client.query(select, &[]).await.unwrap();
    let statuses: Vec<(&str, i32)> = changes.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        ("processing", 1),
        ("pending", 1),
        ("processing", 2),
        ("delivered", 2),
    ];
    assert_eq!(statuses, expected);
    let mut before = scene.event(turn.event).await.created_at;
    for row in &changes {
        let leased = row.get::<_, &str>(0) == "processing";
        assert_eq!(row.get::<_, Option<uuid::Uuid>>(2), leased.then_some(owner));
        assert_eq!(row.get::<_, Option<bool>>(3), leased.then_some(true));
        let at: std::time::SystemTime = row.get(4);
        assert!(at > before, "updated_at is set by every step");
        before = at;
    }
}

// mini-chat-1.2.4, mini-chat-1.2.5, mini-chat-1.7.4, mini-chat-3.2.7, mini-chat-3.3.6, mini-chat-3.3.7,
// mini-chat-4.8, M15, B16
#[tokio::test]
async fn after_its_last_attempt_an_event_is_dead_for_good_and_the_metrics_tell() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // Of this thread, which all of this test runs on.
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let scene = Scene::new().await;
    let turn = scene.turn().await;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let publish = answer(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Outcome::Retry("the ledger is full".to_owned())
    });
    let settings = Settings {
        max_attempts: 3,
        stats_interval: MS(50),
        ..brisk()
    };
    let dispatcher = scene.dispatcher_with(settings, publish).await;
    let event = scene.until(turn.event, Status::Dead).await;
    assert_eq!(
        (event.attempts, event.dead_reason),
        (3, Some(DeadReason::Exhausted))
    );
    assert_eq!(event.last_error.as_deref(), Some("the ledger is full"));
    let mut told = BTreeMap::new();
    eventually("the gauge tells of it", async || {
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let value = match value {
                DebugValue::Counter(n) => n as f64,
                DebugValue::Gauge(n) => n.into_inner(),
                DebugValue::Histogram(_) => continue,
            };
            *told.entry(key.key().name().to_owned()).or_insert(0.0) = value;
        }
        told.get("outbox_dead") == Some(&1.0)
    })
    .await;
    assert!(told.contains_key("outbox_dead_total"), "{told:?}");
    // It is due, were it not dead: nobody takes it.
    tokio::time::sleep(MS(300)).await;
    dispatcher.stop().await;
    assert_eq!(
        calls.load(Ordering::SeqCst),
        3,
        "three attempts are three calls"
    );
    let settled = "select count(*) from chat.turns where outcome is not null";
    assert_eq!(
        scene.number(settled).await,
        1,
        "its turn is settled all the same"
    );
}

// mini-chat-3.2.4, mini-chat-1.7.4, M8
#[tokio::test]
async fn an_event_whose_attempts_are_used_up_is_not_claimed_again_but_found_dead() {
    let scene = Scene::new().await;
    let turn = scene.turn().await;
    let used_up = "update modkit_outbox_events set attempts = 3";
    scene.client.batch_execute(used_up).await.unwrap();
    let claim = Claim {
        max_attempts: 3,
        ..Claim::new(10)
    };
    let claimed = scene.store.claim(&claim).await.unwrap();
    assert!(claimed.events.is_empty());
    let died: Vec<_> = claimed.died.iter().map(|it| (it.id, it.reason)).collect();
    assert_eq!(died, [(turn.event, DeadReason::Exhausted)]);
    assert_eq!(scene.event(turn.event).await.status, Status::Dead);
}

// mini-chat-3.2.2, mini-chat-4.2, M7
#[tokio::test]
async fn an_event_that_is_not_due_is_not_claimed() {
    let scene = Scene::new().await;
    let turn = scene.turn().await;
    let lease = scene.store.claim(&Claim::new(1)).await.unwrap().events[0].lease;
    let later = Verdict::Retry {
        delay: Duration::from_secs(3600),
        error: "busy".to_owned(),
    };
    let settled = scene.store.settle(&[Settlement::new(lease, later)]).await;
    assert_eq!(settled.unwrap().applied, 1);
    assert!(
        scene
            .store
            .claim(&Claim::new(1))
            .await
            .unwrap()
            .events
            .is_empty()
    );
    let due = "update modkit_outbox_events set next_attempt_at = clock_timestamp()";
    scene.client.batch_execute(due).await.unwrap();
    let claimed = scene.store.claim(&Claim::new(1)).await.unwrap().events;
    assert_eq!((claimed[0].id, claimed[0].attempts), (turn.event, 2));
}

/// Publishes to billing, and then acts as if the answer had been lost, twice.
fn forgetful(publish: impl Sink) -> impl Sink {
    let publish = Arc::new(publish);
    sink::from_fn(move |event: Arc<Event>| {
        let publish = publish.clone();
        async move {
            match publish.deliver(event.clone()).await {
                Outcome::Delivered if event.attempts < 3 => {
                    Outcome::Retry("the acknowledgement was lost".to_owned())
                }
                outcome => outcome,
            }
        }
    })
}

// mini-chat-6.6, mini-chat-1.3.3, mini-chat-1.6.22, mini-chat-2.2.20, mini-chat-2.2.21, mini-chat-5.3
#[tokio::test]
async fn a_turn_is_charged_once_however_often_its_event_arrives() {
    let scene = Scene::new().await;
    let dispatcher = scene.dispatcher(forgetful(scene.billing().sink())).await;
    for turn in scene.turns(10).await {
        let event = scene.until(turn.event, Status::Delivered).await;
        assert_eq!(event.attempts, 3);
    }
    dispatcher.stop().await;
    assert_eq!(
        scene.number("select count(*) from billing.charges").await,
        10
    );
    let billed = scene
        .number("select sum(tokens)::bigint from billing.charges")
        .await;
    assert_eq!(billed, scene.chat.used(scene.tenant).await.unwrap());
}

// mini-chat-1.6.22, mini-chat-6.6
#[tokio::test]
async fn billing_goes_by_tenant_turn_and_request_and_refuses_what_contradicts_itself() {
    let scene = Scene::new().await;
    scene.turn().await;
    let mut event = scene
        .store
        .claim(&Claim::new(1))
        .await
        .unwrap()
        .events
        .remove(0);
    let billing = scene.billing();
    assert_eq!(billing.charge(&event).await.unwrap(), Charge::Made);
    // Another event, as its id tells, of the same turn.
    event.id = uuid::Uuid::new_v4();
    assert_eq!(billing.charge(&event).await.unwrap(), Charge::MadeBefore);
    let key = event.dedupe_key.clone().unwrap();
    for wrong in [
        None,
        Some("x".to_owned()),
        Some(format!("{key}/1")),
        Some(key.replace('-', "")),
    ] {
        // The last one is the same key written otherwise: it still is the same turn.
        let same = wrong.as_ref().is_some_and(|key| key.len() == 98);
        event.dedupe_key = wrong;
        let charged = billing.charge(&event).await;
        assert_eq!(charged.is_ok(), same, "{charged:?}");
    }
    event.dedupe_key = Some(format!("{0}/{0}/{0}", scene.tenant));
    let refused = billing.charge(&event).await.unwrap_err().to_string();
    assert!(refused.contains("another turn than its key"), "{refused}");
    assert_eq!(
        scene.number("select count(*) from billing.charges").await,
        1
    );
}
