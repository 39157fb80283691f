//! What a relay has in hand is bounded, and nobody takes what others need.

use posthaste::{Message, Store};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

const LARGE: &str = "shop.picture.taken.v1";

/// Pictures of 100 kB. They are no JSON, so that a database does not know better.
fn pictures(count: usize) -> Vec<Message> {
    vec![Message::bytes(LARGE, "image/png", "x".repeat(100_000)); count]
}

// M13 F9
#[tokio::test]
async fn what_is_in_hand_is_bounded_in_bytes_also_after_many_small_events() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(2000)).await;
    let witness = Witness::new(|event| async move {
        if event.topic == LARGE {
            tokio::time::sleep(MS(100)).await;
        }
        Outcome::Delivered
    });
    let builder = brisk(&fresh).await.in_flight_bytes(1_000_000);
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    witness.until_delivered(2000).await;
    fresh.enqueue(&pictures(60)).await;
    let mut most = 0;
    eventually("all pictures are there", async || {
        most = most.max(view.look().unwrap().in_flight_bytes);
        witness.delivered().len() == 2060
    })
    .await;
    relay.stop().await;
    assert!(
        (200_000..=1_100_000).contains(&most),
        "{most} bytes in hand"
    );
}

// F9 B8
#[tokio::test]
async fn a_destination_that_hangs_on_large_events_leaves_room_for_others() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&pictures(200)).await;
    let (hangs, other) = (Witness::new(|_| std::future::pending()), Witness::willing());
    let builder = brisk(&fresh).await.in_flight_bytes(1_000_000);
    let builder = builder
        .destination("pictures", hangs.clone())
        .route(LARGE, "pictures");
    let builder = builder
        .destination("other", other.clone())
        .route("*", "other");
    let relay = Running::start(builder.dispatch_timeout(MS(20_000)).build().unwrap());
    eventually("pictures hang", async || !hangs.seen().is_empty()).await;
    fresh.enqueue(&messages(300)).await;
    other.until_delivered(300).await;
    let store = fresh.store().await;
    eventually("none of the pictures was given up", async || {
        let stats = store.stats().await.unwrap();
        stats.pending + stats.processing == 200
    })
    .await;
    drop(relay);
}

// F9 B8
#[tokio::test]
async fn two_destinations_that_hang_leave_a_third_its_share() {
    let mut fresh = Fresh::new().await;
    let hangs = Witness::new(|_| std::future::pending());
    let other = Witness::willing();
    let builder = brisk(&fresh).await.in_flight(60).batch_size(60);
    let mut builder = builder.lease(MS(200_000));
    for name in ["a", "b"] {
        builder = builder.destination(name, hangs.clone());
        builder = builder.route(format!("shop.{name}.*"), name);
    }
    let builder = builder.destination("other", other.clone());
    let builder = builder.route("*", "other").dispatch_timeout(MS(100_000));
    let relay = Running::start(builder.build().unwrap());
    for _ in 0..10 {
        for name in ["a", "b"] {
            let message = message(&format!("shop.{name}.waits.v1"));
            fresh.enqueue(&vec![message; 19]).await;
        }
        tokio::time::sleep(MS(20)).await;
    }
    fresh.enqueue(&messages(300)).await;
    other.until_delivered(300).await;
    let in_hand = hangs.seen().len();
    assert!((20..=40).contains(&in_hand), "{in_hand} of sixty");
    drop(relay);
}
