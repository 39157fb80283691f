//! NATS JetStream: each event is one message, acknowledged by the stream that stores it.
//!
//! Many are on their way at the same time, each waits for its own acknowledgement. The client of NATS would
//! reconnect and send again by itself; here a connection that broke is the end of all that waits on it, and
//! the relay decides what is sent again. What arrives twice is dropped by the stream, which knows the ids.

mod answer;
mod check;
mod link;
mod settings;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use async_trait::async_trait;
use posthaste::Event;

pub use settings::NatsBuilder;

use self::answer::Said;
use self::link::{Connection, Failure, Place};
use super::link::Shared;
use super::suspects::Suspects;
use super::{Outcome, Sink};
use crate::envelope::{Binding, Envelope, Sealed};
use crate::template::{Field, Otherwise, Rule, Template};

/// By this the stream knows an event that it has already.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Publishes events to JetStream. See [`Nats::builder`].
pub struct Nats {
    place: Place,
    subject: Template,
    envelope: Envelope,
    timeout: Duration,
    connection: Shared<Connection>,
    suspects: Suspects,
}

/// A subject: tokens between dots. Only a topic has dots of its own; other fields stay one token. Nor can a
/// field name what belongs to the server (`$JS…`) or match many subjects.
const SUBJECT: Rule = Rule {
    what: "a NATS subject",
    allows: |field, c| match (field, c) {
        (_, '*' | '>') => false,
        (Some(Field::Topic) | None, '.') => true,
        (Some(_), '.' | '$') => false,
        _ => !c.is_whitespace() && !c.is_control(),
    },
    otherwise: Otherwise::Escape,
    // With the rest of its line it has to fit into the 4096 bytes that a server takes.
    longest: 2048,
    whole: |subject| match subject {
        _ if subject.split('.').any(str::is_empty) => Err("it has an empty token"),
        _ if subject.starts_with("_INBOX.") => Err("it is where answers go"),
        _ => Ok(()),
    },
};

impl Nats {
    /// Sets up a server, such as `nats://localhost:4222`, or `tls://…` for TLS. Further servers of a
    /// cluster come with [`NatsBuilder::server`].
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste_relay::sink::SinkError> {
    /// use posthaste_relay::sink::Nats;
    ///
    /// let sink = Nats::builder("nats://localhost:4222")
    ///     .subject("events.{topic}")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(server: impl Into<String>) -> NatsBuilder {
        NatsBuilder::new(server.into())
    }

    fn headers(event: &Event, sealed: &Sealed<'_>) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, event.id.to_string());
        for (name, value) in sealed.headers(Binding::Nats) {
            let refuse = || format!("header {name:?} cannot be carried");
            let key = HeaderName::from_str(&name).map_err(|_| refuse())?;
            let value = HeaderValue::from_str(&value).map_err(|_| refuse())?;
            headers.insert(key, value);
        }
        Ok(headers)
    }

    /// What it means that no stream acknowledged an event: there is none for its subject, or one that cannot
    /// right now, as while a cluster elects a leader and while a server shuts down. Or the event was denied, and
    /// the client dropped that.
    async fn unstored(
        &self,
        connection: &Connection,
        event: &Event,
        subject: &str,
        failure: &Failure,
    ) -> Outcome {
        let nobody_listens = matches!(failure, Failure::NoStream);
        let why = match nobody_listens {
            true => format!("no stream takes subject {subject:?} now: has it a leader?"),
            false => format!(
                "no acknowledgement within {:?}, though the server answers: \
                 does a stream store subject {subject:?}, and acknowledge?",
                self.timeout
            ),
        };
        match connection.streams_for(subject, self.timeout / 2).await {
            Ok(names) if names.is_empty() => Outcome::Retry(format!(
                "no stream stores subject {subject:?}: add one, or add the subject to one"
            )),
            Ok(_) if nobody_listens => Outcome::Unavailable(why),
            // JetStream is well, so most likely it is one of the many denials.
            Ok(_) | Err(Failure::Denied) if matches!(failure, Failure::Unheard) => denied(subject),
            // A stream may be set up not to acknowledge; and not every user may ask.
            Ok(_) | Err(Failure::Denied) => self.suspects.disconnected(event, why),
            Err(_) => Outcome::Unavailable(format!("{why} JetStream does not answer")),
        }
    }
}

fn denied(subject: &str) -> Outcome {
    Outcome::Retry(format!("this user may not publish to subject {subject:?}"))
}

#[async_trait]
impl Sink for Nats {
    fn system(&self) -> &'static str {
        "nats"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let sealed = match self.envelope.seal(&event) {
            Ok(sealed) => sealed,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let subject = match self.subject.render(&event, &SUBJECT) {
            Ok(subject) => subject,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let headers = match Self::headers(&event, &sealed) {
            Ok(headers) => headers,
            Err(why) => return Outcome::Reject(why),
        };
        let connect = || Connection::open(&self.place, self.timeout);
        let connection = match self.connection.get(connect).await {
            Ok(connection) => connection,
            Err(why) => return Outcome::Unavailable(why),
        };
        let published = connection.publish(&subject, headers, sealed.body.clone(), self.timeout);
        match published.await {
            Ok(answer) => match answer::read(&subject, &answer) {
                Said::This(outcome) => {
                    self.suspects.cleared(&event);
                    outcome
                }
                Said::UnderWay(why) => self.suspects.disconnected(&event, why),
            },
            Err(Failure::Broken(why)) => {
                self.connection.forget(&connection);
                self.suspects.disconnected(&event, why)
            }
            Err(Failure::TooLarge(why)) => Outcome::Reject(why),
            Err(Failure::Denied) => denied(&subject),
            Err(failure @ (Failure::NoStream | Failure::Unacknowledged | Failure::Unheard)) => {
                self.unstored(&connection, &event, &subject, &failure).await
            }
        }
    }

    async fn check(&self) -> Result<String, String> {
        let look = check::look(&self.place, &self.subject, self.timeout);
        match tokio::time::timeout(self.place.connect_timeout + self.timeout, look).await {
            Ok(found) => found,
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }
}

impl std::fmt::Debug for Nats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nats({}, {})", self.place, self.subject)
    }
}
