//! Kafka: each event is one record, acknowledged by all in-sync replicas.
//!
//! It hands records to librdkafka, which batches and pipelines them, and waits for the report of
//! each. librdkafka repeats what got lost on the way, within the timeout and without making
//! duplicates; whatever is left after that is for the relay to decide.

mod answer;
mod check;
mod link;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::Event;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

pub use settings::{Compression, KafkaBuilder, Mechanism};

use self::answer::{Meaning, meaning};
use self::link::{Health, Link, Report};
use super::suspects::Suspects;
use super::{Outcome, Sink};
use crate::envelope::{Binding, Envelope, Sealed};
use crate::template::{Otherwise, Rule, Template, key};

/// How long to leave a full queue alone.
const QUEUE_FULL: Duration = Duration::from_millis(5);
/// Reports may come this much later than the timeout: librdkafka looks once in a second.
const SLACK: Duration = Duration::from_secs(3);
/// How often a topic is looked up again that was not there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many such topics are remembered.
const REMEMBERED: usize = 1024;

/// Sends events to Kafka. See [`Kafka::builder`].
pub struct Kafka {
    topic: Template,
    envelope: Envelope,
    setup: Setup,
    together: Slot,
    /// For records that must not share a batch with others.
    alone: Slot,
    suspects: Suspects,
    /// When topics that were not there, or not allowed, were looked up.
    missing: Mutex<HashMap<String, Instant>>,
}

/// What a producer is made of.
struct Setup {
    brokers: String,
    config: rdkafka::ClientConfig,
    timeout: Duration,
    /// What was configured and must be in no error or log.
    untold: Arc<[String]>,
}

/// A producer, once there is one.
#[derive(Default)]
struct Slot {
    link: Mutex<Option<Arc<Link>>>,
    is_alone: bool,
}

/// The name of a topic. Kafka has no escapes, so what it does not allow is refused.
const TOPIC: Rule = Rule {
    what: "a Kafka topic",
    allows: |_, c| c.is_ascii_alphanumeric() || "._-".contains(c),
    otherwise: Otherwise::Reject,
    longest: 249,
    whole: |name| match name {
        "." | ".." => Err("it is . or .."),
        _ => Ok(()),
    },
};

/// Why a record was not acknowledged.
enum Failure {
    /// There is no producer, or its report got lost.
    Down(String),
    /// This is what librdkafka says of it.
    Code(Code, Where, Arc<Health>),
}

/// Who refused a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Here,
    There,
}

impl Kafka {
    /// Sets up a cluster, by the addresses of some of its brokers. The topic may have fields of
    /// the event in it:
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste_relay::sink::SinkError> {
    /// use posthaste_relay::sink::Kafka;
    ///
    /// let sink = Kafka::builder(["kafka-1.example:9092", "kafka-2.example:9092"])
    ///     .topic("shop.{aggregate_type|other}")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder<B: Into<String>>(brokers: impl IntoIterator<Item = B>) -> KafkaBuilder {
        KafkaBuilder::new(brokers.into_iter().map(Into::into).collect())
    }

