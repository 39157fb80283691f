//! What the relay tells about its work: metrics and log fields.
//!
//! Which metrics there are is written in `metric.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Histogram, counter, histogram};
use posthaste::store::{Died, Health, Stats};
use uuid::Uuid;

use crate::sink::Outcome;

/// So many topics of an outbox are told apart in metrics: producers can make any number.
const TOPICS: usize = 500;
/// What the others are called together.
const OTHER: &str = "other";
/// Counters and histograms of one topic at one destination, looked up once.
pub(crate) struct Meters {
    success: Meter,
    failure: Meter,
    rejected: Meter,
    unavailable: Meter,
    pub(crate) end_to_end: Histogram,
    pub(crate) attempts: Histogram,
}

pub(crate) struct Meter {
    pub(crate) total: Counter,
    pub(crate) latency: Histogram,
}

impl Meters {
    fn new(table: &str, topic: &str, destination: &str) -> Self {
        let meter = |result: &'static str| Meter {
            total: counter!(
                "outbox_dispatch_total", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned(), "result" => result
            ),
            latency: histogram!(
                "outbox_dispatch_latency_seconds", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned(), "result" => result
            ),
        };
        Self {
            success: meter("success"),
            failure: meter("failure"),
            rejected: meter("rejected"),
            unavailable: meter("unavailable"),
            end_to_end: histogram!(
                "outbox_process_latency_seconds", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned()
            ),
            attempts: histogram!(
                "outbox_attempts", "table" => table.to_owned(), "topic" => topic.to_owned()
            ),
        }
    }

    pub(crate) fn of(&self, outcome: &Outcome) -> &Meter {
        match outcome {
            Outcome::Delivered => &self.success,
            Outcome::Retry(_) | Outcome::RetryAfter(..) | Outcome::Busy(..) => &self.failure,
            Outcome::Reject(_) => &self.rejected,
            Outcome::Unavailable(_) => &self.unavailable,
        }
    }
}

/// The meters of every topic seen so far.
pub(crate) struct Observer {
    /// What the outbox is called: its table, unless told otherwise.
    pub(crate) table: String,
    mask_tenant: bool,
    /// By destination and topic.
    meters: Mutex<HashMap<usize, HashMap<String, Arc<Meters>>>>,
    /// Those that are told apart.
    topics: Mutex<HashSet<String>>,
    deaths: AtomicU64,
}

impl Observer {
    pub(crate) fn new(table: String, mask_tenant: bool) -> Self {
        Self {
            table,
            mask_tenant,
            meters: Mutex::default(),
            topics: Mutex::default(),
            deaths: AtomicU64::new(0),
        }
    }

    pub(crate) fn meters(&self, topic: &str, destination: (usize, &str)) -> Arc<Meters> {
        let (place, name) = destination;
        let mut meters = self.meters.lock().expect("not poisoned");
        let meters = meters.entry(place).or_default();
        match meters.get(topic) {
            Some(known) => known.clone(),
            None => {
                let topic = self.label(topic);
                let new = || Arc::new(Meters::new(&self.table, topic, name));
                meters.entry(topic.to_owned()).or_insert_with(new).clone()
            }
        }
    }

