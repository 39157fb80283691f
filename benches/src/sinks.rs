//! Each sink on its real server: a backlog in PostgreSQL goes there through a relay.
//!
//! The floor is the same client that sends the same bytes from memory, with as many on their way and
//! the same acknowledgements. What a relay can move at all is measured beside it, with a sink that does
//! nothing: the smaller of the two is what counts.

pub(crate) mod http;
pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod rabbitmq;
pub(crate) mod redis;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use posthaste::store::memory::Memory;
use posthaste::store::{Claim, Store};
use posthaste::{Event, Message, Table};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Sink;
use serde_json::json;

use crate::Result;
use crate::apart::Apart;
use crate::bed::{Bed, connect};
use crate::drain::{After, drain_to, through_relay};

/// As many as a relay has in hand by default.
const WINDOW: usize = 2000;
const ROUNDS: usize = 3;
const TOPIC: &str = "shop.order.placed.v1";

/// An event as it travels.
struct Sample {
    id: String,
    headers: Vec<(String, String)>,
    body: bytes::Bytes,
}

impl Sample {
    async fn new(envelope: &Envelope, binding: Binding) -> Result<Self> {
        let event = event().await?;
        let sealed = envelope.seal(&event)?;
        Ok(Self {
            id: event.id.to_string(),
            headers: sealed
                .headers(binding)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
            body: sealed.body.clone(),
        })
    }
}

async fn event() -> Result<Arc<Event>> {
    let memory = Memory::new(Table::parse("shop.outbox")?);
    let payload = json!({"order": 1, "note": "x".repeat(220)});
    memory.enqueue(&[Message::json(TOPIC, &payload)?.aggregate("Order", "1")])?;
    let claimed = memory.claim(&Claim::new(1)).await?;
    let event = claimed.events.into_iter().next();
    event.map(Arc::new).ok_or_else(|| "no event".into())
}

/// Sends so many from memory, a window of them at a time. Gives back how many a second.
async fn flat_out<F: Future<Output = Result>>(
    events: i64,
    send: impl FnMut(i64) -> F,
) -> Result<f64> {
    let started = Instant::now();
    let mut sent = futures_util::stream::iter(0..events)
        .map(send)
        .buffer_unordered(WINDOW);
    while let Some(done) = sent.next().await {
        done?;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// Drains to the sink, against the floor and against a sink that does nothing: with all processors for everybody,
/// and then with a share of them for each of database, destination and relay.
async fn compare<S: Sink>(
    bed: &Bed,
    name: &str,
    sink: S,
    floor: impl AsyncFn(i64) -> Result<f64>,
) -> Result {
    // One for all rounds, as there is one client for the floor: neither pays for its first connection each time.
    let sink = Arc::new(sink);
    in_turns(bed, name, &sink, &floor, None).await?;
    let client = connect(&bed.url).await?;
    match Apart::new(&client).await {
        Ok(apart) => in_turns(bed, &format!("{name}, apart"), &sink, &floor, Some(apart)).await,
        Err(why) => {
            eprintln!("{name} is not measured apart: {why}");
            Ok(())
        }
    }
}

/// In turns, so that a noisy moment hits all of them.
async fn in_turns<S: Sink>(
    bed: &Bed,
    name: &str,
    sink: &Arc<S>,
    floor: &impl AsyncFn(i64) -> Result<f64>,
    apart: Option<Apart>,
) -> Result {
    let events: i64 = if bed.quick { 20_000 } else { 100_000 };
    let (mut relay, mut bare, mut nowhere) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        bare = bare.max(floor(events).await?);
        nowhere = nowhere.max(through_relay(bed, events, After::Kept).await?);
        let fresh = bed.fresh().await?;
        fresh.fill(events).await?;
        let count = events.unsigned_abs();
        let took = drain_to(&bed.url, fresh.table.clone(), count, sink.clone()).await?;
        relay = relay.max(events as f64 / took.as_secs_f64());
        fresh.drop().await?;
    }
    // Where both keep all cores busy, no relay can be faster than one after the other.
    let in_turn = 1.0 / (1.0 / bare + 1.0 / nowhere);
    bed.tell(
        &format!("drain {events} to {name}"),
        relay,
        "events/s",
        Some(bare.min(nowhere)),
        json!({
            "from_memory": bare.round(),
            "no_op_sink": nowhere.round(),
            "one_after_the_other": in_turn.round(),
            "cores_each": apart.map(|apart| apart.cores),
            "window": WINDOW,
            "best_of": ROUNDS,
            "after": "kept",
        }),
    );
    Ok(())
}
