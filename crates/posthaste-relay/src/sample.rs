//! Events to test with: enqueued and claimed, as a sink gets them.

use posthaste::store::memory::Memory;
use posthaste::store::{Claim, Store};
use posthaste::{Event, Message, Table, TraceContext};
use uuid::Uuid;

pub(crate) const TENANT: Uuid = Uuid::from_u128(7);
pub(crate) const ID: Uuid = Uuid::from_u128(1);
pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The event that this message becomes.
pub(crate) async fn event(message: Message) -> Event {
    let memory = Memory::new(Table::parse("shop.orders").unwrap());
    memory.enqueue(&[message]).unwrap();
    let claimed = memory.claim(&Claim::new(1)).await.unwrap();
    claimed.events.into_iter().next().unwrap()
}

/// An event that has everything.
pub(crate) async fn full() -> Event {
    let message = Message::json_text("shop.order.placed.v1", "{\"b\": 1, \"a\":[1.50]}").unwrap();
    let message = message
        .id(ID)
        .namespace("eu")
        .tenant(TENANT)
        .aggregate("Order", "№ 42")
        .event_type("OrderPlaced")
        .ordering_key("42/a.b")
        .header("source", "check out")
        .trace(TraceContext {
            traceparent: PARENT.to_owned(),
            tracestate: Some("vendor=a b".to_owned()),
        });
    event(message).await
}

/// An event that has nothing but its topic and payload.
pub(crate) async fn plain() -> Event {
    event(
        Message::bytes(
            "shop.order.placed.v1",
            "application/octet-stream",
            [0, 159, 146],
        )
        .id(ID),
    )
    .await
}
