//! Settle: gather verdicts, and write them in large batches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::store::{Settlement, Verdict};
use posthaste::{Event, StoreError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::relay::Engine;

/// As many verdicts as one statement settles.
const BATCH: usize = 1000;
/// How long a small batch waits for company.
const LINGER: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An event with its verdict.
pub(crate) struct Done {
    pub(crate) event: Arc<Event>,
    pub(crate) verdict: Verdict,
}

/// Where verdicts go. Not bounded here: what is in hand is.
pub(crate) struct Settling(UnboundedSender<Done>);

impl Settling {
    pub(crate) fn new() -> (Self, UnboundedReceiver<Done>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    pub(crate) fn done(&self, done: Done) {
        // It is closed only when the relay has given up on settling: leases see to the rest.
        let _ = self.0.send(done);
    }
}

impl Engine {
    /// Settles until nothing more can come.
    pub(crate) async fn settle(self: Arc<Self>, mut verdicts: UnboundedReceiver<Done>) {
        let mut batch = Vec::with_capacity(BATCH);
        while verdicts.recv_many(&mut batch, BATCH).await > 0 {
            if batch.len() < BATCH && !self.is_stopping() {
                tokio::time::sleep(LINGER).await;
                while batch.len() < BATCH {
                    match verdicts.try_recv() {
                        Ok(done) => batch.push(done),
                        Err(_) => break,
                    }
                }
            }
            self.settle_batch(&batch).await;
            batch.clear();
        }
    }

    /// Tries until the store answers. What it was told twice it refuses the second time.
    async fn settle_batch(&self, batch: &[Done]) {
        let settlements: Vec<Settlement> = batch
            .iter()
            .map(|done| Settlement {
                lease: done.event.lease,
                verdict: done.verdict.clone(),
            })
            .collect();
        let mut pause = Duration::from_millis(50);
        let settled = loop {
            let started = Instant::now();
            match self.store.settle(&settlements).await {
                Ok(settled) => {
                    self.observer
                        .seconds("outbox_settle_seconds", started.elapsed().as_secs_f64());
                    break settled;
                }
                Err(error) => {
                    self.log_store("settle", &error);
                    if matches!(error, StoreError::Refused(_)) && self.is_stopping() {
                        return;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        };
        if !settled.lost.is_empty() {
            self.observer
                .count("outbox_lost_leases_total", settled.lost.len() as u64);
        }
        for done in batch {
            let event = &done.event;
            if settled.lost.contains(&event.lease) {
                tracing::warn!(
                    table = self.observer.table, topic = event.topic, id = %event.id,
                    tenant = self.observer.tenant(event), sequence = event.sequence,
                    attempts = event.attempts,
                    "the lease was lost: another relay has the event, or it is settled already"
                );
            } else if let Verdict::Dead { reason, .. } = done.verdict {
                self.observer.died(&event.topic, reason);
            }
        }
        self.hand
            .put_down(batch.iter().map(|done| &done.event.lease));
    }
}
