//! A producer, from its making until the cluster is lost to it.
//!
//! One that has lost the cluster, or has failed for good, is not mended: all that it had in hand is
//! reported as failed, and the next delivery makes another. It knows nothing of events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext, PurgeConfig};
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::answer::told;

/// How often the state of the cluster is looked at.
const TICK: Duration = Duration::from_millis(50);
/// For how long no broker can be reached until the cluster counts as lost: a name may have several
/// addresses, which are tried one after the other, and a new producer needs half a second to begin.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a record.
#[derive(Debug)]
pub(super) enum Report {
    Acknowledged,
    Failed(Code),
}

pub(super) struct Link {
    pub(super) producer: Arc<BaseProducer<Watcher>>,
    pub(super) health: Arc<Health>,
}

impl Link {
    /// Makes a producer, and a thread that fetches its reports. It connects by itself.
    pub(super) fn new(config: &ClientConfig, untold: Arc<[String]>) -> Result<Self, String> {
        let health = Arc::new(Health::new(untold));
        let watcher = Watcher(health.clone());
        let failed = |error: String| format!("no producer can be made: {error}");
        let producer = BaseProducer::from_config_and_context(config, watcher)
            .map_err(|error| failed(told(&error.to_string(), &health.untold)))?;
        let producer = Arc::new(producer);
        let tended = producer.clone();
        thread::Builder::new()
            .name("posthaste-kafka".to_owned())
            .spawn(move || tend(tended))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { producer, health })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.health.end("the sink is gone");
    }
}

/// Fetches reports until the end, and then sees to it that every record has got one.
fn tend(producer: Arc<BaseProducer<Watcher>>) {
    let health = producer.context().0.clone();
    while !health.is_over() {
        producer.poll(TICK);
        health.take_note();
        health.judge();
    }
    // Also of records that are being handed over right now. Dropped by this thread, which may wait
    // for librdkafka's own to end.
    while Arc::strong_count(&producer) > 1 || producer.in_flight_count() > 0 {
        producer.purge(PurgeConfig::default().queue().inflight());
        producer.poll(TICK);
    }
}

/// What is known of the cluster. Moments are milliseconds since the producer was made; 0 is never.
pub(super) struct Health {
    made: Instant,
    over: AtomicBool,
    acknowledged: AtomicU64,
    /// Something was acknowledged, and not yet written down with its time.
    just_acknowledged: AtomicBool,
    /// No broker could be reached, for the first time since the last acknowledgement.
    down: AtomicU64,
    /// A connection broke that had been in use.
    broken: AtomicU64,
    /// What was heard of it, and why it is over.
    why: Mutex<Why>,
    /// Whether the cluster has accepted this producer, if it was asked to tell.
    pub(super) accepted: AtomicBool,
    untold: Arc<[String]>,
}

#[derive(Default)]
struct Why {
    heard: Option<String>,
    over: Option<String>,
    broke: bool,
}

impl Health {
    pub(super) fn new(untold: Arc<[String]>) -> Self {
        Self {
            made: Instant::now(),
            over: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            just_acknowledged: AtomicBool::new(false),
            down: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            why: Mutex::default(),
            accepted: AtomicBool::new(false),
            untold,
        }
    }

    /// Whether the producer is of no more use.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends the producer. The first reason stays.
    pub(super) fn end(&self, why: &str) {
        let mut known = self.lock();
        if known.over.is_none() {
            known.over = Some(why.to_owned());
            // Refused before it was used is another thing than broken in use.
            known.broke = at(&self.broken) > at(&self.acknowledged);
        }
        self.over.store(true, Ordering::Release);
    }

    /// Why it ended, or what was last heard of trouble.
    pub(super) fn why(&self) -> Option<String> {
        let why = self.lock();
        why.over.clone().or_else(|| why.heard.clone())
    }

    /// Whether it ended because a connection broke that had been in use.
    pub(super) fn broke(&self) -> bool {
        self.lock().broke
    }

    /// Whether anything was acknowledged lately.
    pub(super) fn acknowledged_within(&self, time: Duration) -> bool {
        let last = at(&self.acknowledged);
        last > 0 && self.now().saturating_sub(last) < milliseconds(time)
    }

    /// Writes down when something was acknowledged: once for all that came together, as to ask for the time
    /// of each costs more than all the rest of its report.
    fn take_note(&self) {
        if self.just_acknowledged.swap(false, Ordering::Relaxed) {
            self.acknowledged.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Ends the producer if the cluster is lost.
    fn judge(&self) {
        let down = at(&self.down);
        let lost = down > at(&self.acknowledged)
            && self.now().saturating_sub(down) >= milliseconds(PATIENCE);
        if lost {
            let heard = self.lock().heard.clone();
            self.end(&heard.unwrap_or_else(|| "no broker can be reached".to_owned()));
        }
    }

    fn heard(&self, code: Option<Code>, text: &str) {
        // What was acknowledged came before.
        self.take_note();
        let now = self.now().max(at(&self.acknowledged) + 1);
        match code {
            Some(Code::AllBrokersDown) => {
                if at(&self.down) <= at(&self.acknowledged) {
                    self.down.store(now, Ordering::Relaxed);
                }
                return;
            }
            // A silence is no break, and told elsewhere.
            _ if text.contains("in state UP") && !text.contains("timed out") => {
                self.broken.store(now, Ordering::Relaxed);
            }
            _ => {}
        }
        let text = told(text, &self.untold);
        if code == Some(Code::Fatal) {
            self.end(&text);
        }
        self.lock().heard = Some(text);
    }

    fn now(&self) -> u64 {
        milliseconds(self.made.elapsed()) + 1
    }

    fn lock(&self) -> MutexGuard<'_, Why> {
        self.why.lock().expect("not poisoned")
    }
}

fn at(moment: &AtomicU64) -> u64 {
    moment.load(Ordering::Relaxed)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Hears what librdkafka has to say.
pub(super) struct Watcher(pub(super) Arc<Health>);

impl ProducerContext for Watcher {
    type DeliveryOpaque = Box<oneshot::Sender<Report>>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Self::DeliveryOpaque) {
        let report = match result {
            Ok(_) => {
                self.0.just_acknowledged.store(true, Ordering::Relaxed);
                Report::Acknowledged
            }
            Err((error, _)) => Report::Failed(error.rdkafka_error_code().unwrap_or(Code::Fail)),
        };
        // Nobody waits any more for a delivery that was given up.
        let _ = ticket.send(report);
    }
}

impl ClientContext for Watcher {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // A connection that the broker closed is logged, and no error.
        if facility == "FAIL" {
            self.0.heard(None, text);
        }
        let text = told(text, &self.0.untold);
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "posthaste::kafka", facility, "{text}");
            }
            _ => tracing::debug!(target: "posthaste::kafka", facility, "{text}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.heard(error.rdkafka_error_code(), reason);
    }

    fn stats(&self, statistics: Statistics) {
        let accepted = statistics.eos.is_some_and(|eos| eos.producer_id >= 0);
        if accepted {
            self.0.accepted.store(true, Ordering::Relaxed);
        }
    }
}
