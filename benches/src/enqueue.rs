//! Enqueue: eight connections, one event per transaction, against a bare INSERT of the same columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    let rounds = if bed.quick { 8 } else { 24 };
    let turn = Duration::from_millis(600);
    let ways = [Way::Bare, Way::Posthaste, Way::PosthasteOnce];
    let mut fleets = Vec::new();
    for way in ways {
        fleets.push(Fleet::start(bed, bed.fresh().await?, way).await?);
    }
    let mut sums = [0.0; 3];
    // In short turns, so that a noisy moment hits all of them.
    for _ in 0..rounds {
        for (fleet, sum) in fleets.iter().zip(&mut sums) {
            *sum += fleet.go(turn).await;
        }
    }
    for fleet in fleets {
        fleet.stop().await?.drop().await?;
    }
    let [bare, ours, once] = sums.map(|sum| sum / f64::from(rounds));
    let settings = json!({"connections": CONNECTIONS, "per_transaction": 1, "payload_bytes": 250, "prepared": true});
    bed.tell("enqueue", ours, "events/s", Some(bare), settings.clone());
    bed.tell("enqueue, id given", once, "events/s", Some(bare), settings);
    Ok(())
}

/// Producers on connections of their own, that work when they are told to.
pub(crate) struct Fleet {
    pub(crate) fresh: Fresh,
    going: tokio::sync::watch::Sender<Going>,
    count: Arc<AtomicU64>,
    producers: Vec<tokio::task::JoinHandle<()>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Going {
    Rest,
    Work,
    End,
}

impl Fleet {
    pub(crate) async fn start(bed: &Bed, fresh: Fresh, way: Way) -> Result<Self> {
        let (going, _) = tokio::sync::watch::channel(Going::Rest);
        let count = Arc::new(AtomicU64::new(0));
        let mut producers = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(&bed.url).await?;
            let bare = client
                .prepare_typed(&fresh.sql(BARE), &[Type::UUID])
                .await?;
            let prepared = fresh.outbox.prepare(&client).await?;
            let outbox = fresh.outbox.clone();
            let producer = Producer {
                client,
                bare,
                prepared,
                outbox,
                way,
            };
            producers.push(tokio::spawn(
                producer.work(going.subscribe(), count.clone()),
            ));
        }
        Ok(Self {
            fresh,
            going,
            count,
            producers,
        })
    }

    /// Lets them work for a while. Gives back the events per second of all together.
    pub(crate) async fn go(&self, turn: Duration) -> f64 {
        let (from, started) = (self.count.load(Ordering::Relaxed), Instant::now());
        self.going.send_replace(Going::Work);
        tokio::time::sleep(turn).await;
        self.going.send_replace(Going::Rest);
        let made = self.count.load(Ordering::Relaxed) - from;
        let rate = made as f64 / started.elapsed().as_secs_f64();
        tokio::time::sleep(Duration::from_millis(20)).await;
        rate
    }

    pub(crate) async fn stop(self) -> Result<Fresh> {
        self.going.send_replace(Going::End);
        for producer in self.producers {
            producer.await?;
        }
        Ok(self.fresh)
    }
}

struct Producer {
    client: tokio_postgres::Client,
    bare: tokio_postgres::Statement,
    prepared: posthaste::Prepared,
    outbox: posthaste::Outbox,
    way: Way,
}

impl Producer {
    async fn work(mut self, mut going: tokio::sync::watch::Receiver<Going>, count: Arc<AtomicU64>) {
        loop {
            let state = *going.borrow_and_update();
            match state {
                Going::End => return,
                Going::Work => {
                    let n = count.load(Ordering::Relaxed);
                    self.produce(n).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Going::Rest => {
                    if going.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn produce(&mut self, n: u64) {
        let transaction = self.client.transaction().await.expect("a transaction");
        let on = self.prepared.on(&transaction);
        match self.way {
            Way::Bare => insert(&transaction, &self.bare, n).await,
            Way::Posthaste => {
                self.outbox.enqueue(on, &message(n)).await.expect("valid");
            }
            Way::PosthasteOnce => {
                let message = message(n).id(Uuid::now_v7());
                self.outbox.enqueue(on, &message).await.expect("valid");
            }
        }
        transaction.commit().await.expect("a commit");
    }
}

async fn insert(
    transaction: &tokio_postgres::Transaction<'_>,
    statement: &tokio_postgres::Statement,
    n: u64,
) {
    let payload = json!({"order": n, "note": "x".repeat(225)}).to_string();
    let none = None::<&str>;
    transaction
        .execute(
            statement,
            &[
                &Uuid::now_v7(),
                &"",
                &"shop.order.placed.v1",
                &None::<Uuid>,
                &"Order",
                &n.to_string(),
                &none,
                &none,
                &none,
                &"{}",
                &"application/json",
                &payload,
                &None::<&[u8]>,
                &none,
                &none,
            ],
        )
        .await
        .expect("an insert");
}
