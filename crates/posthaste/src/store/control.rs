//! Pausing: an outbox, or one of its destinations, is left in peace until somebody resumes it.

use std::fmt;
use std::time::SystemTime;

/// What is paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The whole outbox: its relays claim nothing.
    Outbox,
    /// One destination, by the name that relays know it by: nothing is claimed for it.
    Destination(String),
}

impl Target {
    /// As it is stored: the outbox has no name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Outbox => "",
            Self::Destination(name) => name,
        }
    }

    /// From what is stored.
    pub(super) fn of(name: String) -> Self {
        match name.is_empty() {
            true => Self::Outbox,
            false => Self::Destination(name),
        }
    }

    /// Why, for the audit log, which has no column for destinations.
    pub(super) fn told(&self, why: &str) -> String {
        match self {
            Self::Outbox => why.to_owned(),
            Self::Destination(name) => format!("{why} (destination {name})"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outbox => f.write_str("the outbox"),
            Self::Destination(name) => write!(f, "destination {name}"),
        }
    }
}

/// That something is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// What.
    pub target: Target,
    /// Since when.
    pub at: SystemTime,
    /// Who paused it.
    pub actor: String,
    /// Why.
    pub why: String,
}
