//! Enqueue: eight connections, one event per transaction, against a bare INSERT of the same columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use posthaste::Message;
use serde_json::json;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Result;
use crate::bed::{Bed, Fresh, connect, message};

pub(crate) const CONNECTIONS: usize = 8;

const BARE: &str = "insert into {outbox} \
    (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key, \
     headers, content_type, payload, payload_bytes, next_attempt_at, traceparent, tracestate) \
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12::text::jsonb, $13, clock_timestamp(), $14, $15)";

/// How a producer writes.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Bare,
    Posthaste,
    /// With an id of the producer's own, which may be there already.
    PosthasteOnce,
}

pub(crate) async fn run(bed: &Bed) -> Result {
    let rounds = if bed.quick { 3 } else { 6 };
    let turn = Duration::from_secs(if bed.quick { 2 } else { 4 });
    let mut sums = [0.0; 3];
    let ways = [Way::Bare, Way::Posthaste, Way::PosthasteOnce];
    for _ in 0..rounds {
        for (way, sum) in ways.into_iter().zip(&mut sums) {
            let fresh = bed.fresh().await?;
            *sum += produce(bed, &fresh, way, turn).await?;
            fresh.drop().await?;
        }
    }
    let [bare, ours, once] = sums.map(|sum| sum / f64::from(rounds));
    let settings = json!({"connections": CONNECTIONS, "per_transaction": 1, "payload_bytes": 250, "prepared": true});
    bed.tell("enqueue", ours, "events/s", Some(bare), settings.clone());
    bed.tell("enqueue, id given", once, "events/s", Some(bare), settings);
    Ok(())
}

/// Events per second of all connections together.
pub(crate) async fn produce(bed: &Bed, fresh: &Fresh, way: Way, turn: Duration) -> Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicU64::new(0));
    let mut producers = Vec::new();
    for _ in 0..CONNECTIONS {
        let (stop, count) = (stop.clone(), count.clone());
        let client = connect(&bed.url).await?;
        let outbox = fresh.outbox.clone();
        let bare = client.prepare_typed(&fresh.sql(BARE), &[Type::UUID]).await?;
        producers.push(tokio::spawn(async move {
            let mut client = client;
            let prepared = outbox.prepare(&client).await.expect("a statement");
            while !stop.load(Ordering::Relaxed) {
                let n = count.fetch_add(1, Ordering::Relaxed);
                let transaction = client.transaction().await.expect("a transaction");
                match way {
                    Way::Bare => {
                        insert(&transaction, &bare, n).await;
                    }
                    Way::Posthaste => {
                        let message = message(n);
                        outbox.enqueue(prepared.on(&transaction), &message).await.expect("valid");
                    }
                    Way::PosthasteOnce => {
                        let message: Message = message(n).id(Uuid::now_v7());
                        outbox.enqueue(prepared.on(&transaction), &message).await.expect("valid");
                    }
                }
                transaction.commit().await.expect("a commit");
            }
        }));
    }
    // A moment to get going, and not counted.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (from, started) = (count.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(turn).await;
    let made = count.load(Ordering::Relaxed) - from;
    let rate = made as f64 / started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for producer in producers {
        producer.await?;
    }
    Ok(rate)
}

async fn insert(transaction: &tokio_postgres::Transaction<'_>, statement: &tokio_postgres::Statement, n: u64) {
    let payload = json!({"order": n, "note": "x".repeat(225)}).to_string();
    let none = None::<&str>;
    transaction
        .execute(
            statement,
            &[
                &Uuid::now_v7(), &"", &"shop.order.placed.v1", &None::<Uuid>, &"Order", &n.to_string(), &none, &none,
                &none, &"{}", &"application/json", &payload, &None::<&[u8]>, &none, &none,
            ],
        )
        .await
        .expect("an insert");
}
