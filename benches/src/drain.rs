//! Drain: how fast a backlog goes through a relay with a sink that does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering as Memory};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::store::{OnFailure, Ordering, connect as open};
use posthaste::{Event, Table};
use posthaste_relay::sink::{self, Outcome, Sink};
use posthaste_relay::{Cleaning, Relay};
use serde_json::json;
use tokio::sync::Notify;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Result;
use crate::bed::{Bed, Fresh, connect};

const CLAIM: &str = include_str!("../../crates/posthaste/sql/postgres/claim.sql");
const DELIVER: &str = include_str!("../../crates/posthaste/sql/postgres/deliver.sql");
const DELIVER_DELETE: &str = include_str!("../../crates/posthaste/sql/postgres/deliver_delete.sql");

const DEFAULT_BATCH: u32 = 500;

/// What becomes of a delivered event.
#[derive(Clone, Copy)]
pub(crate) enum After {
    Kept,
    Deleted,
}

impl After {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Deleted => "deleted",
        }
    }
}

pub(crate) async fn against_floor(bed: &Bed) -> Result {
    let events = if bed.quick { 30_000 } else { 100_000 };
    let batches: &[i64] = if bed.quick {
        &[500, 1000]
    } else {
        &[250, 500, 1000, 2000]
    };
    for after in [After::Deleted, After::Kept] {
        let mut best = (0.0, 0);
        let mut relay = 0.0_f64;
        // In turns, so that a noisy moment hits both.
        for batch in batches {
            let floor = bare_loop(bed, events, *batch, after).await?;
            if floor > best.0 {
                best = (floor, *batch);
            }
            relay = relay.max(through_relay(bed, events, after).await?);
        }
        bed.tell(
            &format!("drain {events}, {}", after.name()),
            relay,
            "events/s",
            Some(best.0),
            json!({"batch_size": 500, "floor_batch_size": best.1, "best_of": batches.len(), "sink": "no-op"}),
        );
    }
    Ok(())
}

pub(crate) async fn scale(bed: &Bed) -> Result {
    let sizes: &[i64] = if bed.quick {
        &[10_000, 100_000]
    } else {
        &[10_000, 100_000, 1_000_000]
    };
    let mut smallest = None;
    for size in sizes {
        let rounds = if *size == 10_000 { 3 } else { 1 };
        let mut rate = 0.0_f64;
        for _ in 0..rounds {
            rate = rate.max(through_relay(bed, *size, After::Kept).await?);
        }
        let cost = 1e6 / rate;
        let first = *smallest.get_or_insert(cost);
        bed.tell(
            &format!("cost per event, drain {size}"),
            cost,
            "µs",
            Some(first),
            json!({"floor": "the same at 10,000", "after": "kept"}),
        );
    }
    Ok(())
}

/// A relay with batches of different sizes, against the default.
pub(crate) async fn batches(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 30_000 } else { 100_000 };
    let sizes = [100, 250, DEFAULT_BATCH, 1000, 2000];
    let mut rates = [0.0_f64; 5];
    for _ in 0..2 {
        for (size, rate) in sizes.into_iter().zip(&mut rates) {
            let fresh = bed.fresh().await?;
            fresh.fill(events).await?;
            let table = fresh.table.clone();
            let none = Ordering::None;
            let took = drain_in(
                &bed.url,
                table,
                events.unsigned_abs(),
                After::Kept,
                none,
                size,
            )
            .await?;
            *rate = rate.max(events as f64 / took.as_secs_f64());
            fresh.drop().await?;
        }
    }
    for (size, rate) in sizes.into_iter().zip(rates) {
        bed.tell(
            &format!("drain {events}, batches of {size}"),
            rate,
            "events/s",
            Some(rates[2]),
            json!({"floor": "the default, 500", "after": "kept", "best_of": 2}),
        );
    }
    Ok(())
}

/// Events per second of a relay in this process.
pub(crate) async fn through_relay(bed: &Bed, events: i64, after: After) -> Result<f64> {
    let fresh = bed.fresh().await?;
    fresh.fill(events).await?;
    let took = drain(
        &bed.url,
        fresh.table.clone(),
        events.unsigned_abs(),
        after,
        Ordering::None,
    )
    .await?;
    fresh.drop().await?;
    Ok(events as f64 / took.as_secs_f64())
}

/// In order by key, against the same without order.
pub(crate) async fn ordered(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 30_000 } else { 100_000 };
    let all: &[i64] = if bed.quick { &[100] } else { &[1, 100, 10_000] };
    for &keys in all {
        let fresh = bed.fresh().await?;
        fresh.fill_keys(events, Some(keys)).await?;
        let by_key = Ordering::Key(OnFailure::Block);
        let took = drain(
            &bed.url,
            fresh.table.clone(),
            events.unsigned_abs(),
            After::Kept,
            by_key,
        )
        .await?;
        fresh.drop().await?;
        let free = through_relay(bed, events, After::Kept).await?;
        bed.tell(
            &format!("drain {events}, in order over {keys} keys"),
            events as f64 / took.as_secs_f64(),
            "events/s",
            Some(free),
            json!({"floor": "the same without order", "after": "kept"}),
        );
    }
    Ok(())
}