    /// Sends one record and waits for its report.
    async fn send(
        &self,
        slot: &Slot,
        (topic, event, sealed): (&str, &Event, &Sealed<'_>),
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + self.setup.timeout;
        let (ticket, report) = oneshot::channel();
        let key = key(event);
        let mut record = BaseRecord::with_opaque_to(topic, Box::new(ticket))
            .key(key.as_bytes())
            .payload(&sealed.body[..])
            .headers(headers(sealed));
        let health = loop {
            let link = slot.link(&self.setup).map_err(Failure::Down)?;
            let (error, returned) = match link.producer.send(record) {
                Ok(()) => break link.health.clone(),
                Err(refused) => refused,
            };
            let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
            let full = code == Code::QueueFull && Instant::now() < deadline;
            match (code, full) {
                // Back-pressure: the relay has more in flight than fits.
                (Code::QueueFull, true) => record = returned,
                (Code::QueueFull, false) => {
                    return Err(Failure::Down("the producer's queue stays full".to_owned()));
                }
                _ => return Err(Failure::Code(code, Where::Here, link.health.clone())),
            }
            drop(link);
            tokio::time::sleep(QUEUE_FULL).await;
        };
        match tokio::time::timeout(self.setup.timeout + SLACK, report).await {
            Ok(Ok(Report::Acknowledged)) => Ok(()),
            Ok(Ok(Report::Failed(code))) => Err(Failure::Code(code, Where::There, health)),
            Ok(Err(_)) | Err(_) => {
                health.end("the producer does not report");
                Err(Failure::Down("the producer does not report".to_owned()))
            }
        }
    }

    /// What becomes of an event whose record was not acknowledged.
    fn outcome(&self, event: &Event, topic: &str, failure: Failure) -> Outcome {
        let (code, place, health) = match failure {
            Failure::Down(why) => return Outcome::Unavailable(why),
            Failure::Code(code, place, health) => (code, place, health),
        };
        match meaning(code) {
            Meaning::TooLarge if place == Where::Here => Outcome::Reject(
                "the record is larger than `max_message_size` of this destination".to_owned(),
            ),
            Meaning::TooLarge => Outcome::Reject(format!(
                "the record is larger than topic {topic:?} takes (`max.message.bytes`): {code}"
            )),
            Meaning::Refused => Outcome::Reject(format!("the broker refused the record: {code}")),
            Meaning::NoTopic => self.topic_failed(
                topic,
                format!("topic {topic:?} does not exist: create it ({code})"),
            ),
            Meaning::NotAllowed => self.topic_failed(
                topic,
                format!(
                    "writing to topic {topic:?} is not allowed: grant WRITE and DESCRIBE ({code})"
                ),
            ),
            Meaning::Late => {
                let timeout = self.setup.timeout;
                let why = format!("no acknowledgement within {timeout:?}");
                // Others get theirs: the event, or its partition, may be the cause.
                if health.acknowledged_within(timeout / 2) {
                    return self.suspects.disconnected(event, why);
                }
                health.end(&why);
                Outcome::Unavailable(why)
            }
            Meaning::Down => {
                let why = health.why().unwrap_or_else(|| code.to_string());
                health.end(&why);
                match health.broke() {
                    true => self.suspects.disconnected(event, why),
                    false => Outcome::Unavailable(why),
                }
            }
            Meaning::Clock => {
                let why = format!(
                    "topic {topic:?} takes no records of this time: look at the clocks of this machine and the \
                     broker, and at `message.timestamp.*.max.ms` ({code})"
                );
                // Others get their acknowledgements, so the clocks are right: it is this topic's limit.
                match self.topic.fixed() {
                    None if self.is_acknowledged() => self.suspects.disconnected(event, why),
                    _ => Outcome::Unavailable(why),
                }
            }
            Meaning::Beside | Meaning::Passing => {
                Outcome::Retry(format!("the broker refused the record: {code}"))
            }
        }
    }

    /// Whether anything was acknowledged lately, be it sent together with others or alone.
    fn is_acknowledged(&self) -> bool {
        let slots = [&self.together, &self.alone].into_iter();
        let mut links = slots.filter_map(Slot::current);
        links.any(|link| link.health.acknowledged_within(self.setup.timeout / 2))
    }

    /// If all events go to one topic, nothing can be delivered before it is mended. Else others are
    /// well, and should not wait.
    fn topic_failed(&self, topic: &str, why: String) -> Outcome {
        self.look_up_again(topic);
        match self.topic.fixed() {
            Some(_) => Outcome::Unavailable(why),
            None => Outcome::Retry(why),
        }
    }

    /// librdkafka remembers for minutes that a topic is not there. So it is asked to look again, for the
    /// next attempt.
    fn look_up_again(&self, topic: &str) {
        {
            let mut missing = self.missing.lock().expect("not poisoned");
            if missing.len() >= REMEMBERED {
                missing.clear();
            }
            let now = Instant::now();
            match missing.get(topic) {
                Some(at) if now < *at + LOOK_AGAIN => return,
                _ => missing.insert(topic.to_owned(), now),
            };
        }
        for slot in [&self.together, &self.alone] {
            let Some(link) = slot.current() else { continue };
            let (topic, timeout) = (topic.to_owned(), self.setup.timeout);
            tokio::task::spawn_blocking(move || {
                // What it says is kept by the producer.
                let _ = link.producer.client().fetch_metadata(Some(&topic), timeout);
            });
        }
    }
}

#[async_trait]
impl Sink for Kafka {
    fn system(&self) -> &'static str {
        "kafka"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let sealed = match self.envelope.seal(&event) {
            Ok(sealed) => sealed,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let topic = match self.topic.render(&event, &TOPIC) {
            Ok(topic) => topic,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let mut sent = self.send(&self.together, (&topic, &event, &sealed)).await;
        if let Err(Failure::Code(code, Where::There, _)) = &sent
            && meaning(*code).is_of_a_batch()
        {
            // Batches are refused as a whole: because of their size, or of one of their records.
            sent = self.send(&self.alone, (&topic, &event, &sealed)).await;
        }
        match sent {
            Ok(()) => {
                self.suspects.cleared(&event);
                Outcome::Delivered
            }
            Err(failure) => {
                let outcome = self.outcome(&event, &topic, failure);
                self.together.let_go();
                self.alone.let_go();
                outcome
            }
        }
    }

    async fn check(&self) -> Result<String, String> {
        let look = check::Look {
            config: self.setup.config.clone(),
            topic: self.topic.fixed().map(str::to_owned),
            timeout: self.setup.timeout,
            untold: self.setup.untold.clone(),
        };
        look.take().await
    }
}

impl Slot {
    /// The producer, or a new one if there is none or its time is over.
    fn link(&self, setup: &Setup) -> Result<Arc<Link>, String> {
        let mut slot = self.link.lock().expect("not poisoned");
        if let Some(link) = slot.as_ref().filter(|link| !link.health.is_over()) {
            return Ok(link.clone());
        }
        let mut config = setup.config.clone();
        if self.is_alone {
            config.set("batch.num.messages", "1").set("linger.ms", "0");
        }
        let link = Arc::new(Link::new(&config, setup.untold.clone())?);
        *slot = Some(link.clone());
        Ok(link)
    }

    /// Forgets a producer whose time is over, so that it ends.
    fn let_go(&self) {
        let mut slot = self.link.lock().expect("not poisoned");
        slot.take_if(|link| link.health.is_over());
    }

    fn current(&self) -> Option<Arc<Link>> {
        self.link.lock().expect("not poisoned").clone()
    }
}

fn headers(sealed: &Sealed<'_>) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(16);
    for (key, value) in sealed.headers(Binding::Kafka) {
        headers = headers.insert(Header {
            key: &key,
            value: Some(value.as_bytes()),
        });
    }
    headers
}

impl std::fmt::Debug for Kafka {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kafka({} {})", self.setup.brokers, self.topic)
    }
}
