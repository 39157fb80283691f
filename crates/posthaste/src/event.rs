//! What is stored: an event, its state, and the lease that a relay holds on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use uuid::Uuid;

use crate::message::TraceContext;
use crate::table::Table;

/// Where an event stands. See the state machine in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// Waits until it is due and a relay claims it.
    Pending,
    /// Leased by a relay, which is delivering it.
    Processing,
    /// Delivered: final.
    Delivered,
    /// Given up, with a reason. Only an operator brings it back.
    Dead,
}

impl Status {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// Reads the name in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Processing, Self::Delivered, Self::Dead]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an event is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// Every attempt failed.
    Exhausted,
    /// The destination, or the sink, refused it for good.
    Rejected,
    /// The relay vanished during its last attempt.
    Crashed,
    /// The row cannot be read as an event.
    Malformed,
    /// It comes after a dead event of its ordering key (`on_failure = park`).
    Parked,
    /// An operator gave it up.
    Discarded,
}

impl DeadReason {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Rejected => "rejected",
            Self::Crashed => "crashed",
            Self::Malformed => "malformed",
            Self::Parked => "parked",
            Self::Discarded => "discarded",
        }
    }

    /// Reads the name in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Exhausted,
            Self::Rejected,
            Self::Crashed,
            Self::Malformed,
            Self::Parked,
            Self::Discarded,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == text)
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The right to settle one event: whoever quotes an older epoch, or another owner, changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The event.
    pub id: Uuid,
    /// The relay that claimed it.
    pub owner: Uuid,
    /// Which claim it was. Only ever grows.
    pub epoch: i64,
}

/// An event as a relay claimed it and a sink receives it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The outbox that it comes from.
    pub table: Arc<Table>,
    /// The consumers' idempotency key.
    pub id: Uuid,
    /// The place in the outbox. Grows, with gaps.
    pub sequence: i64,
    /// The namespace, empty by default.
    pub namespace: String,
    /// The topic.
    pub topic: String,
    /// The tenant.
    pub tenant_id: Option<Uuid>,
    /// The type of the aggregate.
    pub aggregate_type: Option<String>,
    /// The id of the aggregate.
    pub aggregate_id: Option<String>,
    /// The type of the event.
    pub event_type: Option<String>,
    /// Events of one key are delivered in sequence.
    pub ordering_key: Option<String>,
    /// The producer's own idempotency key.
    pub dedupe_key: Option<String>,
    /// Headers, as the producer set them.
    pub headers: BTreeMap<String, String>,
    /// What the payload is.
    pub content_type: String,
    /// The payload, untouched.
    pub payload: Bytes,
    /// The trace context at enqueue.
    pub trace: Option<TraceContext>,
    /// Delivery attempts, this one included.
    pub attempts: u32,
    /// When it was enqueued, by the database's clock.
    pub created_at: SystemTime,
    /// How old it was when it was claimed, by the database's clock.
    pub age: Duration,
    /// The lease under which it is being delivered.
    pub lease: Lease,
}

/// An event as an operator sees it: its state, without its payload.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// The event's id.
    pub id: Uuid,
    /// The place in the outbox.
    pub sequence: i64,
    /// The namespace.
    pub namespace: String,
    /// The topic.
    pub topic: String,
    /// The tenant.
    pub tenant_id: Option<Uuid>,
    /// The type of the aggregate.
    pub aggregate_type: Option<String>,
    /// The id of the aggregate.
    pub aggregate_id: Option<String>,
    /// The type of the event.
    pub event_type: Option<String>,
    /// The ordering key.
    pub ordering_key: Option<String>,
    /// The producer's own idempotency key.
    pub dedupe_key: Option<String>,
    /// What the payload is.
    pub content_type: String,
    /// The W3C trace context at enqueue.
    pub traceparent: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Delivery attempts so far.
    pub attempts: u32,
    /// When it may next be claimed, if it is live.
    pub next_attempt_at: SystemTime,
    /// Who holds it.
    pub lease_owner: Option<Uuid>,
    /// Until when.
    pub lease_until: Option<SystemTime>,
    /// How often it was claimed.
    pub lease_epoch: i64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Why it is dead.
    pub dead_reason: Option<DeadReason>,
    /// When it was enqueued.
    pub created_at: SystemTime,
    /// When it last changed.
    pub updated_at: SystemTime,
    /// When it was delivered.
    pub delivered_at: Option<SystemTime>,
    /// When it died.
    pub dead_at: Option<SystemTime>,
}
