//! Settle: gather verdicts, and write them in large batches.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;
use std::time::{Duration, Instant};

use posthaste::store::{Died, Filter, Malformed, Ordering, Settlement, Tried, Verdict};
use posthaste::{Event, Lease, Status, StoreError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Instrument;
use uuid::Uuid;

use crate::relay::Engine;

/// As many verdicts as one statement settles.
const BATCH: usize = 1000;
/// A batch smaller than this waits for company.
const SMALL: usize = BATCH / 4;
/// How long it waits at most: each settlement costs a commit, and nobody waits for it but events of the same key.
const LINGER: Duration = Duration::from_millis(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An event with its verdict.
pub(crate) struct Done {
    pub(crate) event: Arc<Event>,
    pub(crate) verdict: Verdict,
    /// How it was tried, if the history is to tell.
    pub(crate) tried: Option<Tried>,
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

/// Leases that settlements did not end, as far as is known.
#[derive(Default)]
struct Unsettled {
    /// No longer ours.
    lost: HashSet<Lease>,
    /// No longer ours when the store was told again: it may have done as it was told the first time.
    in_doubt: HashSet<Lease>,
    /// The store refuses to hold what became of the event, however it is told.
    refused: HashSet<Lease>,
}

impl Unsettled {
    /// Whether one that was to die did, given those in doubt that are dead.
    fn died(&self, lease: Lease, found_dead: &HashSet<Uuid>) -> bool {
        let is_known = !self.in_doubt.contains(&lease) || found_dead.contains(&lease.id);
        is_known && !self.lost.contains(&lease) && !self.refused.contains(&lease)
    }
}

impl Engine {
    /// Settles until nothing more can come.
    pub(crate) async fn settle(self: Arc<Self>, mut verdicts: UnboundedReceiver<Done>) {
        let mut batch = Vec::with_capacity(BATCH);
        while verdicts.recv_many(&mut batch, BATCH).await > 0 {
            if !self.is_stopping() && !self.waiting.load(Memory::Relaxed) {
                company(&mut verdicts, &mut batch).await;
            }
            self.settle_batch(&batch).await;
            batch.clear();
        }
    }

    async fn settle_batch(&self, batch: &[Done]) {
        let settlements: Vec<Settlement> = batch
            .iter()
            .map(|done| Settlement {
                lease: done.event.lease,
                tried: done.tried.clone(),
                verdict: done.verdict.clone(),
            })
            .collect();
        let unsettled = self.settle_all(&settlements, batch).await;
        if !unsettled.lost.is_empty() {
            self.observer
                .count("outbox_lost_leases_total", unsettled.lost.len() as u64);
        }
        let to_die = batch
            .iter()
            .filter(|done| matches!(done.verdict, Verdict::Dead { .. }));
        let dead = self
            .found_dead(to_die.map(|done| done.event.lease), &unsettled)
            .await;
        for done in batch {
            let event = &done.event;
            if unsettled.lost.contains(&event.lease) {
                tracing::warn!(
                    table = self.observer.table, topic = event.topic, id = %event.id,
                    tenant = self.observer.tenant(event.tenant_id), sequence = event.sequence,
                    attempts = event.attempts,
                    "the lease was lost: another relay has the event, or it is settled already"
                );
            } else if unsettled.refused.contains(&event.lease) {
                tracing::error!(
                    table = self.observer.table, topic = event.topic, id = %event.id,
                    tenant = self.observer.tenant(event.tenant_id), sequence = event.sequence,
                    attempts = event.attempts,
                    "the store refuses to hold what became of the event: it is delivered again when its lease ends"
                );
            } else if let Verdict::Dead { reason, letter, .. } = &done.verdict
                && unsettled.died(event.lease, &dead)
            {
                self.observer.died(&Died {
                    id: event.id,
                    sequence: event.sequence,
                    topic: event.topic.clone(),
                    tenant_id: event.tenant_id,
                    attempts: event.attempts,
                    reason: *reason,
                });
                if letter.is_some() {
                    self.wake.notify_one();
                }
            }
        }
        let by_key = self.settings.ordering != Ordering::None;
        self.hand.put_down(batch.iter().map(|done| {
            let key = done.event.ordering_key.as_deref();
            (&done.event.lease, key.filter(|_| by_key))
        }));
    }

    /// Rows that are no events: dead, with what is wrong with them. What they hold back goes back.
    pub(crate) async fn set_aside(&self, malformed: Vec<Malformed>, held_back: Vec<Lease>) {
        for Malformed { died, error, .. } in &malformed {
            tracing::error!(
                table = self.observer.table, topic = died.topic, id = %died.id,
                tenant = self.observer.tenant(died.tenant_id), sequence = died.sequence,
                attempts = died.attempts, error, "a row is no event"
            );
        }
        let dead = malformed.iter().map(|row| {
            let verdict = self.dead(row.died.reason, row.error.clone());
            Settlement::new(row.lease, verdict)
        });
        let released = held_back.into_iter();
        let released = released.map(|lease| Settlement::new(lease, Verdict::Release));
        let settlements: Vec<Settlement> = dead.chain(released).collect();
        let unsettled = self.settle_all(&settlements, &[]).await;
        let dead = self
            .found_dead(malformed.iter().map(|row| row.lease), &unsettled)
            .await;
        for row in &malformed {
            if unsettled.died(row.lease, &dead) {
                self.observer.died(&row.died);
            }
        }
    }

    /// Of those that were to die, and of which nobody knows whether they did, the ones that are dead.
    async fn found_dead(
        &self,
        to_die: impl Iterator<Item = Lease>,
        unsettled: &Unsettled,
    ) -> HashSet<Uuid> {
        let in_doubt = to_die.filter(|lease| unsettled.in_doubt.contains(lease));
        let ids: Vec<Uuid> = in_doubt.map(|lease| lease.id).collect();
        if ids.is_empty() {
            return HashSet::new();
        }
        let all = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let filter = Filter {
            ids,
            status: vec![Status::Dead],
            ..Filter::default()
        };
        match self.store.list(&filter, all).await {
            Ok(dead) => dead.into_iter().map(|record| record.id).collect(),
            Err(error) => {
                self.log_store("settle", &error);
                HashSet::new()
            }
        }
    }

    /// Tries until the store answers. Should it refuse one verdict for what it says, the others are settled
    /// all the same. Gives back the leases that this did not end. `told`: whose traces tell of it.
    async fn settle_all(&self, settlements: &[Settlement], told: &[Done]) -> Unsettled {
        let mut unsettled = Unsettled::default();
        // Each with whether the store may have done it already.
        let mut left = vec![(settlements.to_vec(), false)];
        let mut pause = FIRST_PAUSE;
        while let Some((batch, again)) = left.pop() {
            let started = Instant::now();
            let span = self.settle_span(batch.len());
            self.link_span(&span, told.iter().map(|done| &*done.event));
            let settled = self.store.settle(&batch).instrument(span.clone()).await;
            if let Err(error) = &settled {
                span.record("error.type", error.code());
            }
            drop(span);
            match settled {
                Ok(settled) => {
                    let took = started.elapsed().as_secs_f64();
                    self.observer.seconds("outbox_settle_seconds", took);
                    self.observer.number("outbox_settle_batch", batch.len());
                    match again {
                        true => unsettled.in_doubt.extend(settled.lost),
                        false => unsettled.lost.extend(settled.lost),
                    }
                    pause = FIRST_PAUSE;
                }
                Err(error) if self.is_of_one(&error, &batch).await => {
                    self.log_store("settle", &error);
                    if let [one] = &batch[..] {
                        match in_plain_words(one) {
                            Some(plain) => left.push((vec![plain], again)),
                            None => {
                                unsettled.refused.insert(one.lease);
                                self.store.abandon(&[one.lease]);
                            }
                        }
                    } else {
                        // What is not like the one that is refused may have been settled.
                        let (first, second) = batch.split_at(batch.len() / 2);
                        left.extend([(first.to_vec(), true), (second.to_vec(), true)]);
                    }
                }
                Err(error) => {
                    self.log_store("settle", &error);
                    left.push((batch, true));
                    // Who waited in vain for somebody with a lock is to be there when it ends.
                    if started.elapsed() < LONGEST_PAUSE / 2 {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                }
            }
        }
        unsettled
    }

    /// Whether this is said of some of these verdicts, and not of all that is settled.
    async fn is_of_one(&self, error: &StoreError, batch: &[Settlement]) -> bool {
        let has_letter = |it: &Settlement| matches!(&it.verdict, Verdict::Dead { letter, .. } if letter.is_some());
        match error {
            StoreError::Refused(_) => true,
            // It may be the letters alone: who may prolong a lease may also end it.
            StoreError::Denied(_) if batch.iter().any(has_letter) => {
                let leases: Vec<Lease> = batch.iter().map(|it| it.lease).collect();
                let extended = self.store.extend(&leases, self.settings.lease).await;
                extended.is_ok()
            }
            _ => false,
        }
    }

    fn settle_span(&self, verdicts: usize) -> tracing::Span {
        let table = &self.observer.table;
        tracing::debug_span!(
            "settle",
            otel.name = format!("settle {table}"),
            otel.kind = "client",
            messaging.system = "posthaste",
            messaging.operation.name = "settle",
            "messaging.operation.type" = "settle",
            messaging.destination.name = table,
            messaging.batch.message_count = verdicts as i64,
            posthaste.table = table,
            "error.type" = tracing::field::Empty,
        )
    }
}

/// Waits for company, if the batch is small.
async fn company<T>(verdicts: &mut UnboundedReceiver<T>, batch: &mut Vec<T>) {
    let deadline = tokio::time::Instant::now() + LINGER;
    while batch.len() < SMALL {
        let room = BATCH - batch.len();
        let more = verdicts.recv_many(batch, room);
        match tokio::time::timeout_at(deadline, more).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// The same verdict with an error that every database can hold, whatever its encoding. `None`: it
/// was plain, and there is nothing more to try; when its lease ends the event is claimed again.
fn in_plain_words(settlement: &Settlement) -> Option<Settlement> {
    let mut plain = settlement.clone();
    let error = match &mut plain.verdict {
        Verdict::Retry { error, .. } | Verdict::Dead { error, .. } => Some(error),
        _ => None,
    };
    let destination = plain.tried.as_mut().map(|tried| &mut tried.destination);
    let mut changed = false;
    for text in error.into_iter().chain(destination) {
        if !text.is_ascii() {
            *text = text.escape_default().take(text.len()).collect();
            changed = true;
        }
    }
    changed.then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_small_batch_waits_for_company_and_no_longer_than_it_must() {
        for (at_first, later, waits) in [
            (1, 0, LINGER),
            (1, 10, LINGER),
            (1, SMALL, LINGER / 2),
            (1, 10 * BATCH, LINGER / 2),
            (SMALL, 1, Duration::ZERO),
        ] {
            let (sender, mut receiver) = unbounded_channel();
            let mut batch = vec![(); at_first];
            let started = tokio::time::Instant::now();
            let send = async move {
                tokio::time::sleep(LINGER / 2).await;
                (0..later).for_each(|_| sender.send(()).unwrap());
                std::future::pending::<()>().await
            };
            tokio::select! {
                () = company(&mut receiver, &mut batch) => {}
                () = send => {}
            }
            // The clock of tokio ticks once in a millisecond.
            let waited = started.elapsed();
            assert!(
                waited >= waits && waited <= waits + Duration::from_millis(1),
                "{waited:?}"
            );
            let came = if waits.is_zero() { 0 } else { later };
            assert_eq!(batch.len(), (at_first + came).min(BATCH));
        }
    }

    #[test]
    fn only_an_error_that_was_not_plain_is_put_in_plain_words() {
        let lease = Lease {
            id: Uuid::nil(),
            owner: Uuid::nil(),
            epoch: 1,
        };
        let retry = |error: &str| Settlement {
            lease,
            tried: None,
            verdict: Verdict::Retry {
                delay: Duration::ZERO,
                error: error.to_owned(),
            },
        };
        assert_eq!(in_plain_words(&retry("plain")), None);
        let plain = in_plain_words(&retry("Zürich → 東京 and more")).unwrap();
        assert!(matches!(&plain.verdict, Verdict::Retry { error, .. } if error.is_ascii()));
        assert_eq!(in_plain_words(&plain), None);
    }
}
