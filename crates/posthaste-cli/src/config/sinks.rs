//! The types of sinks, one file each. A new one is a file, and an entry of [`SINKS`].

mod http;
mod kafka;
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
pub(crate) const SINKS: &[SinkType] = &[http::TYPE, kafka::TYPE, stdout::TYPE];

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
