//! The types of sinks, one file each. A new one is a file, and an entry of [`SINKS`].

mod http;
mod rabbitmq;
mod stdout;

use std::sync::Arc;

use posthaste_relay::Envelope;
use posthaste_relay::sink::Sink;

use super::keys::{Default, Key};
use super::kind::Kind;
use super::problem::Problem;
use super::values::Group;

/// A type of sinks.
pub(crate) struct SinkType {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// Its own keys, besides those that every sink has.
    pub(crate) keys: &'static [Key],
    /// Makes one of what is configured; it does not connect yet. `None` if something is missing or
    /// refused, which was said.
    pub(crate) make: fn(&mut Group<'_>) -> Option<Arc<dyn Sink>>,
}

/// In the order of the reference.
pub(crate) const SINKS: &[SinkType] = &[http::TYPE, rabbitmq::TYPE, stdout::TYPE];

/// Their names.
pub(crate) const TYPES: [&str; SINKS.len()] = {
    let mut names = [""; SINKS.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = SINKS[place].name;
        place += 1;
    }
    names
};

impl SinkType {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SINKS.iter().find(|sink| sink.name == name)
    }
}

impl std::fmt::Debug for SinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The envelope, for sinks that have a choice.
const fn envelope_key(default: &'static str, example: &'static str) -> Key {
    Key {
        name: "envelope",
        kind: Kind::Word(&["raw", "cloudevents", "cloudevents-structured"]),
        default: Default::Is(default),
        doc: "In which form events travel: as they are with their fields beside them, or as \
              CloudEvents in binary or structured mode. See docs/envelope.md.",
        example,
    }
}

const SOURCE: Key = Key {
    name: "source",
    kind: Kind::Text,
    default: Default::Is(""),
    doc: "The `source` of CloudEvents, a URI reference. Empty: the outbox's name.",
    example: "https://shop.example/orders",
};

const fn timeout_key(default: &'static str) -> Key {
    Key {
        name: "timeout",
        kind: Kind::Duration,
        default: Default::Is(default),
        doc: "How long an answer may take. Keep it shorter than `dispatch_timeout`.",
        example: "5s",
    }
}

const CONNECT_TIMEOUT: Key = Key {
    name: "connect_timeout",
    kind: Kind::Duration,
    default: Default::Is("5s"),
    doc: "How long it may take to connect, TLS included.",
    example: "2s",
};

const PASSWORD: Key = Key {
    name: "password",
    kind: Kind::Secret,
    default: Default::Unset,
    doc: "The password to log in with.",
    example: "a-password",
};

const PASSWORD_FILE: Key = Key {
    name: "password_file",
    kind: Kind::File("password"),
    default: Default::Unset,
    doc: "A file that holds the password, in place of `password`.",
    example: "/run/secrets/password",
};

const CA_FILE: Key = Key {
    name: "ca_file",
    kind: Kind::Text,
    default: Default::Is(""),
    doc: "A certificate authority (PEM) to trust, besides those that the system trusts.",
    example: "/etc/ssl/shop-ca.pem",
};

const CLIENT_CERTIFICATE_FILE: Key = Key {
    name: "client_certificate_file",
    kind: Kind::Text,
    default: Default::Is(""),
    doc: "A certificate (PEM) to show to the server.",
    example: "/etc/ssl/relay.pem",
};

const CLIENT_KEY_FILE: Key = Key {
    name: "client_key_file",
    kind: Kind::Text,
    default: Default::Is(""),
    doc: "The key of that certificate (PEM).",
    example: "/etc/ssl/relay.key",
};

/// What the file holds that a key names, if it names one. `None`: it cannot be read, which was said.
fn pem(keys: &mut Group<'_>, name: &str) -> Option<Option<Vec<u8>>> {
    let Some(file) = keys.some_text(name) else {
        return Some(None);
    };
    match std::fs::read(keys.values.folder.join(&file)) {
        Ok(pem) => Some(Some(pem)),
        Err(error) => refuse(keys, name, &format!("{file:?} cannot be read: {error}")),
    }
}

/// Reads what [`CLIENT_CERTIFICATE_FILE`] and [`CLIENT_KEY_FILE`] name.
fn client_certificate(keys: &mut Group<'_>) -> Option<Option<(Vec<u8>, Vec<u8>)>> {
    let (certificate, key) = ("client_certificate_file", "client_key_file");
    match (pem(keys, certificate)?, pem(keys, key)?) {
        (Some(certificate), Some(key)) => Some(Some((certificate, key))),
        (None, None) => Some(None),
        (Some(_), None) => refuse(keys, certificate, "a certificate needs its key"),
        (None, Some(_)) => refuse(keys, key, "a key needs its certificate"),
    }
}

/// Reads what [`envelope_key`] and [`SOURCE`] hold.
fn envelope(keys: &mut Group<'_>) -> Option<Envelope> {
    let envelope: Envelope = keys.text("envelope")?.parse().ok()?;
    match keys.some_text("source") {
        None => Some(envelope),
        Some(source) => match envelope.source(source) {
            Ok(envelope) => Some(envelope),
            Err(error) => refuse(keys, "source", &error.to_string()),
        },
    }
}

/// Says what is wrong with a key, or with the whole sink.
fn refuse<T>(keys: &mut Group<'_>, key: &str, why: &str) -> Option<T> {
    let path = match key {
        "" => keys.path.clone(),
        key => keys.at(key),
    };
    let place = match key {
        "" => keys.values.table(&path).cloned(),
        _ => Some(keys.values.place(&path)),
    };
    let place = place.unwrap_or(super::Place::Nowhere);
    let problem = Problem::error(place, path, why, "see docs/configuration.md");
    keys.values.problems.push(problem);
    None
}
