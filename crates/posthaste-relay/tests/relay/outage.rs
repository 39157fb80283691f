//! A destination that is down or slow costs no event an attempt, and no other destination a thing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use posthaste::store::{OnFailure, Ordering as Order};
use posthaste::{Status, Store};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;
use tokio::sync::Semaphore;

use crate::support::*;

const DOWN: &str = "shop.mail.sent.v1";

/// A sink that is down until the switch says otherwise, and then takes this long for each event.
fn switched(up: &Arc<AtomicBool>, takes: std::time::Duration) -> Arc<Witness> {
    let up = up.clone();
    Witness::new(move |_| {
        let is_up = up.load(Ordering::SeqCst);
        async move {
            match is_up {
                true => {
                    tokio::time::sleep(takes).await;
                    Outcome::Delivered
                }
                false => Outcome::Unavailable("connection refused".to_owned()),
            }
        }
    })
}

// F9 M13: what was tried in vain must not end up behind those that wait for it.
#[tokio::test]
async fn a_destination_that_was_down_for_long_gets_every_key_in_order_once_it_is_back() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let down = switched(&up, MS(0));
    let builder = brisk(&fresh).await.max_attempts(1).random(|| 0.0);
    let relay = builder
        .ordering(posthaste::store::Ordering::Key(
            posthaste::store::OnFailure::Block,
        ))
        .destination("mail", down.clone());
    let relay = Running::start(relay.build().unwrap());
    let keyed = |n| message(DOWN).ordering_key(format!("key-{}", n % 2));
    let batch: Vec<_> = (0..200).map(keyed).collect();
    let receipts = fresh.enqueue(&batch).await;
    eventually("several were tried in vain", async || {
        down.seen().len() >= 4
    })
    .await;
    up.store(true, Ordering::SeqCst);
    down.until_delivered(receipts.len()).await;
    relay.stop().await;
    for key in ["key-0", "key-1"] {
        let of_key = down.delivered().into_iter();
        let of_key = of_key.filter(|event| event.ordering_key.as_deref() == Some(key));
        let sequences: Vec<i64> = of_key.map(|event| event.sequence).collect();
        assert_eq!(sequences.len(), 100);
        assert!(sequences.is_sorted(), "{sequences:?}");
    }
}

// F9
#[tokio::test]
async fn while_a_destination_is_down_its_events_wait_unharmed_and_others_are_delivered() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let (down, other) = (switched(&up, MS(0)), Witness::willing());
    // With one attempt in all, an outage that cost one would show at once.
    let builder = brisk(&fresh).await.max_attempts(1).random(|| 0.0);
    let builder = builder
        .destination("mail", down.clone())
        .route(DOWN, "mail");
    let builder = builder
        .destination("other", other.clone())
        .route("*", "other");
    let relay = Running::start(builder.build().unwrap());
    for round in 1..=10 {
        let mails = (0..50).map(|_| message(DOWN));
        let batch: Vec<_> = mails.chain(messages(50)).collect();
        fresh.enqueue(&batch).await;
        other.until_delivered(round * 50).await;
    }
    tokio::time::sleep(MS(700)).await;
    let store = fresh.store().await;
    assert!(down.delivered().is_empty());
    assert_eq!(with_status(&store, Status::Dead).await.len(), 0);
    eventually("all are pending with no attempt spent", async || {
        let pending = with_status(&store, Status::Pending).await;
        pending.len() == 500 && pending.iter().all(|record| record.attempts == 0)
    })
    .await;
    let asked = down.seen().len();
    assert!(
        asked < 150,
        "its circuit is open, and yet it was asked {asked} times"
    );

    up.store(true, Ordering::SeqCst);
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!((down.delivered().len(), other.seen().len()), (500, 500));
    let delivered = with_status(&store, Status::Delivered).await;
    assert!(delivered.len() == 1000 && delivered.iter().all(|record| record.attempts == 1));
}

