//! A look at a cluster: whether it lets us in, what its topic is like, and what an acknowledgement
//! is worth there. It writes nothing, and makes no topic.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::Producer;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::answer::told;
use super::link::{Health, Link, Watcher};

const TICK: Duration = Duration::from_millis(20);
/// What no look can find out.
const RIGHT: &str = "whether WRITE is granted shows with the first events";

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
        match look.limits(name).await {
            Ok((size, replicas)) => Ok(format!(
                "{topic} and takes records of up to {size} bytes; {RIGHT}; an acknowledgement means that \
                 all in-sync replicas have it, at least {replicas}{}",
                match replicas.min(seen.replicas) {
                    0 | 1 => ": one broker that is lost for good can take it along",
                    _ => "",
                }
            )),
            Err(why) => Ok(format!(
                "{topic}; its limits cannot be seen ({why}); {RIGHT}; an acknowledgement means that all \
                 in-sync replicas have it"
            )),
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
