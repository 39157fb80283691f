//! A look at a cluster: whether it lets us in, what its topic is like, whether it may be written to, and what an
//! acknowledgement is worth there. Nothing is stored, and no topic is made.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::answer::told;
use super::link::{Health, Link, Report, Watcher};

const TICK: Duration = Duration::from_millis(20);
/// What a look cannot always find out.
const RIGHT: &str = "whether WRITE is granted shows with the first events";
/// A topic that takes records of more bytes than this is not sent one that is larger.
const LARGEST_TRIAL: usize = 8 << 20;
/// Reports come this much later than the timeout: librdkafka looks once in a second.
const SLACK: Duration = Duration::from_secs(3);

pub(super) struct Look {
    pub(super) config: ClientConfig,
    /// The topic, if all events go to one.
    pub(super) topic: Option<String>,
    pub(super) timeout: Duration,
    pub(super) untold: Arc<[String]>,
}

/// What was seen of a topic.
struct Seen {
    partitions: usize,
    replicas: usize,
    leaderless: usize,
}

impl Look {
    pub(super) async fn take(mut self) -> Result<String, String> {
        // It tells by its statistics whether it was accepted.
        self.config.set("statistics.interval.ms", "100");
        let look = Arc::new(self);
        let looking = look.clone();
        let (brokers, topics, seen) =
            tokio::task::spawn_blocking(move || looking.meet())
                .await
                .map_err(|error| format!("the look at Kafka failed: {error}"))??;
        let brokers = number(brokers, "broker");
        let Some((name, seen)) = look.topic.as_ref().zip(seen) else {
            return Ok(format!(
                "connected and accepted; {brokers}, {}; the topic is made of each event; {RIGHT}; an \
                 acknowledgement means that all in-sync replicas of its partition have it",
                number(topics, "topic")
            ));
        };
        if seen.leaderless > 0 {
            return Err(format!(
                "topic {name:?} has {} without a leader: is a broker down?",
                number(seen.leaderless, "partition")
            ));
        }
        let topic = format!(
            "connected and accepted; {brokers}; topic {name:?} has {} with {}",
            number(seen.partitions, "partition"),
            number(seen.replicas, "replica")
        );
        let (size, replicas) = match look.limits(name).await {
            Ok(limits) => limits,
            Err(why) => {
                return Ok(format!(
                    "{topic}; its limits cannot be seen ({why}), nor whether WRITE is granted: that shows with \
                     the first events; an acknowledgement means that all in-sync replicas have it"
                ));
            }
        };
        let right = match look.may_write(name, size).await? {
            true => "this user may write to it",
            false => RIGHT,
        };
        Ok(format!(
            "{topic} and takes records of up to {size} bytes; {right}; an acknowledgement means that \
             all in-sync replicas have it, at least {replicas}{}",
            match replicas.min(seen.replicas) {
                0 | 1 => ": one broker that is lost for good can take it along",
                _ => "",
            }
        ))
    }

    /// Whether this user may write to the topic, if that can be found out: a record that is too large for it is
    /// refused by the leader, and never stored; but before that it is looked who sends it.
    async fn may_write(&self, topic: &str, limit: usize) -> Result<bool, String> {
        if limit > LARGEST_TRIAL {
            return Ok(false);
        }
        let mut config = self.config.clone();
        config
            .set("enable.idempotence", "false")
            .set("message.send.max.retries", "0")
            .set("message.max.bytes", (2 * LARGEST_TRIAL).to_string());
        // Some property may not go with that: then it is not known.
        let Ok(link) = Link::new(&config, self.untold.clone()) else {
            return Ok(false);
        };
        let (ticket, report) = oneshot::channel();
        let noise = noise(limit + 1);
        let record = BaseRecord::with_opaque_to(topic, Box::new(ticket))
            .key("")
            .payload(&noise);
        if let Err((error, _)) = link.producer.send(record) {
            tracing::debug!(target: "posthaste::kafka", "no trial: {error}");
            return Ok(false);
        }
        match tokio::time::timeout(self.timeout + SLACK, report).await {
            Ok(Ok(Report::Failed(Code::MessageSizeTooLarge))) => Ok(true),
            Ok(Ok(Report::Failed(Code::TopicAuthorizationFailed))) => Err(format!(
                "topic {topic:?} may not be written to: grant WRITE"
            )),
            Ok(Ok(Report::Acknowledged)) => Err(format!(
                "topic {topic:?} took a record of {} bytes, which is more than it says that it takes: look at its \
                 max.message.bytes, and skip that record",
                limit + 1
            )),
            _ => Ok(false),
        }
    }