// F9
#[tokio::test]
async fn a_destination_that_is_back_is_given_one_event_then_more_and_more() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let witness = switched(&up, MS(20));
    fresh.enqueue(&messages(400)).await;
    let builder = brisk(&fresh).await.random(|| 0.0);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    eventually("probes", async || !witness.seen().is_empty()).await;
    eventually("everything is handed back", async || {
        fresh.store().await.stats().await.unwrap().pending == 400
    })
    .await;
    let (began, before) = (Instant::now(), witness.seen().len());
    up.store(true, Ordering::SeqCst);
    witness.until_delivered(400).await;
    let took = began.elapsed();
    relay.stop().await;

    let at_once = &witness.at_once()[before..];
    // Every answer widens the ramp by one at most, until it has gone well for five seconds.
    for (place, at_once) in at_once.iter().enumerate() {
        assert!(
            *at_once <= place + 1 || took >= MS(5000),
            "{at_once} at once as number {place}"
        );
    }
    let (first, widest) = (at_once[0], *at_once.iter().max().unwrap());
    assert!(first == 1 && widest > 8, "from {first} to {widest}");
}

// F9
#[tokio::test]
async fn every_event_of_an_outage_under_way_is_handed_back_without_an_attempt() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(300)).await;
    // All are under way when the destination goes down.
    let gate = Arc::new(Semaphore::new(0));
    let shut = gate.clone();
    let witness = Witness::new(move |_| {
        let gate = shut.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Outcome::Unavailable("gone".to_owned())
        }
    });
    let builder = brisk(&fresh).await.max_attempts(1);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    eventually("all under way", async || witness.seen().len() >= 300).await;
    gate.add_permits(1000);
    let store = fresh.store().await;
    eventually("all handed back", async || {
        let pending = with_status(&store, Status::Pending).await;
        pending.iter().filter(|record| record.attempts == 0).count() >= 299
    })
    .await;
    relay.stop().await;
    let pending = with_status(&store, Status::Pending).await;
    assert!(pending.len() == 300 && pending.iter().all(|record| record.attempts == 0));
}

// B8
#[tokio::test]
async fn a_slow_destination_does_not_slow_another() {
    let mut fresh = Fresh::new().await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(60_000)).await;
        Outcome::Delivered
    });
    let quick = Witness::willing();
    // So that the slow one is not given up before it is done.
    let builder = brisk(&fresh).await.lease(MS(120_000));
    let builder = builder.dispatch_timeout(MS(70_000));
    let builder = builder.batch_size(50).in_flight(200);
    let builder = builder.destination("slow", slow.clone()).concurrency(4);
    let builder = builder.destination("quick", quick.clone());
    let builder = builder.route(DOWN, "slow").route("*", "quick");
    let relay = Running::start(builder.build().unwrap());
    let started = Instant::now();
    // The backlog of the slow one is larger than what the relay can have in hand.
    fresh
        .enqueue(&(0..1000).map(|_| message(DOWN)).collect::<Vec<_>>())
        .await;
    for round in 1..=5 {
        fresh.enqueue(&messages(200)).await;
        quick.until_delivered(round * 200).await;
    }
    let took = started.elapsed();
    assert!(took < MS(50_000), "took {took:?}");
    assert_eq!(slow.at_once().iter().max(), Some(&4));
    drop(relay);
}

