//! Streams to deliver to, and what is read from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{Event, Message};
use posthaste_relay::sink::nats::NatsBuilder;
use posthaste_relay::sink::{Nats, Outcome, Sink};
use posthaste_testkit::server::{self, Options};
use posthaste_testkit::sink_contract::{self, Arrived};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;
pub(crate) const NAME: &str = "EVENTS";

/// A stream of its own, on the server that all tests share, for the subjects below its name.
pub(crate) struct Stream {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Stream {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    /// A stream with these settings.
    pub(crate) async fn with(config: Config) -> Self {
        let url = server::Nats::shared();
        let name = format!("T{}", uuid::Uuid::new_v4().simple());
        let config = Config {
            name: name.clone(),
            subjects: vec![format!("{name}.>")],
            ..config
        };
        add(&url, config).await;
        Self { url, name }
    }

    pub(crate) fn builder(&self) -> NatsBuilder {
        Nats::builder(&self.url).subject(format!("{}.{{topic}}", self.name))
    }

    pub(crate) fn sink(&self) -> Nats {
        self.builder().build().unwrap()
    }

    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        read(&self.url, &self.name).await
    }

    /// With the subject of each.
    pub(crate) async fn messages(&self) -> Vec<(String, Arrived)> {
        messages(&self.url, &self.name).await
    }
}

pub(crate) async fn jetstream(url: &str) -> jetstream::Context {
    jetstream::new(async_nats::connect(url).await.unwrap())
}

pub(crate) async fn add(url: &str, config: Config) {
    jetstream(url).await.create_stream(config).await.unwrap();
}

/// A stream of this name for the usual topics.
pub(crate) fn usual() -> Config {
    Config {
        name: NAME.to_owned(),
        subjects: vec!["shop.>".to_owned()],
        ..Config::default()
    }
}

/// What nats-py reads from a stream.
pub(crate) async fn read(url: &str, stream: &str) -> Vec<Arrived> {
    let messages = messages(url, stream).await.into_iter();
    messages.map(|(_, arrived)| arrived).collect()
}

async fn messages(url: &str, stream: &str) -> Vec<(String, Arrived)> {
    const SCRIPT: &str = include_str!("../../../posthaste-testkit/python/nats.py");
    let (url, stream) = (url.to_owned(), stream.to_owned());
    let read = move || server::python(SCRIPT, &[&url, &stream]).unwrap();
    let printed = tokio::task::spawn_blocking(read).await.unwrap();
    let text = String::from_utf8(printed).unwrap();
    let message = |line: &str| {
        let mut message: serde_json::Value = serde_json::from_str(line).unwrap();
        let headers: BTreeMap<String, String> =
            serde_json::from_value(message["headers"].take()).unwrap();
        let body = STANDARD.decode(message["body"].as_str().unwrap()).unwrap();
        let subject = message["subject"].as_str().unwrap().to_owned();
        (subject, Arrived { headers, body })
    };
    text.lines().map(message).collect()
}

/// A server of its own, with these settings.
pub(crate) fn private(settings: &[(&str, &str)]) -> server::Nats {
    let options = settings
        .iter()
        .fold(Options::new(), |options, (name, value)| {
            options.setting(*name, value)
        });
    server::Nats::start(options).unwrap()
}

/// The same, with a stream for the usual topics.
pub(crate) async fn private_stream() -> server::Nats {
    let server = private(&[]);
    add(&server.url(), usual()).await;
    server
}

pub(crate) async fn event() -> Arc<Event> {
    sink_contract::event(sink_contract::message()).await
}

pub(crate) async fn outcome(sink: &Nats) -> Outcome {
    sink_contract::deliver(sink, &event().await).await
}

pub(crate) async fn outcome_of(sink: &Nats, message: Message) -> Outcome {
    sink.deliver(sink_contract::event(message).await).await
}

pub(crate) fn is_unavailable(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Unavailable(why) if why.contains(word))
}

pub(crate) fn is_retry(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Retry(why) if why.contains(word))
}

pub(crate) fn is_reject(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Reject(why) if why.contains(word))
}
