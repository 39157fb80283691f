//! Health checks: stuck events, failure rates, latency, and what has failed. Only looks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{Store, StoreError};
use posthaste_relay::{Deliveries, View};

/// From where on something is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// So many events may be in delivery for more than five minutes.
    pub stuck: u64,
    /// So many events may have failed for good.
    pub failed: u64,
    /// So many of a hundred attempts may fail between two looks.
    pub failure_rate: f64,
    /// So long may most events (95 %) take from commit to confirmation.
    pub latency: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stuck: 0,
            failed: 0,
            failure_rate: 10.0,
            latency: Duration::from_secs(60),
        }
    }
}

/// What a look showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Events that wait.
    pub pending: u64,
    /// Events that failed for good.
    pub failed: u64,
    /// Events that have been in delivery for more than five minutes.
    pub stuck: u64,
    /// Failed attempts of a hundred since the last look. `None`: there were none.
    pub failure_rate: Option<f64>,
    /// What most events (95 %) took since the last look. `None`: none was delivered.
    pub latency: Option<Duration>,
    /// Why the broker is held to be down, if it is.
    pub outage: Option<String>,
}

/// Something that a person should look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alert {
    /// Events are stuck: a publisher hangs.
    Stuck,
    /// Events failed for good: see `posthaste dead`.
    Failed,
    /// Many attempts fail.
    FailureRate,
    /// Events take long.
    Latency,
    /// The broker is down. Events wait, and none is lost.
    Outage,
}

impl Report {
    /// What is beyond its limit.
    pub fn alerts(&self, limits: &Limits) -> Vec<Alert> {
        let beyond = [
            (self.stuck > limits.stuck, Alert::Stuck),
            (self.failed > limits.failed, Alert::Failed),
            (
                self.failure_rate > Some(limits.failure_rate),
                Alert::FailureRate,
            ),
            (self.latency > Some(limits.latency), Alert::Latency),
            (self.outage.is_some(), Alert::Outage),
        ];
        let beyond = beyond.into_iter().filter(|(is_beyond, _)| *is_beyond);
        beyond.map(|(_, alert)| alert).collect()
    }
}

/// Looks at the outbox, and at the publisher of this process.
pub struct Monitor {
    store: Arc<dyn Store>,
    publisher: View,
    before: Mutex<Deliveries>,
}

impl Monitor {
    /// Looks at this outbox and this publisher.
    pub fn new(store: Arc<dyn Store>, publisher: View) -> Self {
        Self {
            store,
            publisher,
            before: Mutex::default(),
        }
    }

    /// How things are now, and went since the last look.
    pub async fn look(&self) -> Result<Report, StoreError> {
        let stats = self.store.stats().await?;
        let standing = self.publisher.look();
        let destination = standing.and_then(|it| it.destinations.into_iter().next());
        let (deliveries, outage) = match destination {
            Some(it) => (it.deliveries, it.outage.map(|outage| outage.why)),
            None => (Deliveries::default(), None),
        };
        let mut before = self.before.lock().expect("nobody panics while holding it");
        let lately = deliveries.since(&before);
        *before = deliveries;
        let failures = lately.failed + lately.rejected;
        let attempts = failures + lately.delivered;
        Ok(Report {
            pending: stats.pending,
            failed: stats.dead,
            stuck: stats.stuck,
            failure_rate: (attempts > 0).then(|| failures as f64 * 100.0 / attempts as f64),
            latency: lately.end_to_end.quantile(0.95),
            outage,
        })
    }
}
