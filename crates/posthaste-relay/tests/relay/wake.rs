//! What makes an idle relay look: a notification, a waker, and in any case its poll interval.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::schema;
use posthaste_relay::{Relay, Waker};
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

/// Long enough for the pauses of an idle relay to be seen: they are a fiftieth of the idle time, 600 ms.
const IDLE: Duration = Duration::from_secs(30);
/// A quarter of them.
const PROMPT: Duration = Duration::from_millis(150);
/// So many relays are tried, each once.
const TRIES: usize = 10;
/// So many of them are to be prompt. What no one woke is so once in four times, by chance: seven of ten are in four of a
/// thousand runs. What was woken may be late three times, as the machine does other things beside.
const ENOUGH: usize = 7;

/// A relay on an outbox of its own.
struct Idle {
    fresh: Fresh,
    witness: Arc<Witness>,
    waker: Waker,
    relay: Running,
}

impl Idle {
    async fn new(poll_interval: Duration, notified: bool) -> Self {
        let mut fresh = Fresh::new().await;
        let table = fresh.table.clone();
        schema::notify(&mut fresh.client, &table, notified)
            .await
            .unwrap();
        let witness = Witness::willing();
        let builder = Relay::builder(fresh.store().await).destination("w", witness.clone());
        let relay = builder.poll_interval(poll_interval).build().unwrap();
        let waker = relay.waker();
        let relay = Running::start(relay);
        Self {
            fresh,
            witness,
            waker,
            relay,
        }
    }

    /// Enqueues one event, and gives back how long it took to arrive.
    async fn latency(&mut self, wake: bool) -> Duration {
        self.fresh.enqueue(&messages(1)).await;
        let committed = Instant::now();
        if wake {
            self.waker.wake();
        }
        while self.witness.delivered().is_empty() {
            assert!(
                committed.elapsed() < Duration::from_secs(30),
                "not delivered"
            );
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        committed.elapsed()
    }
}

/// Whether enough of the idle relays deliver promptly.
async fn are_prompt(notified: bool, wake: bool) -> bool {
    let mut relays = Vec::new();
    for _ in 0..TRIES {
        relays.push(Idle::new(Duration::from_secs(20), notified).await);
    }
    tokio::time::sleep(IDLE).await;
    let mut took = Vec::new();
    for mut relay in relays {
        took.push(relay.latency(wake).await);
        relay.relay.stop().await;
    }
    println!("{took:?}");
    took.iter().filter(|took| **took < PROMPT).count() >= ENOUGH
}

#[tokio::test]
async fn with_notifications_on_an_idle_relay_delivers_promptly() {
    assert!(
        are_prompt(true, false).await,
        "too many of the tries were late"
    );
}

#[tokio::test]
async fn a_waker_of_the_same_process_makes_it_look_at_once() {
    assert!(
        are_prompt(false, true).await,
        "too many of the tries were late"
    );
}

// M16
#[tokio::test]
async fn without_either_it_delivers_within_its_poll_interval() {
    let mut relay = Idle::new(MS(500), false).await;
    tokio::time::sleep(IDLE).await;
    let took = relay.latency(false).await;
    relay.relay.stop().await;
    assert!(took < MS(15_000), "took {took:?}");
}
