//! Streams to deliver to, and what is read from them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{Event, Message};
use posthaste_relay::sink::redis::RedisBuilder;
use posthaste_relay::sink::{Outcome, Redis, Sink};
use posthaste_testkit::server::{self, Options};
use posthaste_testkit::sink_contract::{self, Arrived};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A stream of its own, on the server that all tests share.
pub(crate) struct Stream {
    pub(crate) url: String,
    pub(crate) key: String,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self {
            url: server::Redis::shared(),
            key: format!("test:{}", uuid::Uuid::new_v4()),
        }
    }

    pub(crate) fn builder(&self) -> RedisBuilder {
        Redis::builder(&self.url).key(&self.key)
    }

    pub(crate) fn sink(&self) -> Redis {
        self.builder().build().unwrap()
    }

    pub(crate) async fn arrived(&self) -> Vec<Arrived> {
        read(&self.url, &self.key).await
    }
}

/// What redis-py reads: the entries of this stream, or of all (`*`).
pub(crate) async fn read(url: &str, key: &str) -> Vec<Arrived> {
    let entries = entries(url, key).await.into_iter();
    entries.map(|(_, arrived)| arrived).collect()
}

/// The same, with the key of each.
pub(crate) async fn entries(url: &str, key: &str) -> Vec<(String, Arrived)> {
    const SCRIPT: &str = include_str!("../../../posthaste-testkit/python/redis.py");
    let (url, key) = (url.to_owned(), key.to_owned());
    let read = move || server::python(SCRIPT, &[&url, &key]).unwrap();
    let printed = tokio::task::spawn_blocking(read).await.unwrap();
    let text = String::from_utf8(printed).unwrap();
    let entry = |line: &str| {
        let mut entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let headers: BTreeMap<String, String> =
            serde_json::from_value(entry["headers"].take()).unwrap();
        let body = STANDARD.decode(entry["body"].as_str().unwrap()).unwrap();
        let key = entry["key"].as_str().unwrap().to_owned();
        (key, Arrived { headers, body })
    };
    text.lines().map(entry).collect()
}

/// A server of its own, with these settings.
pub(crate) fn private(settings: &[(&str, &str)]) -> server::Redis {
    let options = settings
        .iter()
        .fold(Options::new(), |options, (name, value)| {
            options.setting(*name, value)
        });
    server::Redis::start(options).unwrap()
}

/// What a server answers to a command, as `redis-cli` would show it.
pub(crate) async fn ask(url: &str, words: &[&str]) -> Result<redis::Value, String> {
    let client = redis::Client::open(url).unwrap();
    // However long it takes.
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connected = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connected.await.unwrap();
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    let answer = command.query_async(&mut connection).await;
    answer.map_err(|error| error.to_string())
}

pub(crate) async fn event() -> Arc<Event> {
    sink_contract::event(sink_contract::message()).await
}

pub(crate) async fn outcome(sink: &Redis) -> Outcome {
    sink_contract::deliver(sink, &event().await).await
}

pub(crate) async fn outcome_of(sink: &Redis, message: Message) -> Outcome {
    sink.deliver(sink_contract::event(message).await).await
}

pub(crate) fn is_unavailable(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Unavailable(why) if why.contains(word))
}

pub(crate) fn is_retry(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Retry(why) if why.contains(word))
}
