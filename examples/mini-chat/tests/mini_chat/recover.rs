//! What a dispatcher that crashed or hung leaves behind is published by another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::Status;
use posthaste::store::{Claim, Settlement, Verdict};
use posthaste_relay::Settings;
use posthaste_relay::sink::{self, Outcome};

use crate::support::*;

// mini-chat-6.4, mini-chat-2.2.4, mini-chat-2.2.10, mini-chat-2.2.11, mini-chat-3.2.3, mini-chat-4.5, mini-chat-4.6,
// mini-chat-5.2.2, M7
#[tokio::test]
async fn when_the_lease_of_a_dispatcher_that_hangs_ends_another_one_publishes_its_events() {
    let scene = Scene::new().await;
    // Once it was asked, another claim takes but a moment.
    let none = scene.store.claim(&Claim::new(10)).await.unwrap();
    assert!(none.events.is_empty());
    let turns = scene.turns(5).await;
    // It claims, and nothing more is heard of it, though its session stays.
    let hanging = store(&scene.address).await;
    let claim = Claim {
        lease: MS(4000),
        ..Claim::new(10)
    };
    assert_eq!(hanging.claim(&claim).await.unwrap().events.len(), 5);
    let meanwhile = scene.store.claim(&Claim::new(10)).await.unwrap();
    assert!(meanwhile.events.is_empty(), "the lease holds");
    let dispatcher = scene.dispatcher(scene.billing().sink()).await;
    for turn in turns {
        let event = scene.until(turn.event, Status::Delivered).await;
        assert_eq!((event.attempts, event.lease_epoch), (2, 2));
        let history = scene.store.history(turn.event).await.unwrap();
        let [Some(first), Some(second)] = [0, 1].map(|n: usize| history[n].claimed_at) else {
            panic!("{history:?}");
        };
        assert!(
            second.duration_since(first).unwrap() > MS(3900),
            "not before the lease ended"
        );
    }
    dispatcher.stop().await;
}

// mini-chat-2.2.17, mini-chat-2.2.18, mini-chat-4.7, mini-chat-1.7.6, M9, M15
#[tokio::test]
async fn an_acknowledgement_that_comes_too_late_is_reported_as_lost_and_changes_nothing() {
    let scene = Scene::new().await;
    let turn = scene.turn().await;
    let slow = store(&scene.address).await;
    let claim = Claim {
        lease: MS(100),
        ..Claim::new(1)
    };
    let late = slow.claim(&claim).await.unwrap().events[0].lease;
    let dispatcher = scene.dispatcher(answer(|_| Outcome::Delivered)).await;
    let delivered = scene.until(turn.event, Status::Delivered).await;
    for verdict in [
        Verdict::Delivered { keep: true },
        Verdict::Retry {
            delay: MS(1),
            error: "too late".to_owned(),
        },
    ] {
        let settled = slow
            .settle(&[Settlement::new(late, verdict)])
            .await
            .unwrap();
        assert_eq!((settled.applied, settled.lost), (0, vec![late]));
    }
    dispatcher.stop().await;
    assert_eq!(scene.event(turn.event).await, delivered);
}

// mini-chat-3.2.1, M7
#[tokio::test]
async fn a_claim_is_one_transaction_however_many_events_it_takes() {
    let scene = Scene::new().await;
    // Each in a transaction of its own.
    scene.turns(5).await;
    let transactions = "select count(distinct xmin::text) from modkit_outbox_events";
    assert_eq!(scene.number(transactions).await, 5);
    let claimed = scene.store.claim(&Claim::new(10)).await.unwrap();
    assert_eq!(claimed.events.len(), 5);
    assert_eq!(scene.number(transactions).await, 1);
}

// mini-chat-6.4, mini-chat-1.2.3, mini-chat-2.2.20, mini-chat-4.5
#[tokio::test]
async fn a_dispatcher_that_crashes_while_it_publishes_costs_no_event() {
    let scene = Scene::new().await;
    let turns = scene.turns(10).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let never_ends = sink::from_fn(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Outcome>()
    });
    // What it left behind in this process keeps its session: so it is by the lease that it is found out.
    let settings = Settings {
        lease: MS(1500),
        dispatch_timeout: MS(1000),
        ..brisk()
    };
    let crashes = scene.dispatcher_with(settings, never_ends).await;
    eventually("it publishes", async || begun.load(Ordering::SeqCst) == 10).await;
    drop(crashes);
    let dispatcher = scene.dispatcher(scene.billing().sink()).await;
    for turn in turns {
        let event = scene.until(turn.event, Status::Delivered).await;
        assert_eq!(event.attempts, 2, "the crash cost an attempt");
    }
    dispatcher.stop().await;
}