    /// Waits until the cluster has accepted a producer, and asks for its topics.
    fn meet(&self) -> Result<(usize, usize, Option<Seen>), String> {
        let link = Link::new(&self.config, self.untold.clone())?;
        let deadline = Instant::now() + self.timeout;
        let trouble = || link.health.why();
        while !link.health.accepted.load(Ordering::Relaxed) {
            if link.health.is_over() {
                return Err(trouble().unwrap_or_else(|| "no broker can be reached".to_owned()));
            }
            if Instant::now() > deadline {
                let late = format!("no answer within {:?}", self.timeout);
                return Err(trouble().map_or(late.clone(), |why| format!("{late}: {why}")));
            }
            std::thread::sleep(TICK);
        }
        // All topics: to ask for one by its name might create it.
        let metadata = link
            .producer
            .client()
            .fetch_metadata(None, self.timeout)
            .map_err(|error| told(&error.to_string(), &self.untold))?;
        let seen = self.topic.as_ref().map(|name| seen(&metadata, name));
        Ok((
            metadata.brokers().len(),
            metadata.topics().len(),
            seen.transpose()?,
        ))
    }

    /// How large a record may be, and how many replicas must have it.
    async fn limits(&self, topic: &str) -> Result<(usize, usize), String> {
        let watcher = Watcher(Arc::new(Health::new(self.untold.clone())));
        let admin = AdminClient::from_config_and_context(&self.config, watcher);
        let admin = admin.map_err(|error| told(&error.to_string(), &self.untold))?;
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let asked = [ResourceSpecifier::Topic(topic)];
        let answer = admin
            .describe_configs(&asked, &options)
            .await
            .map_err(|error| told(&error.to_string(), &self.untold))?;
        // It waits for its thread.
        tokio::task::spawn_blocking(move || drop(admin));
        let resource = match answer.into_iter().next() {
            Some(Ok(resource)) => resource,
            Some(Err(Code::TopicAuthorizationFailed)) => {
                return Err("DESCRIBE_CONFIGS is not granted".to_owned());
            }
            Some(Err(code)) => return Err(code.to_string()),
            None => return Err("no answer".to_owned()),
        };
        let value = |name: &str| {
            let entry = resource.get(name).and_then(|entry| entry.value.as_deref());
            entry.and_then(|value| value.parse().ok())
        };
        value("max.message.bytes")
            .zip(value("min.insync.replicas"))
            .ok_or_else(|| "they are not told".to_owned())
    }
}

/// Bytes that no compression makes fewer: the record must not become one that fits.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = Vec::with_capacity(length + 8);
    while noise.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(length);
    noise
}

fn seen(metadata: &Metadata, name: &str) -> Result<Seen, String> {
    let topics = metadata.topics();
    let Some(topic) = topics.iter().find(|topic| topic.name() == name) else {
        return Err(format!(
            "topic {name:?} does not exist, or may not be seen: create it, or grant DESCRIBE"
        ));
    };
    if let Some(error) = topic.error() {
        let code = Code::from(error);
        return Err(format!("topic {name:?} cannot be used: {code}"));
    }
    Ok(look_at(topic))
}

fn look_at(topic: &MetadataTopic) -> Seen {
    let partitions = topic.partitions();
    let replicas = partitions.iter().map(|one| one.replicas().len()).min();
    Seen {
        partitions: partitions.len(),
        replicas: replicas.unwrap_or_default(),
        leaderless: partitions.iter().filter(|one| one.leader() < 0).count(),
    }
}

fn number(count: usize, of: &str) -> String {
    match count {
        1 => format!("1 {of}"),
        _ => format!("{count} {of}s"),
    }
}
