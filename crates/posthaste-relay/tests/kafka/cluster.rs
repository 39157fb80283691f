//! Servers to test with: one that all share, two that are stopped and killed, one whose network fails.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{Event, Message};
use posthaste_relay::sink::kafka::KafkaBuilder;
use posthaste_relay::sink::{Kafka, Outcome, Sink};
use posthaste_testkit::server::{self, Listener, Options, Proxy};
use posthaste_testkit::sink_contract;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::sync::{Mutex, OwnedMutexGuard};

pub(crate) const SCRIPT: &str = include_str!("../../../posthaste-testkit/python/kafka.py");
pub(crate) const TOPIC: &str = "shop.order.placed.v1";
/// What the topics here take, at most.
pub(crate) const LIMIT: usize = 2 * 1024 * 1024;
/// Larger requests break the connection, on the server behind a network that fails.
pub(crate) const REQUEST_LIMIT: usize = 4 * 1024 * 1024;

/// Servers that tests stop and kill, one test after the other: two, as it takes them long to start.
static MORTALS: [LazyLock<Arc<Mutex<server::Kafka>>>; 2] =
    [LazyLock::new(start), LazyLock::new(start)];

fn start() -> Arc<Mutex<server::Kafka>> {
    Arc::new(Mutex::new(server::Kafka::start(Options::new()).unwrap()))
}

/// A server behind a network that fails, and that is paused; by one test after the other.
pub(crate) struct Faulty {
    pub(crate) server: server::Kafka,
    pub(crate) proxy: Arc<Proxy>,
}

static FAULTY: LazyLock<Arc<Mutex<Faulty>>> = LazyLock::new(|| {
    let proxy = Arc::new(Proxy::leading_nowhere().unwrap());
    let listener = Listener {
        name: "PROXIED",
        protocol: "PLAINTEXT",
        advertised: Some(proxy.port()),
    };
    let options = Options::new().setting("socket.request.max.bytes", REQUEST_LIMIT);
    let server = server::Kafka::start_with(options, &[listener], &[]).unwrap();
    let listener = server.listener("PROXIED").unwrap();
    proxy.lead_to(listener.rsplit(':').next().unwrap().parse().unwrap());
    Arc::new(Mutex::new(Faulty { server, proxy }))
});

/// A mortal server, at work, for this test alone.
pub(crate) async fn mortal(number: usize) -> OwnedMutexGuard<server::Kafka> {
    let mortal = blocking(move || MORTALS[number].clone()).await;
    let mut server = mortal.lock_owned().await;
    // A test that failed may have left it stopped.
    if server.pid().is_none() {
        tokio::task::block_in_place(|| server.start_again()).unwrap();
    }
    server
}

/// The server behind a network, at work, for this test alone.
pub(crate) async fn faulty() -> OwnedMutexGuard<Faulty> {
    let faulty = blocking(|| FAULTY.clone()).await;
    let mut faulty = faulty.lock_owned().await;
    faulty.proxy.heal();
    // A test that failed may have left it killed, or halted.
    match faulty.server.pid() {
        Some(_) => faulty.server.resume().unwrap(),
        None => tokio::task::block_in_place(|| faulty.server.start_again()).unwrap(),
    }
    faulty
}

pub(crate) async fn shared() -> String {
    blocking(server::Kafka::shared).await
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// A name that nobody else uses.
pub(crate) fn fresh_name() -> String {
    format!("t-{}", uuid::Uuid::new_v4().simple())
}

/// Makes a topic of its own, of one partition.
pub(crate) async fn fresh_topic(brokers: &str) -> String {
    let name = fresh_name();
    create(brokers, &name, 1, &[]).await;
    name
}

pub(crate) async fn create(brokers: &str, name: &str, partitions: i32, config: &[(&str, &str)]) {
    let limit = LIMIT.to_string();
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    if !config.iter().any(|(name, _)| *name == "max.message.bytes") {
        topic = topic.set("max.message.bytes", &limit);
    }
    for (name, value) in config {
        topic = topic.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let made = admin(brokers).create_topics([&topic], &options).await;
    made.unwrap().remove(0).unwrap();
}

pub(crate) async fn delete(brokers: &str, name: &str) {
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let gone = admin(brokers).delete_topics(&[name], &options).await;
    gone.unwrap().remove(0).unwrap();
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).create().unwrap()
}

/// A record as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Record {
    pub(crate) fn id(&self) -> String {
        let id = self.headers.get("posthaste-id");
        id.or(self.headers.get("ce_id")).unwrap().clone()
    }
}

/// All that is in a topic, by partition in its order.
pub(crate) async fn read(brokers: &str, topic: &str) -> Vec<Record> {
    python(&["read", brokers, topic])
        .await
        .iter()
        .map(record)
        .collect()
}

/// What the Python client prints, a JSON object in each line.
pub(crate) async fn python(arguments: &[&str]) -> Vec<serde_json::Value> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let printed = blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        server::python(SCRIPT, &arguments).unwrap()
    })
    .await;
    let lines = printed.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn record(line: &serde_json::Value) -> Record {
    let bytes =
        |value: &serde_json::Value| value.as_str().map(|text| STANDARD.decode(text).unwrap());
    let headers = line["headers"].as_array().unwrap().iter();
    Record {
        partition: i32::try_from(line["partition"].as_i64().unwrap()).unwrap(),
        key: bytes(&line["key"]),
        value: bytes(&line["value"]),
        headers: headers
            .map(|header| {
                let value = String::from_utf8(bytes(&header[1]).unwrap()).unwrap();
                (header[0].as_str().unwrap().to_owned(), value)
            })
            .collect(),
    }
}

/// A sink that sends everything to one topic.
pub(crate) fn sink(brokers: &str, topic: &str) -> KafkaBuilder {
    Kafka::builder([brokers])
        .topic(topic)
        .timeout(Duration::from_secs(10))
}

pub(crate) fn message() -> Message {
    Message::json_text(TOPIC, "{\"n\":1}").unwrap()
}

pub(crate) async fn event_of(message: Message) -> Arc<Event> {
    sink_contract::events(&[message]).await.remove(0)
}

pub(crate) async fn deliver(sink: &Kafka) -> Outcome {
    sink.deliver(event_of(message()).await).await
}

/// Tries again and again, as a relay would, until it is delivered.
pub(crate) async fn until_delivered(sink: &Kafka, event: &Arc<Event>) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match sink.deliver(event.clone()).await {
            Outcome::Delivered => return,
            Outcome::Reject(why) => panic!("rejected: {why}"),
            other => assert!(tokio::time::Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) fn of_size(bytes: usize) -> Message {
    Message::bytes(TOPIC, "application/octet-stream", vec![b'x'; bytes])
}

/// An event with a payload that an outbox would not have taken.
pub(crate) async fn large_event(bytes: usize) -> Arc<Event> {
    let mut event = Event::clone(&*event_of(message()).await);
    event.payload = vec![b'x'; bytes].into();
    Arc::new(event)
}
