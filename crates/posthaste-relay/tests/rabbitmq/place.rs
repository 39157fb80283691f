//! The servers, and what is on them for one test.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{Event, Message};
use posthaste_relay::sink::rabbitmq::RabbitMqBuilder;
use posthaste_relay::sink::{Outcome, RabbitMq, Sink};
use posthaste_testkit::server::{self, Options, RabbitMq as Server, RabbitMqTls};
use posthaste_testkit::sink_contract;
use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use crate::tls::AUTHORITY;

pub(crate) const TOPIC: &str = "shop.order.placed.v1";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;

/// A server that may be stopped, killed and filled up, by one test at a time.
pub(crate) async fn mortal() -> MutexGuard<'static, Server> {
    static MORTAL: LazyLock<Mutex<Server>> = LazyLock::new(|| {
        let (certificate, key) = AUTHORITY.certificate("localhost");
        let tls = RabbitMqTls {
            authority: AUTHORITY.pem(),
            certificate,
            key,
            demanding: true,
        };
        Mutex::new(Server::start_with_tls(Options::new(), tls).unwrap())
    });
    let mut server = MORTAL.lock().await;
    // As the last test may have left it.
    if !server.answers() {
        let _ = server.kill();
        server.start_again().unwrap();
    }
    server
}

/// An exchange of its own, with a queue that gets all of it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) name: String,
}

/// What was read from a queue.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: serde_json::Value,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Found {
    pub(crate) fn id(&self) -> Uuid {
        self.text("message_id").parse().unwrap()
    }

    pub(crate) fn text(&self, property: &str) -> &str {
        let value = self.properties[property].as_str();
        value.unwrap_or_else(|| panic!("no {property} in {}", self.properties))
    }
}

impl Place {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Self {
        Self::at(tokio::task::spawn_blocking(Server::shared).await.unwrap()).await
    }

    pub(crate) async fn at(url: String) -> Self {
        let place = Self::bare(url);
        place.act(&["place", &place.name]).await;
        place
    }

    /// Names that nothing has on the server.
    pub(crate) fn bare(url: String) -> Self {
        let name = format!("t-{}", Uuid::new_v4().simple());
        Self { url, name }
    }

    /// Runs an action of `rabbitmq.py`.
    pub(crate) async fn act(&self, arguments: &[&str]) -> Vec<u8> {
        act(&self.url, arguments).await
    }

    /// All that is in the queue.
    pub(crate) async fn found(&self) -> Vec<Found> {
        found(&self.url, &self.name).await
    }

    /// The ids of all that is in the queue.
    pub(crate) async fn ids(&self) -> Vec<Uuid> {
        self.found().await.iter().map(Found::id).collect()
    }

    pub(crate) fn builder(&self) -> RabbitMqBuilder {
        RabbitMq::builder(&self.url, &self.name)
    }

    pub(crate) fn sink(&self) -> RabbitMq {
        self.builder().build().unwrap()
    }

    /// The port of the server.
    pub(crate) fn port(&self) -> u16 {
        let port = self.url.rsplit(':').next().unwrap();
        port.split('/').next().unwrap().parse().unwrap()
    }

    /// The same through another port.
    pub(crate) fn through(&self, port: u16) -> Self {
        let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
        Self {
            url,
            name: self.name.clone(),
        }
    }
}

async fn act(url: &str, arguments: &[&str]) -> Vec<u8> {
    let script = include_str!("../../../posthaste-testkit/python/rabbitmq.py");
    let arguments: Vec<String> = [url]
        .iter()
        .chain(arguments)
        .map(|argument| (*argument).to_owned())
        .collect();
    let run = move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        server::python(script, &arguments).unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

pub(crate) async fn found(url: &str, queue: &str) -> Vec<Found> {
    let printed = act(url, &["read", queue]).await;
    let lines = printed.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            let properties = line["properties"].clone();
            let headers = properties["headers"].as_object().unwrap().iter();
            Found {
                exchange: line["exchange"].as_str().unwrap().to_owned(),
                routing_key: line["routing_key"].as_str().unwrap().to_owned(),
                headers: headers
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                    .collect(),
                properties,
                body: STANDARD.decode(line["body"].as_str().unwrap()).unwrap(),
            }
        })
        .collect()
}

pub(crate) fn message() -> Message {
    Message::json_text(TOPIC, "{\"n\":1}").unwrap()
}

pub(crate) async fn event_of(message: Message) -> Arc<Event> {
    sink_contract::events(&[message]).await.remove(0)
}

pub(crate) async fn event() -> Arc<Event> {
    event_of(message()).await
}

/// An event of this many bytes, which may be more than an outbox takes.
pub(crate) async fn event_of_size(size: usize) -> Arc<Event> {
    let mut event = Event::clone(&*event().await);
    event.payload = vec![b'x'; size].into();
    Arc::new(event)
}

pub(crate) async fn outcome(sink: &RabbitMq) -> Outcome {
    deliver(sink, event().await).await
}

pub(crate) async fn deliver(sink: &RabbitMq, event: Arc<Event>) -> Outcome {
    let delivery = tokio::time::timeout(PATIENCE, sink.deliver(event));
    delivery.await.expect("a sink answers in time")
}

/// Delivers all of them at once. The outcomes are in the order of the events.
pub(crate) async fn deliver_all(sink: &Arc<RabbitMq>, events: &[Arc<Event>]) -> Vec<Outcome> {
    let deliveries: Vec<_> = events
        .iter()
        .map(|event| {
            let (sink, event) = (sink.clone(), event.clone());
            tokio::spawn(async move { deliver(&sink, event).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for delivery in deliveries {
        outcomes.push(delivery.await.unwrap());
    }
    outcomes
}

/// Tries until it is delivered, as a relay would, and says how long that took.
pub(crate) async fn until_delivered(sink: &RabbitMq) -> Duration {
    let (started, event) = (Instant::now(), event().await);
    loop {
        match deliver(sink, event.clone()).await {
            Outcome::Delivered => return started.elapsed(),
            Outcome::Reject(why) => panic!("rejected: {why}"),
            other => assert!(started.elapsed() < PATIENCE, "{other:?}"),
        }
        tokio::time::sleep(MS(50)).await;
    }
}
