//! A relay as others of its process see it: what it has in hand, and how its destinations are.

use std::sync::atomic::Ordering as Memory;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::circuit::Admission;
use crate::destination::Destination;
use crate::relay::Engine;
use crate::tally::Deliveries;

/// Looks at a relay while it works, and does not keep it from ending.
#[derive(Clone)]
pub struct View(Weak<Engine>);

/// How a relay stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Standing {
    /// Events that it has claimed and not settled.
    pub in_flight: usize,
    /// As many as it may have.
    pub in_flight_limit: usize,
    /// The bytes of their payloads.
    pub in_flight_bytes: usize,
    /// Whether it is the active one. Of relays that share the work each is.
    pub leads: bool,
    /// Events that died in its hands.
    pub died: u64,
    /// Where it delivers to.
    pub destinations: Vec<DestinationStanding>,
}

/// How a destination stands, as one relay sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DestinationStanding {
    /// Its name.
    pub name: String,
    /// Whether it takes events.
    pub circuit: CircuitState,
    /// Events in hand for it.
    pub in_flight: usize,
    /// The topics that go there, as far as they were seen.
    pub topics: Vec<String>,
    /// Its present outage.
    pub outage: Option<Outage>,
    /// What became of deliveries so far.
    pub deliveries: Deliveries,
}

/// Whether a destination takes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// It does.
    Closed,
    /// It is held to be down, and is tried again after this long.
    Open(Duration),
    /// It is back, or being tried, and gets this many at the same time.
    Ramping(usize),
}

impl CircuitState {
    /// Its name: `closed`, `open` or `ramping`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open(_) => "open",
            Self::Ramping(_) => "ramping",
        }
    }
}

/// Since when, and why, a destination is held to be down.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outage {
    /// Since when.
    pub since: Instant,
    /// What it last said, without secrets.
    pub why: String,
}

impl Outage {
    pub(crate) fn new(since: Instant, why: String) -> Self {
        Self { since, why }
    }
}

impl View {
    pub(crate) fn of(engine: &Arc<Engine>) -> Self {
        Self(Arc::downgrade(engine))
    }

    /// How the relay stands. `None`: it is gone.
    pub fn look(&self) -> Option<Standing> {
        let engine = self.0.upgrade()?;
        let (in_flight, in_flight_bytes) = engine.hand.load();
        Some(Standing {
            in_flight,
            in_flight_limit: engine.settings.in_flight,
            in_flight_bytes,
            leads: engine.leading.load(Memory::Relaxed),
            died: engine.observer.deaths(),
            destinations: engine.destinations.iter().map(standing).collect(),
        })
    }
}

fn standing(destination: &Destination) -> DestinationStanding {
    let now = Instant::now();
    let mut topics = destination.topics();
    topics.sort();
    DestinationStanding {
        name: destination.name.clone(),
        // Whatever an operator says: a pause is no outage.
        circuit: match destination.circuit().admission(now) {
            Admission::Freely => CircuitState::Closed,
            Admission::AtMost(window) => CircuitState::Ramping(window),
            Admission::Nothing(until) => CircuitState::Open(until - now),
        },
        in_flight: destination.in_hand(),
        topics,
        outage: destination.outage(),
        deliveries: destination.tally.read(),
    }
}
