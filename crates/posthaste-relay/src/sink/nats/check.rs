//! A look at a server that stores nothing: whether events could be delivered, and what an acknowledgement would
//! mean.

use std::time::Duration;

use async_nats::{HeaderMap, Request, RequestErrorKind};
use bytes::Bytes;
use serde::Deserialize;

use super::link::{Connection, Failure, Place};
use crate::template::Template;

/// Which streams there are, or which one stores a subject.
const LIST: &str = "$JS.API.STREAM.LIST";

/// By this a stream refuses a message that is meant for another one.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// No stream has this name.
const NO_STREAM: &str = "posthaste-sink-check";
/// Tells who listens without JetStream that it is no event.
const CHECK: &str = "posthaste-check";

/// What JetStream answers. The rest of it differs between versions, and does not matter here.
#[derive(Deserialize)]
struct Listed {
    streams: Option<Vec<Stream>>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Stream {
    config: Config,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    name: String,
    subjects: Vec<String>,
    storage: String,
    num_replicas: u32,
    max_msg_size: i64,
    /// In nanoseconds.
    duplicate_window: u64,
    no_ack: bool,
    sealed: bool,
}

pub(super) async fn look(
    place: &Place,
    subject: &Template,
    timeout: Duration,
) -> Result<String, String> {
    let connection = Connection::open(place, timeout).await?;
    let server = connection.client.server_info();
    if !server.headers {
        return Err("the server does not support headers".to_owned());
    }
    let streams = streams(&connection, subject.fixed(), timeout).await?;
    let known: Vec<String> = match subject.fixed() {
        Some(_) => streams
            .iter()
            .map(Config::described)
            .collect::<Result<_, _>>()?,
        // Not all of them need to be for events.
        None => streams
            .iter()
            .filter_map(|stream| stream.described().ok())
            .collect(),
    };
    let right = match (known.is_empty(), subject.fixed()) {
        (true, Some(subject)) => {
            return Err(format!("no stream stores subject {subject:?}: add one"));
        }
        (true, None) => {
            return Err("there is no stream yet that would store events: add one".to_owned());
        }
        (false, Some(subject)) if may_publish(&connection, subject, timeout).await? => {
            "this user may publish there"
        }
        (false, _) => "whether this user may publish there shows with the first events",
    };
    Ok(format!(
        "NATS {} at {place}, messages of up to {} bytes with their headers; {}; {right}",
        server.version,
        server.max_payload,
        known.join("; ")
    ))
}

/// Whether this user may publish to the subject, if that can be found out: a message for a stream of another name
/// is refused by the one that is there, and never stored, once the server has let it through.
async fn may_publish(
    connection: &Connection,
    subject: &str,
    timeout: Duration,
) -> Result<bool, String> {
    let mut headers = HeaderMap::new();
    headers.insert(EXPECTED_STREAM, NO_STREAM);
    headers.insert(CHECK, "true");
    let published = connection.publish(subject, headers, Bytes::new(), timeout / 2);
    match published.await {
        Ok(_) => Ok(true),
        Err(Failure::Denied) => Err(format!("this user may not publish to subject {subject:?}")),
        Err(_) => Ok(false),
    }
}

/// The streams that there are (of very many, the first), or the one that stores this subject.
async fn streams(
    connection: &Connection,
    subject: Option<&str>,
    timeout: Duration,
) -> Result<Vec<Config>, String> {
    let question = match subject {
        Some(subject) => serde_json::json!({ "subject": subject }).to_string(),
        None => String::new(),
    };
    let request = Request::new()
        .payload(question.into())
        .timeout(Some(timeout / 2));
    let answer = connection.client.send_request(LIST, request).await;
    let answer = answer.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => "the server has no JetStream: enable it".to_owned(),
        RequestErrorKind::TimedOut => {
            "JetStream did not answer: may this user publish to $JS.API.> and subscribe to _INBOX.>?"
                .to_owned()
        }
        _ => format!("JetStream cannot be asked: {error}"),
    })?;
    match serde_json::from_slice(&answer.payload) {
        Ok(Listed {
            error: Some(Refusal { description }),
            ..
        }) => Err(format!("JetStream cannot be used: {description}")),
        Ok(Listed { streams, .. }) => {
            let streams = streams.unwrap_or_default().into_iter();
            Ok(streams.map(|stream| stream.config).collect())
        }
        Err(_) => Err("JetStream answered in an unknown way".to_owned()),
    }
}

impl Config {
    /// What it stores, and what an acknowledgement of it means; or why it is of no use.
    fn described(&self) -> Result<String, String> {
        let name = &self.name;
        if self.no_ack {
            return Err(format!(
                "stream {name:?} does not acknowledge (no_ack): nothing would ever be delivered"
            ));
        }
        if self.sealed {
            return Err(format!("stream {name:?} is sealed, and takes no messages"));
        }
        let subjects = self.subjects.join(", ");
        let limit = match self.max_msg_size {
            size @ 1.. => format!(", messages of up to {size} bytes"),
            _ => String::new(),
        };
        let window = Duration::from_nanos(self.duplicate_window).as_secs();
        let meaning = self.meaning();
        Ok(format!(
            "stream {name} ({subjects}{limit}) knows duplicates for {window} s: {meaning}"
        ))
    }

    fn meaning(&self) -> String {
        match (&*self.storage, self.num_replicas) {
            ("memory", 0..=1) => {
                "an acknowledged event is in the memory of one server, and lost with it".to_owned()
            }
            ("memory", count) => {
                format!("an acknowledged event is in the memory of most of {count} servers")
            }
            (_, 0..=1) => {
                "an acknowledged event is in a file of one server, on its disk after sync_interval"
                    .to_owned()
            }
            (_, count) => format!(
                "an acknowledged event is in files of most of {count} servers, on their disks \
                 after sync_interval"
            ),
        }
    }
}
