//! A connection to a server, and what is published on it.

use std::collections::HashMap;
use std::fmt;
use std::str::Chars;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, Request, RequestError,
    RequestErrorKind, ServerAddr,
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::watch;

use crate::sink::link::Link;

/// A server that does not answer to this many pings in a row is gone (see `MAX_PENDING_PINGS` of the
/// client: the third is one too many). So it is noticed before a delivery's time is over.
const PINGS_WITHIN_TIMEOUT: u32 = 4;

/// The client remembers who waits for an answer for as long as the connection lasts. So a connection on which
/// this many answers never came is let go.
const MOST_UNANSWERED: usize = 10_000;

/// How many denied subjects are remembered: whoever waits for one looks at once.
const REMEMBERED: usize = 1024;

/// The client keeps 128 things that the server said until they are looked at, and drops what is beyond. All but a few of
/// them may be denials.
const KEPT: u64 = 120;

/// Which streams there are for a subject.
const NAMES: &str = "$JS.API.STREAM.NAMES";

/// What JetStream answers to that.
#[derive(Deserialize)]
struct Named {
    streams: Option<Vec<String>>,
    /// Such as that the cluster has no leader.
    error: Option<serde_json::Value>,
}

/// Where servers are, and how to get in.
pub(super) struct Place {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) login: Login,
    pub(super) tls: rustls::ClientConfig,
    pub(super) connect_timeout: Duration,
}

/// Who we are.
#[derive(Clone)]
pub(super) enum Login {
    Nobody,
    User {
        name: String,
        password: String,
    },
    Token(String),
    NKey(String),
    /// The contents of a credentials file.
    Credentials(String),
}

impl Login {
    pub(super) fn apply(&self, options: ConnectOptions) -> Result<ConnectOptions, String> {
        Ok(match self.clone() {
            Self::Nobody => options,
            Self::User { name, password } => options.user_and_password(name, password),
            Self::Token(token) => options.token(token),
            Self::NKey(seed) => options.nkey(seed),
            Self::Credentials(text) => options
                .credentials(&text)
                .map_err(|_| "the credentials cannot be read".to_owned())?,
        })
    }
}

/// What a connection was told by its server, or by its end.
#[derive(Default)]
struct Trouble {
    is_broken: bool,
    /// How often a publication was denied, and which denial was the last of a subject: several are told at once.
    denials: u64,
    denied: HashMap<String, u64>,
}

/// A connection that many use at the same time.
pub(super) struct Connection {
    pub(super) client: Client,
    trouble: watch::Receiver<Trouble>,
    unanswered: AtomicUsize,
}

/// Why a publication was not answered.
pub(super) enum Failure {
    /// The connection broke.
    Broken(String),
    /// It is larger than the server takes.
    TooLarge(String),
    /// Nobody listens on the subject.
    NoStream,
    /// The server does not let this user publish there.
    Denied,
    /// The connection works, and yet no acknowledgement came.
    Unacknowledged,
    /// Nor among so many denials that one of this publication may have been dropped by the client.
    Unheard,
}

