//! What makes an idle relay look: a notification, a waker, and in any case its poll interval.

use std::time::{Duration, Instant};

use posthaste::schema;
use posthaste_relay::Relay;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

/// Long enough for the pauses of an idle relay to be seen: they are a fiftieth of the idle time, 120 ms.
const IDLE: Duration = Duration::from_secs(6);

/// Enqueues one event into an idle relay, and gives back how long it took to arrive.
async fn latency(
    fresh: &mut Fresh,
    waker: Option<posthaste_relay::Waker>,
    witness: &Witness,
) -> Duration {
    let before = witness.delivered().len();
    tokio::time::sleep(IDLE).await;
    fresh.enqueue(&messages(1)).await;
    let committed = Instant::now();
    if let Some(waker) = waker {
        waker.wake();
    }
    while witness.delivered().len() == before {
        assert!(
            committed.elapsed() < Duration::from_secs(30),
            "not delivered"
        );
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    committed.elapsed()
}

/// A quarter of the pauses of an idle relay.
const PROMPT: Duration = Duration::from_millis(30);
/// How many of nine tries are most of them.
const MOST: usize = 5;

/// Whether most tries are prompt. What no one woke is so once in four times, by chance; what was woken may be late
/// now and then, as the machine does other things beside.
async fn is_prompt(
    fresh: &mut Fresh,
    waker: Option<posthaste_relay::Waker>,
    witness: &Witness,
) -> bool {
    let (mut prompt, mut late) = (Vec::new(), Vec::new());
    while prompt.len() < MOST && late.len() < MOST {
        let took = latency(fresh, waker.clone(), witness).await;
        match took < PROMPT {
            true => prompt.push(took),
            false => late.push(took),
        }
    }
    println!("prompt {prompt:?}, late {late:?}");
    prompt.len() == MOST
}

#[tokio::test]
async fn with_notifications_on_an_idle_relay_delivers_promptly() {
    let mut fresh = Fresh::new().await;
    let table = fresh.table.clone();
    schema::notify(&mut fresh.client, &table, true)
        .await
        .unwrap();
    let witness = Witness::willing();
    let builder = Relay::builder(fresh.store().await).destination("w", witness.clone());
    let builder = builder.poll_interval(Duration::from_secs(20));
    let relay = Running::start(builder.build().unwrap());
    let is_prompt = is_prompt(&mut fresh, None, &witness).await;
    relay.stop().await;
    assert!(is_prompt, "most of the tries were late");
}

#[tokio::test]
async fn a_waker_of_the_same_process_makes_it_look_at_once() {
    let mut fresh = Fresh::new().await;
    let witness = Witness::willing();
    let builder = Relay::builder(fresh.store().await).destination("w", witness.clone());
    let relay = builder
        .poll_interval(Duration::from_secs(20))
        .build()
        .unwrap();
    let waker = relay.waker();
    let relay = Running::start(relay);
    let is_prompt = is_prompt(&mut fresh, Some(waker), &witness).await;
    relay.stop().await;
    assert!(is_prompt, "most of the tries were late");
}

// M16
#[tokio::test]
async fn without_either_it_delivers_within_its_poll_interval() {
    let mut fresh = Fresh::new().await;
    let witness = Witness::willing();
    let builder = Relay::builder(fresh.store().await).destination("w", witness.clone());
    let relay = Running::start(builder.poll_interval(MS(500)).build().unwrap());
    let took = latency(&mut fresh, None, &witness).await;
    relay.stop().await;
    assert!(took < MS(5000), "took {took:?}");
}
