//! What `posthaste.toml` and the environment say, checked and complete.
//!
//! The settings are the library's own types, so that what a relay refuses is written once.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::Table;
use posthaste::store::Ordering;
use posthaste_relay::{Cleaning, Mode, Retry};

/// Everything that is configured.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) sinks: BTreeMap<String, Sink>,
}

/// Where a database is.
#[derive(Clone)]
pub(crate) struct Database {
    /// May hold a password: never shown.
    pub(crate) url: String,
    pub(crate) max_connections: u32,
}

/// One outbox, and how it is relayed.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    pub(crate) table: Table,
    pub(crate) database: Database,
    /// `None`: all.
    pub(crate) namespace: Option<String>,
    pub(crate) ordering: Ordering,
    pub(crate) mode: Mode,
    pub(crate) relay: Relay,
    pub(crate) retry: Retry,
    pub(crate) max_attempts: u32,
    pub(crate) cleaning: Cleaning,
    pub(crate) routes: Vec<Route>,
}

/// How an outbox is relayed.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    pub(crate) enabled: bool,
    pub(crate) batch_size: u32,
    pub(crate) poll_interval: Duration,
    pub(crate) lease: Duration,
    pub(crate) dispatch_timeout: Duration,
    pub(crate) in_flight: usize,
    pub(crate) notify: bool,
}

/// Which events go where. The first match wins.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// A pattern: `*` stands for anything.
    pub(crate) topic: String,
    /// The name of a sink.
    pub(crate) sink: String,
}

/// A destination.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// JSON lines on standard output.
    Stdout,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}
