//! Redis streams: each event is one `XADD`, pipelined over a few connections.
//!
//! The reply of the server is what makes an event delivered. How durable it is then depends on how the
//! server is set up (`docs/sinks/redis.md`). One server is meant, not a Redis Cluster.

mod answer;
mod check;
mod link;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use async_trait::async_trait;
use posthaste::Event;

pub use settings::RedisBuilder;

use self::link::{Connection, Connections, Place};
use super::link::Shared;
use super::suspects::Suspects;
use super::{Outcome, Sink};
use crate::envelope::{Binding, Envelope, Sealed};
use crate::template::{Otherwise, Rule, Template};

/// The field that holds the body; no header can have this name.
const PAYLOAD: &str = "payload";

/// Adds events to streams. See [`Redis::builder`].
pub struct Redis {
    place: Place,
    key: Template,
    envelope: Envelope,
    max_length: Option<u64>,
    timeout: Duration,
    /// How many connections.
    number: usize,
    connections: Shared<Connections>,
    suspects: Suspects,
}

/// The key of a stream: any text.
const KEY: Rule = Rule {
    what: "a Redis key",
    allows: |_, c| !c.is_control(),
    otherwise: Otherwise::Reject,
    longest: 8 * 1024,
    whole: |_| Ok(()),
};

impl Redis {
    /// Sets up a server, such as `redis://localhost:6379`, or `rediss://…` for TLS. After the port may come
    /// the number of a database.
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste_relay::sink::SinkError> {
    /// use posthaste_relay::sink::Redis;
    ///
    /// let sink = Redis::builder("redis://localhost:6379")
    ///     .key("events:{topic}")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: impl Into<String>) -> RedisBuilder {
        RedisBuilder::new(url.into())
    }

    /// `XADD key [MAXLEN ~ n] * field value … payload body`
    fn command(&self, key: &str, sealed: &Sealed<'_>) -> Cmd {
        let mut command = Cmd::with_capacity(64, sealed.body.len() + 1024);
        command.arg("XADD").arg(key);
        if let Some(length) = self.max_length {
            command.arg("MAXLEN").arg("~").arg(length);
        }
        command.arg("*");
        for (name, value) in sealed.headers(Binding::Redis) {
            command.arg(&*name).arg(&*value);
        }
        command.arg(PAYLOAD).arg(&sealed.body[..]);
        command
    }

    /// No answer came, nor will one come on this connection.
    fn unanswered(
        &self,
        (connections, one): (&Arc<Connections>, &Connection),
        event: &Event,
        why: String,
    ) -> Outcome {
        // Those that wait on it get to know at once, too.
        one.cut();
        self.connections.forget(connections);
        self.suspects.disconnected(event, why)
    }
}

#[async_trait]
impl Sink for Redis {
    fn system(&self) -> &'static str {
        "redis"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let sealed = match self.envelope.seal(&event) {
            Ok(sealed) => sealed,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let key = match self.key.render(&event, &KEY) {
            Ok(key) => key,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let connect = || Connections::open(&self.place, self.number);
        let connections = match self.connections.get(connect).await {
            Ok(connections) => connections,
            Err(why) => return Outcome::Unavailable(why),
        };
        let connection = connections.of(&event);
        // The server would cut the connection, and with it all other deliveries.
        if sealed.body.len() > connection.longest {
            return Outcome::Reject(format!(
                "the body has {} bytes, and the server takes at most {}",
                sealed.body.len(),
                connection.longest
            ));
        }
        let command = self.command(&key, &sealed);
        match tokio::time::timeout(self.timeout, connection.ask(&command)).await {
            Ok(Ok(Value::ServerError(error))) => {
                self.suspects.cleared(&event);
                let outcome = answer::outcome(&key, &error);
                if answer::is_about_the_connection(error.code(), &outcome) {
                    self.connections.forget(&connections);
                }
                outcome
            }
            Ok(Ok(answer)) => {
                self.suspects.cleared(&event);
                answer::acknowledged(&key, &answer)
            }
            Ok(Err(error)) => {
                let why = format!("the connection broke: {}", answer::told(&error));
                self.unanswered((&connections, connection), &event, why)
            }
            Err(_) => {
                let why = format!("no answer within {:?}", self.timeout);
                self.unanswered((&connections, connection), &event, why)
            }
        }
    }

    async fn check(&self) -> Result<String, String> {
        let look = check::look(&self.place, &self.key);
        match tokio::time::timeout(self.place.connect_timeout + self.timeout, look).await {
            Ok(found) => found,
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({}, {})", self.place, self.key)
    }
}