/// Runs a relay until this many events were delivered and settled.
pub(crate) async fn drain(
    url: &str,
    table: Table,
    events: u64,
    after: After,
    ordering: Ordering,
) -> Result<Duration> {
    drain_in(url, table, events, after, ordering, DEFAULT_BATCH).await
}

async fn drain_in(
    url: &str,
    table: Table,
    events: u64,
    after: After,
    ordering: Ordering,
    batch: u32,
) -> Result<Duration> {
    let nowhere = sink::from_fn(|_| std::future::ready(Outcome::Delivered));
    let store = open(url, table).await?;
    let countdown = Countdown::new(events);
    let relay = Relay::builder_on(store)
        .destination("nowhere", Counted(nowhere, countdown.clone()))
        .ordering(ordering)
        .batch_size(batch)
        .in_flight(2000.max(batch as usize * 2))
        .cleaning(Cleaning {
            // Without clean-up, delivered events are kept whatever the retention.
            enabled: matches!(after, After::Deleted),
            retention: match after {
                After::Kept => Duration::from_secs(86_400),
                After::Deleted => Duration::ZERO,
            },
            ..Cleaning::default()
        })
        .build()?;
    let started = Instant::now();
    // Stopping waits until all is settled.
    relay.run(countdown.is_over()).await;
    Ok(started.elapsed())
}

/// Runs a relay with its defaults until this many events were delivered to the sink and settled.
pub(crate) async fn drain_to(
    url: &str,
    table: Table,
    events: u64,
    sink: impl Sink,
) -> Result<Duration> {
    let store = open(url, table).await?;
    let countdown = Countdown::new(events);
    let relay = Relay::builder_on(store)
        .destination("there", Counted(sink, countdown.clone()))
        .build()?;
    let started = Instant::now();
    relay.run(countdown.is_over()).await;
    Ok(started.elapsed())
}

/// Tells when so many events were delivered.
pub(crate) struct Countdown {
    left: AtomicI64,
    over: Notify,
}

impl Countdown {
    pub(crate) fn new(events: u64) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicI64::new(events.cast_signed()),
            over: Notify::new(),
        })
    }

    pub(crate) async fn is_over(&self) {
        self.over.notified().await;
    }
}

/// A sink that counts down, maybe together with others.
pub(crate) struct Counted<S>(pub(crate) S, pub(crate) Arc<Countdown>);

#[async_trait]
impl<S: Sink> Sink for Counted<S> {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let Self(sink, countdown) = self;
        let outcome = sink.deliver(event).await;
        if outcome == Outcome::Delivered && countdown.left.fetch_sub(1, Memory::Relaxed) == 1 {
            countdown.over.notify_one();
        }
        outcome
    }
}

/// Events per second of the same statements in a bare loop on one connection.
async fn bare_loop(bed: &Bed, events: i64, batch: i64, after: After) -> Result<f64> {
    let fresh = bed.fresh().await?;
    fresh.fill(events).await?;
    let rate = loop_over(&fresh, bed, events, batch, after).await?;
    fresh.drop().await?;
    Ok(rate)
}

async fn loop_over(fresh: &Fresh, bed: &Bed, events: i64, batch: i64, after: After) -> Result<f64> {
    let client = connect(&bed.url).await?;
    client
        .batch_execute(
            "set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; \
             set enable_mergejoin = off; set jit = off; set plan_cache_mode = force_generic_plan",
        )
        .await?;
    let claim = client.prepare(&fresh.sql(CLAIM)).await?;
    let settle = match after {
        After::Kept => DELIVER,
        After::Deleted => DELIVER_DELETE,
    };
    let settle = client
        .prepare_typed(
            &fresh.sql(settle),
            &[Type::UUID_ARRAY, Type::UUID_ARRAY, Type::INT8_ARRAY],
        )
        .await?;
    let owner = Uuid::new_v4();
    let (mut at, mut sequence) = (std::time::UNIX_EPOCH, 0_i64);
    let mut left = events;
    let started = Instant::now();
    while left > 0 {
        let rows = client
            .query(
                &claim,
                &[
                    &batch,
                    &60.0_f64,
                    &owner,
                    &25_i32,
                    &None::<&str>,
                    &None::<Vec<&str>>,
                    &None::<Uuid>,
                    &Vec::<&str>::new(),
                    &at,
                    &sequence,
                    &Vec::<Uuid>::new(),
                    &None::<&str>,
                    &i64::MAX,
                ],
            )
            .await?;
        let (mut ids, mut epochs) = (Vec::new(), Vec::new());
        for row in &rows {
            ids.push(row.get::<_, Uuid>("id"));
            epochs.push(row.get::<_, i64>("lease_epoch"));
            at = at.max(row.get("next_attempt_at"));
            sequence = sequence.max(row.get("sequence"));
        }
        let owners = vec![owner; ids.len()];
        let settled = client.query(&settle, &[&owners, &ids, &epochs]).await?;
        left -= settled.len() as i64;
        if settled.is_empty() {
            return Err("the bare loop claimed nothing".into());
        }
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}
