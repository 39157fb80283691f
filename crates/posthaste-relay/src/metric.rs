//! Every metric: its name, kind, labels and meaning. The reference in docs/metrics.md follows.
//!
//! Labels are table, topic, destination and result only: never a tenant or an id.

use metrics::Unit;

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What kind it is of.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub about: &'static str,
}

/// What kind a metric is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in seconds, in classes.
    Seconds,
    /// Numbers of things, in classes.
    Numbers,
}

impl MetricKind {
    /// As Prometheus calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Seconds | Self::Numbers => "histogram",
        }
    }
}

/// From a fraction of a millisecond to an hour: a lag is a latency, too.
const SECONDS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0, 600.0, 1800.0, 3600.0,
];
const NUMBERS: &[f64] = &[
    1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 5000.0,
];

impl Metric {
    /// The upper bounds of its classes, for the exporter to use. Empty: it is no histogram.
    pub fn classes(&self) -> &'static [f64] {
        match self.kind {
            MetricKind::Seconds => SECONDS,
            MetricKind::Numbers => NUMBERS,
            MetricKind::Counter | MetricKind::Gauge => &[],
        }
    }
}

const TABLE: &[&str] = &["table"];
const TOPIC: &[&str] = &["table", "topic"];
const DESTINATION: &[&str] = &["table", "destination"];
const DELIVERY: &[&str] = &["table", "topic", "destination", "result"];

/// Every metric that this crate and `posthaste` record.
pub const METRICS: &[Metric] = {
    use MetricKind::{Counter, Gauge, Numbers, Seconds};
    &[
        metric(
            "outbox_enqueue_total",
            Counter,
            TOPIC,
            "Events enqueued by this process, through the library",
        ),
        metric(
            "outbox_enqueued_total",
            Counter,
            TABLE,
            "Events enqueued by anybody, as far as the table's sequence tells: what was rolled back counts",
        ),
        metric(
            "outbox_dispatch_total",
            Counter,
            DELIVERY,
            "Delivery attempts; result is success, failure, rejected or unavailable",
        ),
        metric(
            "outbox_dead_total",
            Counter,
            &["table", "topic", "result"],
            "Events that died in this relay's hands; result is the reason",
        ),
        metric(
            "outbox_redelivered_total",
            Counter,
            TABLE,
            "Events that operators brought back through this process",
        ),
        metric(
            "outbox_lost_leases_total",
            Counter,
            TABLE,
            "Settlements that came after the lease had passed to another relay",
        ),
        metric(
            "outbox_store_errors_total",
            Counter,
            &["table", "result"],
            "Questions that the database did not answer; result is the code of the error",
        ),
        metric(
            "outbox_cleaned_total",
            Counter,
            TABLE,
            "Events removed by the cleaner",
        ),
        metric(
            "outbox_dispatch_latency_seconds",
            Seconds,
            DELIVERY,
            "How long a delivery attempt took",
        ),
        metric(
            "outbox_process_latency_seconds",
            Seconds,
            &["table", "topic", "destination"],
            "From enqueue to delivered",
        ),
        metric(
            "outbox_attempts",
            Numbers,
            TOPIC,
            "Attempts that a delivered event needed",
        ),
        metric(
            "outbox_claim_seconds",
            Seconds,
            TABLE,
            "How long a claim took",
        ),
        metric(
            "outbox_claim_batch",
            Numbers,
            TABLE,
            "Events that a claim got",
        ),
        metric(
            "outbox_settle_seconds",
            Seconds,
            TABLE,
            "How long a settlement took",
        ),
        metric(
            "outbox_settle_batch",
            Numbers,
            TABLE,
            "Events that one settlement was about",
        ),
        metric(
            "outbox_clean_seconds",
            Seconds,
            TABLE,
            "How long one batch of cleaning took",
        ),
        metric("outbox_pending", Gauge, TABLE, "Events waiting"),
        metric(
            "outbox_processing",
            Gauge,
            TABLE,
            "Events leased by a relay",
        ),
        metric(
            "outbox_dead",
            Gauge,
            TABLE,
            "Events that are dead, those that were discarded among them",
        ),
        metric(
            "outbox_stuck",
            Gauge,
            TABLE,
            "Events leased for longer than five minutes",
        ),
        metric(
            "outbox_oldest_age_seconds",
            Gauge,
            TABLE,
            "For how long the oldest due event has been due",
        ),
        metric(
            "outbox_in_flight",
            Gauge,
            TABLE,
            "Events that this relay has in hand",
        ),
        metric(
            "outbox_in_flight_limit",
            Gauge,
            TABLE,
            "As many as it may have in hand",
        ),
        metric(
            "outbox_in_flight_bytes",
            Gauge,
            TABLE,
            "The payloads in its hand, in bytes",
        ),
        metric(
            "outbox_relay_leader",
            Gauge,
            TABLE,
            "Whether this relay is an active one (1) or stands by (0)",
        ),
        metric(
            "outbox_table_bytes",
            Gauge,
            TABLE,
            "What the table of events takes without its indexes; of SQLite, the whole file",
        ),
        metric("outbox_index_bytes", Gauge, TABLE, "What its indexes take"),
        metric(
            "outbox_dead_rows",
            Gauge,
            TABLE,
            "About how many dead versions of rows wait for vacuum",
        ),
        metric(
            "outbox_oldest_transaction_seconds",
            Gauge,
            TABLE,
            "For how long the oldest transaction has held back vacuum",
        ),
        metric(
            "outbox_database_connections",
            Gauge,
            TABLE,
            "Connections that the server has",
        ),
        metric(
            "outbox_database_connection_limit",
            Gauge,
            TABLE,
            "As many as it allows",
        ),
        metric(
            "outbox_paused",
            Gauge,
            DESTINATION,
            "Whether an operator paused a destination, or the outbox if it names none (1), or not (0)",
        ),
        metric(
            "outbox_circuit_open",
            Gauge,
            DESTINATION,
            "Whether a destination is held to be down (1) or not (0)",
        ),
    ]
};

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    about: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        about,
    }
}

/// Explains every metric to the recorder. Call it once, after a recorder is installed.
pub fn describe_metrics() {
    for metric in METRICS {
        let (name, about) = (metric.name, metric.about);
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(name, about),
            MetricKind::Gauge => metrics::describe_gauge!(name, about),
            MetricKind::Seconds => metrics::describe_histogram!(name, Unit::Seconds, about),
            MetricKind::Numbers => metrics::describe_histogram!(name, about),
        }
    }
}
