//! The store in memory does what every store does, and wakes relays.

use posthaste_testkit::bed::{Bed, InMemory};

posthaste_testkit::conformance!(InMemory::new());

#[tokio::test]
async fn every_relay_is_woken_when_something_is_enqueued() {
    use posthaste::{Message, Store};

    let bed = InMemory::new().await;
    let (one, other) = (bed.relay().await, bed.relay().await);
    let message = Message::bytes("shop.order.placed.v1", "text/plain", "x");
    bed.enqueue(&[message]).await.expect("a valid message");
    tokio::join!(one.woken(), other.woken());
}
