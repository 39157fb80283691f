//! What a server means when it closes a channel, and which messages it means. Pure.
//!
//! It names neither message nor confirmation; but its text says enough.

use lapin::ErrorKind;
use lapin::protocol::AMQPErrorKind;

/// What the server calls the exchange whose name is empty.
const DEFAULT_EXCHANGE: &str = "amq.default";
/// How long its text may be, and what stands at the end of one that would be longer.
const LONGEST: usize = 255;
const CUT: &str = "...";

/// Why a channel was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A message of this many bytes is larger than the server takes.
    TooLarge { size: usize, limit: usize },
    /// The exchange is not there, or not for us.
    Exchange(String),
    /// The exchange is for us, but not with every routing key.
    RoutingKey(String),
    /// Something else.
    Other(String),
}

impl Refusal {
    /// None, if it is not the channel that is the trouble, but the connection.
    pub(super) fn of(error: &lapin::Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::ProtocolError(said) if matches!(said.kind(), AMQPErrorKind::Soft(_)) => {
                Some(Self::read(said.get_id(), said.get_message().as_str()))
            }
            _ => None,
        }
    }

    fn read(code: u16, text: &str) -> Self {
        match code {
            403 if text.contains("topic '") => Self::RoutingKey(text.to_owned()),
            403 | 404 => Self::Exchange(text.to_owned()),
            _ => match (number(text, "message size "), number(text, "max size ")) {
                (Some(size), Some(limit)) => Self::TooLarge { size, limit },
                _ => Self::Other(text.to_owned()),
            },
        }
    }

    /// Whether it is about a message of this exchange, routing key and size.
    pub(super) fn means(&self, exchange: &str, routing_key: &str, size: usize) -> bool {
        let exchange = match exchange {
            "" => DEFAULT_EXCHANGE,
            named => named,
        };
        match self {
            Self::TooLarge { size: blamed, .. } => size == *blamed,
            Self::Exchange(text) => names(text, "exchange", exchange),
            Self::RoutingKey(text) => {
                names(text, "exchange", exchange) && names(text, "topic", routing_key)
            }
            Self::Other(_) => false,
        }
    }
}

/// Whether a text says `exchange 'orders'`, as far as it goes: what is longer than the protocol takes is cut.
fn names(text: &str, what: &str, name: &str) -> bool {
    let whole = format!("{what} '{name}'");
    let begins = |cut: &str| match cut.find(&format!("{what} '")) {
        Some(at) => whole.starts_with(&cut[at..]),
        None => true,
    };
    let cut = text.strip_suffix(CUT).filter(|_| text.len() >= LONGEST);
    text.contains(&whole) || cut.is_some_and(begins)
}

/// The number that stands after these words.
fn number(text: &str, words: &str) -> Option<usize> {
    let rest = &text[text.find(words)? + words.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// An error in a few words.
pub(super) fn told(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(said) => {
            format!("the server says {} ({})", said.get_message(), said.get_id())
        }
        ErrorKind::IOError(error) | ErrorKind::RuntimeShutdownError(error) => error.to_string(),
        ErrorKind::MissingHeartbeatError => "the server's heartbeat is missing".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_from_what_the_server_says() {
        let large =
            "PRECONDITION_FAILED - message size 4194305 is larger than configured max size 4194304";
        let large = Refusal::read(406, large);
        let expected = Refusal::TooLarge {
            size: 4_194_305,
            limit: 4_194_304,
        };
        assert_eq!(large, expected);
        assert!(large.means("orders", "a", 4_194_305));
        assert!(!large.means("orders", "a", 4_194_306));

        let gone = Refusal::read(404, "NOT_FOUND - no exchange 'orders' in vhost '/'");
        assert!(gone.means("orders", "a", 1));
        assert!(!gone.means("order", "a", 1));

        let topic = "ACCESS_REFUSED - write access to topic 'a.b' in exchange 'orders' in vhost '/' refused for user 'shop'";
        let topic = Refusal::read(403, topic);
        assert!(matches!(topic, Refusal::RoutingKey(_)));
        assert!(topic.means("orders", "a.b", 1));
        assert!(!topic.means("orders", "a.c", 1));

        let default = "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost 'shop' refused for user 'a'";
        let default = Refusal::read(403, default);
        assert!(default.means("", "a", 1));
        assert!(!default.means("shop", "a", 1) && !default.means("a", "a", 1));

        let long = "k".repeat(250);
        let whole = format!("ACCESS_REFUSED - write access to topic '{long}' in exchange 'orders'");
        let cut = Refusal::read(403, &format!("{}...", &whole[..252]));
        assert!(cut.means("orders", &long, 1));
        assert!(!cut.means("orders", "a.b", 1));

        let other = Refusal::read(406, "PRECONDITION_FAILED - something new");
        assert!(matches!(other, Refusal::Other(_)));
        assert!(!other.means("orders", "a", 1));
    }
}