impl Connection {
    pub(super) async fn open(place: &Place, timeout: Duration) -> Result<Self, String> {
        let (tell, trouble) = watch::channel(Trouble::default());
        let tell = Arc::new(tell);
        let options = ConnectOptions::new()
            .name("posthaste")
            .connection_timeout(place.connect_timeout)
            .ping_interval(timeout / PINGS_WITHIN_TIMEOUT)
            .tls_client_config(place.tls.clone())
            // Our rule for subjects is stricter.
            .skip_subject_validation(true)
            // Each server once, and then it is over: a new delivery makes a new connection.
            .ignore_discovered_servers()
            .max_reconnects(place.servers.len())
            .event_callback(move |event| {
                note(&tell, event);
                std::future::ready(())
            });
        let options = place.login.apply(options)?;
        // Each server has its own timeout; this one is for all together.
        let patience = place.connect_timeout * u32::try_from(place.servers.len()).unwrap_or(1) * 2;
        let opened = tokio::time::timeout(patience, options.connect(&place.servers[..])).await;
        let why = match opened {
            Ok(Ok(client)) => {
                return Ok(Self {
                    client,
                    trouble,
                    unanswered: AtomicUsize::new(0),
                });
            }
            Ok(Err(error)) => match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    "the server refused the credentials".to_owned()
                }
                _ => error.to_string(),
            },
            Err(_) => format!("no answer within {patience:?}"),
        };
        Err(format!("cannot connect to {place}: {why}"))
    }

    /// Publishes a message, and waits for what is answered to it.
    pub(super) async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, Failure> {
        let mut trouble = self.trouble.clone();
        let denials = trouble.borrow().denials;
        let concerns = |trouble: &Trouble| {
            trouble.is_broken
                || trouble
                    .denied
                    .get(subject)
                    .is_some_and(|last| *last > denials)
        };
        let request = Request::new().headers(headers).payload(body).timeout(None);
        // Also if this is given up half-way.
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            answer = self.client.send_request(subject.to_owned(), request) => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
                answer
                    .map(|message| message.payload)
                    .map_err(|error| self.failure(&error))
            },
            told = trouble.wait_for(concerns) => Err(match told {
                Ok(trouble) if !trouble.is_broken => Failure::Denied,
                _ => Failure::Broken("the connection broke".to_owned()),
            }),
            () = tokio::time::sleep(timeout) => Err(match self.trouble.borrow().denials - denials {
                // Among many denials the client may have dropped the news of its end.
                KEPT.. if self.client.connection_state() != State::Connected => {
                    Failure::Broken("the connection broke".to_owned())
                }
                KEPT.. => Failure::Unheard,
                _ => Failure::Unacknowledged,
            }),
        }
    }

    /// The names of the streams that are for a subject, whether they can take anything now or not.
    pub(super) async fn streams_for(
        &self,
        subject: &str,
        timeout: Duration,
    ) -> Result<Vec<String>, Failure> {
        let question = serde_json::json!({ "subject": subject }).to_string();
        let asked = self.publish(NAMES, HeaderMap::new(), question.into(), timeout);
        match serde_json::from_slice(&asked.await?) {
            Ok(Named {
                streams,
                error: None,
            }) => Ok(streams.unwrap_or_default()),
            _ => Err(Failure::Unacknowledged),
        }
    }

    fn failure(&self, error: &RequestError) -> Failure {
        match error.kind() {
            RequestErrorKind::NoResponders => Failure::NoStream,
            RequestErrorKind::MaxPayloadExceeded => Failure::TooLarge(format!(
                "with its headers it is larger than the {} bytes that the server takes",
                self.client.max_payload()
            )),
            _ => Failure::Broken(format!("the connection broke: {error}")),
        }
    }
}

impl Link for Connection {
    fn is_alive(&self) -> bool {
        !self.trouble.borrow().is_broken
            && self.client.connection_state() == State::Connected
            && self.unanswered.load(Ordering::Relaxed) < MOST_UNANSWERED
    }
}

fn note(tell: &watch::Sender<Trouble>, event: Event) {
    match event {
        Event::Disconnected | Event::Closed => {
            tell.send_modify(|trouble| trouble.is_broken = true);
        }
        Event::ServerError(error) => {
            if let Some(subject) = denied(&error.to_string()) {
                tell.send_modify(|trouble| {
                    if trouble.denied.len() >= REMEMBERED {
                        trouble.denied.clear();
                    }
                    trouble.denials += 1;
                    trouble.denied.insert(subject, trouble.denials);
                });
            }
        }
        _ => {}
    }
}

/// The subject that may not be published to, if that is what the server says: `… for Publish to "orders"`,
/// written as strings are in Go.
fn denied(said: &str) -> Option<String> {
    let (what, quoted) = said.split_once('"')?;
    if !what
        .to_ascii_lowercase()
        .contains("permissions violation for publish")
    {
        return None;
    }
    let (mut subject, mut rest) = (String::new(), quoted.rsplit_once('"')?.0.chars());
    while let Some(c) = rest.next() {
        subject.push(match c {
            '\\' => unescaped(&mut rest)?,
            itself => itself,
        });
    }
    Some(subject)
}

/// The character that stands behind a `\`.
fn unescaped(rest: &mut Chars<'_>) -> Option<char> {
    let digits = match rest.next()? {
        'u' => 4,
        'U' => 8,
        itself => return Some(itself),
    };
    let number: String = rest.take(digits).collect();
    char::from_u32(u32::from_str_radix(&number, 16).ok()?)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, server) in self.servers.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}:{}", server.host(), server.port())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_subject_is_read_from_what_the_server_says() {
        for (quoted, subject) in [
            (r#""shop.orders""#, "shop.orders"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            (r#""é.\u200b\U000f0000""#, "é.\u{200b}\u{f0000}"),
        ] {
            let said = format!("nats: Permissions Violation for Publish to {quoted}");
            assert_eq!(denied(&said).as_deref(), Some(subject));
        }
        for other in [
            "nats: Permissions Violation for Subscription to \"a\"",
            "nats: Permissions Violation for Publish",
            "nats: maximum payload violation",
        ] {
            assert_eq!(denied(other), None, "{other}");
        }
    }
}
