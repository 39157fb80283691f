//! What a claim asks for, and what it gives.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use crate::event::{DeadReason, Event, Lease};

/// What to claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// At most this many events.
    pub limit: u32,
    /// And no more once they have this many bytes of payload together, about: at least one, and none more than needed
    /// to get there.
    pub bytes: u64,
    /// For how long.
    pub lease: Duration,
    /// What has had this many attempts is dead.
    pub max_attempts: u32,
    /// Which events.
    pub scope: Scope,
    /// Topics to leave alone for now, as their destination takes nothing.
    pub except_topics: Vec<String>,
    /// In which order.
    pub ordering: Ordering,
    /// With ordering by key, only events of these keys, from the first one of each on: what to ask for once others of
    /// these keys were settled. They are found without a look at any other, wherever they are. A store may take of each
    /// key only its share of the limit. Empty: all.
    pub keys: Vec<String>,
    /// Under which topic what dies of this claim gets a letter, see [`Verdict::Dead`](super::Verdict::Dead).
    pub dead_letters: Option<String>,
    /// Where to look, unless it is for some keys.
    pub reach: Reach,
}

impl Claim {
    /// A claim of at most this many events, with the defaults: any size, 60 s, 25 attempts, any event, no order.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            bytes: u64::MAX,
            lease: Duration::from_secs(60),
            max_attempts: 25,
            scope: Scope::default(),
            except_topics: Vec::new(),
            ordering: Ordering::None,
            keys: Vec::new(),
            dead_letters: None,
            reach: Reach::Oldest,
        }
    }
}

/// Where a claim looks for due events.
///
/// Looking from the very start passes everything that was recently delivered and not yet
/// vacuumed; a relay does that every so often, and in between goes on from where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// From the oldest on: finds whatever is due, expired leases included.
    Oldest,
    /// From where this store's last claim ended: may miss what was committed late or came back.
    Onward,
    /// From the latest that this store has seen: finds what was enqueued since, even while a long
    /// line of events waits for the ones before them in their keys.
    Latest,
    /// From the oldest on, for some of what other claims are about: where those go on from stays as it was. Where
    /// it went past events that wait in their keys, and got none, the next one goes on.
    Aside,
}

/// Which events a relay or a filter is about. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only these topics.
    pub topics: Vec<String>,
    /// Only this tenant.
    pub tenant_id: Option<Uuid>,
}

/// In which order events are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// Oldest first, many at once.
    #[default]
    None,
    /// Besides that, events of one key strictly in sequence.
    Key(OnFailure),
}

/// What becomes of a key when one of its events is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Its later events wait until an operator redelivers or discards the dead one.
    #[default]
    Block,
    /// Its later events become dead too (`parked`), to be redelivered together.
    Park,
    /// Its later events go on without it.
    Skip,
}

/// What a claim got.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Leased, in the order in which to deliver them.
    pub events: Vec<Event>,
    /// Leased, but not readable as events: to be settled as [`DeadReason::Malformed`].
    pub malformed: Vec<Malformed>,
    /// Leased, but behind a malformed event of their key: to be settled as
    /// [`Verdict::Release`](super::Verdict::Release).
    pub held_back: Vec<Lease>,
    /// Found without an attempt left, or parked, and now dead.
    pub died: Vec<Died>,
    /// Whether there may be more that is due now.
    pub more: bool,
    /// Keys of which it passed events that are due and wait for others, which are leased.
    pub waiting: Vec<String>,
}

/// A row that is leased, and no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The right to say that it is dead.
    pub lease: Lease,
    /// What it is once it is dead, as far as it can be read.
    pub died: Died,
    /// What is wrong with it.
    pub error: String,
}

/// A dead event, as a relay tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Died {
    /// Which one.
    pub id: Uuid,
    /// Its place in the outbox.
    pub sequence: i64,
    /// Its topic.
    pub topic: String,
    /// Its tenant.
    pub tenant_id: Option<Uuid>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it is dead.
    pub reason: DeadReason,
}

impl Claimed {
    /// How many leases it got.
    pub fn leases(&self) -> usize {
        self.events.len() + self.malformed.len() + self.held_back.len()
    }

    /// Sets apart what comes after the first malformed event of its key: it must not overtake.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn hold_back(&mut self, malformed: &HashMap<&str, i64>) {
        let held_back = &mut self.held_back;
        self.events.retain(|event| {
            let key = event.ordering_key.as_deref();
            let behind = key
                .and_then(|key| malformed.get(key))
                .is_some_and(|first| *first < event.sequence);
            if behind {
                held_back.push(event.lease);
            }
            !behind
        });
    }
}
