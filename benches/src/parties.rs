//! Who takes part when events travel: the database, the destination's server and the relay, as processes of this
//! machine, and what each of them uses of its processors.

use std::collections::BTreeMap;
use std::ops::{Add, Div, Sub};
use std::{fs, process};

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::Result;

/// So many are a second: the same on every Linux that we know of.
const TICKS: f64 = 100.0;

/// By the process that all others of a party come from. The destination's server was started by this process.
#[derive(Clone, Copy)]
pub(crate) struct Parties {
    database: u32,
    relay: u32,
}

/// The processes of each party.
pub(crate) struct Processes {
    pub(crate) database: Vec<u32>,
    pub(crate) destination: Vec<u32>,
    pub(crate) relay: Vec<u32>,
}

/// Seconds of a processor.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    database: f64,
    destination: f64,
    relay: f64,
}

impl Parties {
    /// The server behind the connection, what this process has started, and this process.
    pub(crate) async fn find(client: &Client) -> Result<Self> {
        let backend: i32 = client
            .query_one("select pg_backend_pid()", &[])
            .await?
            .get(0);
        let backend = backend.unsigned_abs();
        let server = parents()?.remove(&backend).filter(|_| is_postgres(backend));
        Ok(Self {
            database: server.ok_or("PostgreSQL is not on this machine")?,
            relay: process::id(),
        })
    }

    pub(crate) fn processes(self) -> Result<Processes> {
        let parents = parents()?;
        let mut destination = family(&parents, self.relay);
        let relay = vec![destination.remove(0)];
        // It may have been started by this one, too.
        let database = family(&parents, self.database);
        destination.retain(|pid| !database.contains(pid));
        Ok(Processes {
            database,
            destination,
            relay,
        })
    }

    /// What each has used up to now.
    pub(crate) fn used(self) -> Result<Used> {
        let all = self.processes()?;
        let of = |pids: &[u32]| pids.iter().map(|pid| used(*pid, false)).sum::<f64>();
        Ok(Used {
            // With its backends that have ended.
            database: of(&all.database) + used(self.database, true),
            destination: of(&all.destination),
            relay: of(&all.relay),
        })
    }
}

impl Used {
    fn with(self, other: Self, what: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            database: what(self.database, other.database),
            destination: what(self.destination, other.destination),
            relay: what(self.relay, other.relay),
        }
    }

    /// All three together.
    pub(crate) fn all(self) -> f64 {
        self.database + self.destination + self.relay
    }

    /// In microseconds.
    pub(crate) fn micros(self) -> Value {
        let micros = |seconds: f64| (seconds * 1e7).round() / 10.0;
        json!({
            "database": micros(self.database),
            "destination": micros(self.destination),
            "relay": micros(self.relay),
        })
    }
}

impl Add for Used {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        self.with(more, |one, more| one + more)
    }
}

impl Sub for Used {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.with(before, |now, before| now - before)
    }
}

impl Div<f64> for Used {
    type Output = Self;

    fn div(self, events: f64) -> Self {
        self.with(self, |one, _| one / events)
    }
}

/// The time of a process, or of those that it had started and that are gone. One that is gone has none.
fn used(pid: u32, is_of_gone: bool) -> f64 {
    let fields = stat(pid);
    let first = if is_of_gone { 13 } else { 11 };
    let ticks = fields.iter().skip(first).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// Whether the number that a server tells is that of a process here, and not elsewhere.
fn is_postgres(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres")
}

/// What the system tells of a process after its name, which may have anything in it.
fn stat(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').map(str::to_owned).collect()
}

/// The parent of each process.
fn parents() -> Result<BTreeMap<u32, u32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(Ok(parent)) = stat(pid).get(1).map(|parent| parent.parse()) {
            parents.insert(pid, parent);
        }
    }
    Ok(parents)
}

/// A process and all that come from it.
fn family(parents: &BTreeMap<u32, u32>, first: u32) -> Vec<u32> {
    let mut family = vec![first];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, p)| **p == parent)
                .map(|(pid, _)| pid),
        );
        next += 1;
    }
    family
}
