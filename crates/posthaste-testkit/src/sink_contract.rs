//! What every sink does, whatever it delivers to: one function for each behaviour, by theme.
//!
//! [`sink_contract!`](crate::sink_contract!) makes a test of each of them, for a sink whose
//! [`Place`] it is given. Above each stands the line of the spec that it proves.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "these are tests: their names are sentences, and a panic is how they fail"
)]

pub mod arrive;
pub mod flow;
pub mod load;
pub mod order;
pub mod outage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::Claim;
use posthaste::store::memory::Memory;
use posthaste::{Event, Message, Store, Table, TraceContext};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::{Outcome, Sink};
use uuid::Uuid;

const TOPIC: &str = "shop.order.placed.v1";
/// Long enough for a busy machine; a test that works never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A destination on a real server, which nobody else uses: a topic, queue, stream or address of
/// its own. A further sink implements this, and passes its constructor to
/// [`sink_contract!`](crate::sink_contract!).
#[async_trait]
pub trait Place: Send + Sync + 'static {
    /// The sink to be tested.
    type Sink: Sink;

    /// How headers are written there.
    const BINDING: Binding;

    /// A sink that delivers here, in this envelope.
    async fn sink(&self, envelope: Envelope) -> Self::Sink;

    /// All that has arrived here, in the order in which it did, read by a client that is not ours.
    async fn arrived(&self) -> Vec<Arrived>;

    /// A payload of this many bytes is more than the destination takes. `None`: it takes any.
    fn too_large(&self) -> Option<usize>;

    /// Stops the server. When this returns, nothing can reach it.
    async fn stop(&self);

    /// Starts the server again, at the same address. When this returns, it can be reached. What it
    /// acknowledged before is still there.
    async fn start(&self);
}

/// What arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrived {
    /// Its headers, and the content type as the header `content-type`.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Arrived {
    /// A header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The id of the event, if it came in a raw envelope.
    pub fn id(&self) -> Option<Uuid> {
        self.header("posthaste-id")?.parse().ok()
    }
}

/// Makes a test of every behaviour. The expression makes a fresh place, and is awaited:
///
/// ```ignore
/// posthaste_testkit::sink_contract!(Webhook::new());
/// ```
///
/// Where servers are slow to start, those that are stopped can be others than those that are not:
///
/// ```ignore
/// posthaste_testkit::sink_contract!(Topic::shared(), outage: Topic::mortal());
/// ```
///
/// What breaks with its network is given apart, as a [`Frail`](order::Frail) place:
///
/// ```ignore
/// posthaste_testkit::sink_contract!(frail: Frail::new());
/// ```
#[macro_export]
macro_rules! sink_contract {
    (frail: $frail:expr) => {
        $crate::sink_contract! { $frail;
            order {
                every_key_stays_in_order_whatever_breaks
            }
        }
    };
    ($place:expr) => {
        $crate::sink_contract!($place, outage: $place);
    };
    ($place:expr, outage: $mortal:expr) => {
        $crate::sink_contract! { $place;
            arrive {
                an_event_arrives_with_all_that_it_says
                a_cloud_event_arrives_with_its_attributes
                a_structured_cloud_event_arrives_as_one_object
                a_bare_event_arrives
                payloads_arrive_as_they_were
                what_was_compressed_arrives_compressed_and_says_so
                odd_texts_arrive_as_they_were
                an_event_that_is_delivered_twice_carries_the_same_id
                a_row_that_cannot_be_carried_is_rejected
                what_is_too_large_is_rejected_and_its_neighbours_arrive
                a_thousand_at_once_all_arrive
                events_delivered_one_after_the_other_arrive_in_that_order
                a_delivery_that_is_given_up_leaves_the_sink_usable
            }
        }
        $crate::sink_contract! { $mortal;
            outage {
                while_the_server_is_down_nothing_is_delivered_and_nothing_is_the_events_fault
                a_sink_made_while_the_server_is_down_works_once_it_is_up
                a_server_that_is_back_is_used_again_by_the_same_sink
                a_server_that_goes_down_under_load_loses_nothing_that_it_acknowledged
            }
            flow {
                an_outage_loses_nothing_and_costs_no_attempt
            }
        }
    };
    ($place:expr; $($theme:ident { $($behaviour:ident)* })*) => {
        $(mod $theme {
            #[allow(unused_imports, reason = "the place may be named in full")]
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                $crate::sink_contract::$theme::$behaviour($place.await).await;
            })*
        })*
    };
}

/// The events that these messages become, as a relay hands them to a sink.
pub async fn events(messages: &[Message]) -> Vec<Arc<Event>> {
    let memory = Memory::new(Table::parse("shop.orders").unwrap());
    memory.enqueue(messages).unwrap();
    let limit = u32::try_from(messages.len()).unwrap();
    let claimed = memory.claim(&Claim::new(limit)).await.unwrap();
    assert_eq!(claimed.events.len(), messages.len());
    claimed.events.into_iter().map(Arc::new).collect()
}

/// The event that this message becomes.
pub async fn event(message: Message) -> Arc<Event> {
    events(&[message]).await.remove(0)
}

/// A message that says little.
pub fn message() -> Message {
    Message::json_text(TOPIC, "{\"n\":1}").unwrap()
}

/// A message that says everything.
pub fn full() -> Message {
    message()
        .namespace("eu")
        .tenant(Uuid::new_v4())
        .aggregate("Order", "42")
        .event_type("OrderPlaced")
        .ordering_key("order-42")
        .header("source", "check out, 50% \"off\"")
        .header("X-Empty", "")
        .trace(TraceContext {
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            tracestate: Some("vendor=a,other=b".to_owned()),
        })
}

/// Delivers, and does not wait for ever.
pub async fn deliver(sink: &impl Sink, event: &Arc<Event>) -> Outcome {
    tokio::time::timeout(PATIENCE, sink.deliver(event.clone()))
        .await
        .expect("a sink answers in time")
}

async fn delivered(sink: &impl Sink, event: &Arc<Event>) {
    assert_eq!(deliver(sink, event).await, Outcome::Delivered);
}

/// What arrived, once it is this much.
async fn arrived(place: &impl Place, count: usize) -> Vec<Arrived> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let arrived = place.arrived().await;
        if arrived.len() >= count {
            return arrived;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{} of {count} arrived",
            arrived.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_behaviour_is_run() {
        let listed = include_str!("sink_contract.rs");
        for theme in [
            include_str!("sink_contract/arrive.rs"),
            include_str!("sink_contract/flow.rs"),
            include_str!("sink_contract/outage.rs"),
        ] {
            for line in theme.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else {
                    continue;
                };
                let name = rest.split(['<', '(']).next().unwrap();
                let found = listed.lines().any(|line| line.trim() == name);
                assert!(found, "{name} is not in the list");
            }
        }
    }
}