// F9
#[tokio::test]
async fn a_destination_that_falls_silent_while_it_is_down_is_not_taken_for_one_that_is_back() {
    let mut fresh = Fresh::new().await;
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = refuses.clone();
    let witness = Witness::new(move |_| {
        let refuses = refusing.load(Ordering::SeqCst);
        async move {
            match refuses {
                true => Outcome::Unavailable("connection refused".to_owned()),
                false => std::future::pending().await,
            }
        }
    });
    fresh.enqueue(&messages(400)).await;
    // With one attempt in all, a probe that cost one would show at once.
    let builder = brisk(&fresh).await.dispatch_timeout(MS(50)).max_attempts(1);
    let builder = builder.random(|| 0.0).destination("w", witness.clone());
    let relay = builder.build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    let is_down = || view.look().unwrap().destinations[0].outage.is_some();
    eventually("it is down", async || is_down()).await;
    refuses.store(false, Ordering::SeqCst);
    eventually("everything is handed back", async || {
        fresh.store().await.stats().await.unwrap().pending == 400
    })
    .await;
    let (began, before) = (Instant::now(), witness.seen().len());
    eventually("it is probed", async || witness.seen().len() > before).await;
    tokio::time::sleep(MS(3000)).await;
    let probes = witness.seen().len() - before;
    // The pauses get longer: after so many, there are at least two seconds between two of them.
    let most = 4 + began.elapsed().saturating_sub(MS(3000)).as_secs() as usize / 2;
    assert!(
        probes <= most,
        "it was asked {probes} times, and not {most}"
    );
    assert!(is_down(), "nobody answered");
    relay.stop().await;
    let pending = with_status(&fresh.store().await, Status::Pending).await;
    assert!(pending.len() == 400 && pending.iter().all(|record| record.attempts == 0));
}

// F9
#[tokio::test]
async fn a_destination_that_answers_nobody_kills_no_event() {
    let mut fresh = Fresh::new().await;
    let answers = Arc::new(AtomicBool::new(false));
    let answering = answers.clone();
    let witness = Witness::new(move |_| {
        let answers = answering.load(Ordering::SeqCst);
        async move {
            match answers {
                true => Outcome::Delivered,
                false => std::future::pending().await,
            }
        }
    });
    fresh.enqueue(&messages(400)).await;
    let builder = brisk(&fresh).await.dispatch_timeout(MS(50)).max_attempts(2);
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    eventually("it is down", async || {
        view.look().unwrap().destinations[0].outage.is_some()
    })
    .await;
    // Time for some probes.
    tokio::time::sleep(MS(1500)).await;
    answers.store(true, Ordering::SeqCst);
    witness.until_delivered(400).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!(with_status(&store, Status::Delivered).await.len(), 400);
}

// F9
#[tokio::test]
async fn an_event_that_always_finds_its_destination_down_is_not_the_only_one_to_try() {
    only_the_first_finds_it_down(Order::None).await;
}

// F9
#[tokio::test]
async fn nor_is_one_that_others_of_its_key_wait_for() {
    only_the_first_finds_it_down(Order::Key(OnFailure::Block)).await;
}

async fn only_the_first_finds_it_down(order: Order) {
    let mut fresh = Fresh::new().await;
    let of_key = |key: &str| message(TOPIC).ordering_key(key);
    let first = fresh.enqueue(&[of_key("a")]).await[0].id;
    let others: Vec<_> = (0..20).map(|n| of_key(&format!("b{}", n % 3))).collect();
    fresh.enqueue(&others).await;
    // Such as one whose partition has no leader.
    let witness = Witness::new(move |event: Arc<posthaste::Event>| async move {
        match event.id == first {
            true => Outcome::Unavailable("no leader".to_owned()),
            false => Outcome::Delivered,
        }
    });
    let builder = brisk(&fresh).await.batch_size(1).in_flight(1);
    let builder = builder.max_attempts(1).random(|| 0.0).ordering(order);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    witness.until_delivered(20).await;
    relay.stop().await;
    let pending = with_status(&fresh.store().await, Status::Pending).await;
    assert_eq!((pending.len(), pending[0].attempts), (1, 0));
}

// F9
#[tokio::test]
async fn a_topic_that_was_never_seen_is_delivered_while_its_destination_recovers() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let witness = switched(&up, MS(0));
    fresh.enqueue(&messages(1)).await;
    let builder = brisk(&fresh).await.random(|| 0.0);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    eventually("it is down", async || !witness.seen().is_empty()).await;
    up.store(true, Ordering::SeqCst);
    witness.until_delivered(1).await;
    // One answer does not close the circuit, and no more of what was seen comes.
    fresh.enqueue(&[message("shop.order.new.v1")]).await;
    witness.until_delivered(2).await;
    relay.stop().await;
}
