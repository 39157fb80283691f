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
use std::thread;
use std::time::Instant;

use futures_util::StreamExt as _;
use posthaste::store::memory::Memory;
use posthaste::store::{Claim, Store};
use posthaste::{Event, Message, Table};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::{self, Outcome, Sink};
use serde_json::json;

use crate::Result;
use crate::apart::Apart;
use crate::bed::{Bed, Fresh, connect};
use crate::drain::drain_to;
use crate::parties::{Parties, Used};

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
    let parties = Parties::find(&connect(&bed.url).await?).await;
    in_turns(bed, name, &sink, &floor, parties.as_ref().ok(), None).await?;
    let apart = parties.and_then(|parties| Ok((parties, Apart::new(parties)?)));
    match apart {
        Ok((parties, apart)) => {
            let name = format!("{name}, apart");
            in_turns(bed, &name, &sink, &floor, Some(&parties), Some(apart)).await
        }
        Err(why) => {
            eprintln!("{name} is not measured apart: {why}");
            Ok(())
        }
    }
}

/// The best of some rounds, and what all of them used.
struct Best<'p> {
    parties: Option<&'p Parties>,
    events: i64,
    rate: f64,
    used: Used,
}

impl Best<'_> {
    async fn of(&mut self, round: impl Future<Output = Result<f64>>) -> Result {
        // Nothing is known of a database on another machine.
        let used = || self.parties.map_or(Ok(Used::default()), |all| all.used());
        let before = used()?;
        let rate = round.await?;
        self.used = self.used + (used()? - before);
        self.rate = self.rate.max(rate);
        Ok(())
    }

    /// On average of all rounds.
    fn by_event(&self) -> Used {
        self.used / (self.events as f64 * ROUNDS as f64)
    }
}

/// In turns, so that a noisy moment hits all of them.
async fn in_turns<S: Sink>(
    bed: &Bed,
    name: &str,
    sink: &Arc<S>,
    floor: &impl AsyncFn(i64) -> Result<f64>,
    parties: Option<&Parties>,
    apart: Option<Apart>,
) -> Result {
    let events: i64 = if bed.quick { 20_000 } else { 100_000 };
    let best = || Best {
        parties,
        events,
        rate: 0.0,
        used: Used::default(),
    };
    let (mut relay, mut bare, mut nowhere) = (best(), best(), best());
    for _ in 0..ROUNDS {
        bare.of(floor(events)).await?;
        let fresh = bed.fresh().await?;
        fresh.fill(events).await?;
        let nothing = sink::from_fn(|_| std::future::ready(Outcome::Delivered));
        nowhere.of(rate(bed, &fresh, events, nothing)).await?;
        fresh.drop().await?;
        let fresh = bed.fresh().await?;
        fresh.fill(events).await?;
        relay.of(rate(bed, &fresh, events, sink.clone())).await?;
        fresh.drop().await?;
    }
    // With every core at work on both floors at the same time: about the most that a relay could do.
    let cores = thread::available_parallelism()?.get() as f64;
    let both = cores / (bare.by_event() + nowhere.by_event()).all();
    bed.tell(
        &format!("drain {events} to {name}"),
        relay.rate,
        "events/s",
        Some(bare.rate.min(nowhere.rate)),
        json!({
            "from_memory": bare.rate.round(),
            "no_op_sink": nowhere.rate.round(),
            "both_on_all_cores": parties.map(|_| both.round()),
            "cpu_us": parties.map(|_| json!({
                "relay": relay.by_event().micros(),
                "from_memory": bare.by_event().micros(),
                "no_op_sink": nowhere.by_event().micros(),
            })),
            "cores_each": apart.map(|apart| apart.cores),
            "window": WINDOW,
            "best_of": ROUNDS,
            "after": "kept",
        }),
    );
    Ok(())
}

/// Events per second from a full outbox to the sink.
async fn rate(bed: &Bed, fresh: &Fresh, events: i64, sink: impl Sink) -> Result<f64> {
    let count = events.unsigned_abs();
    let took = drain_to(&bed.url, fresh.table.clone(), count, sink).await?;
    Ok(events as f64 / took.as_secs_f64())
}