    /// What metrics call a topic: there is a bounded number of labels.
    fn label<'t>(&self, topic: &'t str) -> &'t str {
        let mut topics = self.topics.lock().expect("not poisoned");
        if topics.len() < TOPICS && !topics.contains(topic) {
            topics.insert(topic.to_owned());
        }
        match topics.contains(topic) {
            true => topic,
            false => OTHER,
        }
    }

    /// The tenant as it may stand in a log.
    pub(crate) fn tenant(&self, tenant_id: Option<Uuid>) -> String {
        match (tenant_id, self.mask_tenant) {
            (None, _) => String::new(),
            (Some(_), true) => "***".to_owned(),
            (Some(tenant), false) => tenant.to_string(),
        }
    }

    pub(crate) fn died(&self, died: &Died) {
        self.count_death(&died.topic, died.reason);
        tracing::error!(
            table = self.table, topic = died.topic, id = %died.id, tenant = self.tenant(died.tenant_id),
            sequence = died.sequence, attempts = died.attempts, reason = %died.reason, "an event is dead"
        );
    }

    fn count_death(&self, topic: &str, reason: posthaste::DeadReason) {
        self.deaths.fetch_add(1, Memory::Relaxed);
        counter!(
            "outbox_dead_total", "table" => self.table.clone(),
            "topic" => self.label(topic).to_owned(), "result" => reason.as_str()
        )
        .increment(1);
    }

    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.load(Memory::Relaxed)
    }

    pub(crate) fn gauge(&self, name: &'static str, value: f64) {
        metrics::gauge!(name, "table" => self.table.clone()).set(value);
    }

    pub(crate) fn count(&self, name: &'static str, n: u64) {
        counter!(name, "table" => self.table.clone()).increment(n);
    }

    pub(crate) fn seconds(&self, name: &'static str, seconds: f64) {
        histogram!(name, "table" => self.table.clone()).record(seconds);
    }

    /// A number of things.
    pub(crate) fn number(&self, name: &'static str, number: usize) {
        histogram!(name, "table" => self.table.clone()).record(number as f64);
    }

    pub(crate) fn store_failed(&self, code: &'static str) {
        counter!("outbox_store_errors_total", "table" => self.table.clone(), "result" => code)
            .increment(1);
    }

    /// Says from the beginning what will be told later: a rule over what is not there yet is blind.
    pub(crate) fn begin<'d>(&self, destinations: impl Iterator<Item = &'d str>, leads: bool) {
        for name in [
            "outbox_lost_leases_total",
            "outbox_cleaned_total",
            "outbox_redelivered_total",
        ] {
            self.count(name, 0);
        }
        self.paused("", false);
        for destination in destinations {
            self.circuit(destination, false);
            self.paused(destination, false);
        }
        self.gauge("outbox_relay_leader", if leads { 1.0 } else { 0.0 });
    }

    pub(crate) fn in_hand(&self, (events, bytes): (usize, usize), limit: usize) {
        self.gauge("outbox_in_flight", events as f64);
        self.gauge("outbox_in_flight_bytes", bytes as f64);
        self.gauge("outbox_in_flight_limit", limit as f64);
    }

    pub(crate) fn circuit(&self, destination: &str, open: bool) {
        metrics::gauge!(
            "outbox_circuit_open", "table" => self.table.clone(), "destination" => destination.to_owned()
        )
        .set(if open { 1.0 } else { 0.0 });
    }

    /// Without a destination, it is the outbox that is paused.
    pub(crate) fn paused(&self, destination: &str, paused: bool) {
        metrics::gauge!(
            "outbox_paused", "table" => self.table.clone(), "destination" => destination.to_owned()
        )
        .set(if paused { 1.0 } else { 0.0 });
    }

    /// What is known of how the database copes.
    pub(crate) fn health(&self, health: &Health) {
        let known = [
            (
                "outbox_table_bytes",
                health.table_bytes.or(health.file_bytes),
            ),
            ("outbox_index_bytes", health.index_bytes),
            ("outbox_dead_rows", health.dead_rows),
            ("outbox_database_connections", health.connections),
            ("outbox_database_connection_limit", health.connection_limit),
        ];
        for (name, number) in known {
            if let Some(number) = number {
                self.gauge(name, number as f64);
            }
        }
        let holder = health.oldest_transaction.as_ref();
        let age = holder.map_or(0.0, |holder| holder.age.as_secs_f64());
        // Who is not told of the transactions of others must not say that there are none.
        if health.sees_transactions || holder.is_some() {
            self.gauge("outbox_oldest_transaction_seconds", age);
        }
    }

    pub(crate) fn stats(&self, stats: &Stats) {
        if let Some(enqueued) = stats.enqueued {
            counter!("outbox_enqueued_total", "table" => self.table.clone()).absolute(enqueued);
        }
        self.gauge("outbox_pending", stats.pending as f64);
        self.gauge("outbox_processing", stats.processing as f64);
        self.gauge("outbox_dead", stats.dead as f64);
        self.gauge("outbox_stuck", stats.stuck as f64);
        self.gauge(
            "outbox_oldest_age_seconds",
            stats.oldest_pending.as_secs_f64(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // B16
    #[test]
    fn labels_are_bounded_however_many_topics_there_are() {
        let observer = Observer::new("outbox".to_owned(), false);
        for n in 0..TOPICS + 100 {
            observer.meters(&format!("shop.order-{n}.placed.v1"), (0, "log"));
        }
        let meters = observer.meters.lock().unwrap();
        assert_eq!(meters[&0].len(), TOPICS + 1);
        assert!(meters[&0].contains_key(OTHER));
    }
}
