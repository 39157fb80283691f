//! The types of sinks. A new one is a variant of [`Sink`] and an entry of [`SINKS`].

use super::keys::Key;
use super::values::Group;

/// A destination, as its type sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sink {
    /// JSON lines on standard output.
    Stdout,
}

/// A type of sinks.
#[derive(Debug)]
pub(crate) struct SinkType {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// Its own keys, besides those that every sink has.
    pub(crate) keys: &'static [Key],
    /// Makes one of what is configured. `None` if something is missing, which was said.
    pub(crate) read: fn(&mut Group<'_>) -> Option<Sink>,
}

pub(crate) const SINKS: &[SinkType] = &[SinkType {
    name: "stdout",
    doc: "One JSON object per line on standard output, for trying things out and for pipes.",
    keys: &[],
    read: |_| Some(Sink::Stdout),
}];

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
