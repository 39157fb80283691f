//! The history of one event: every attempt to deliver it that counted, and how it went.
//!
//! A first attempt that succeeds leaves nothing behind but the event's own row, which tells of it.
//! See docs/decisions/0020-history-costs-the-happy-path-nothing.md.

use std::fmt;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{Settlement, Verdict};
use crate::event::{DeadReason, Record, Status};

/// So many attempts of one event are kept, the newest.
pub const ATTEMPTS_KEPT: usize = 100;

/// One attempt to deliver an event. What was released or postponed was no attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Which attempt it was. Starts over when an event is redelivered.
    pub number: u32,
    /// Which claim it was. Only ever grows: attempts are told in this order.
    pub epoch: i64,
    /// When a relay claimed the event. Not known of a first attempt that succeeded.
    pub claimed_at: Option<SystemTime>,
    /// When it was settled, or found to have crashed. `None`: it is under way.
    pub ended_at: Option<SystemTime>,
    /// How long the destination took, if it was asked and the relay told.
    pub took: Option<Duration>,
    /// What became of it.
    pub ending: Ending,
    /// What went wrong.
    pub error: Option<String>,
    /// The relay's owner id, if it is known.
    pub relay: Option<Uuid>,
    /// The relay's name, if it is known: its machine and process.
    pub relay_name: Option<String>,
    /// The destination, if the relay told.
    pub destination: Option<String>,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// It is under way.
    Running,
    /// The event was delivered.
    Delivered,
    /// It failed.
    Failed,
    /// There was no answer in time.
    TimedOut,
    /// The destination, or the sink, refused the event for good.
    Rejected,
    /// The row could not be read as an event.
    Malformed,
    /// The relay vanished, and its lease passed to another.
    Crashed,
}

impl Ending {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Rejected => "rejected",
            Self::Malformed => "malformed",
            Self::Crashed => "crashed",
        }
    }

    /// Reads the name in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Delivered,
            Self::Failed,
            Self::TimedOut,
            Self::Rejected,
            Self::Malformed,
            Self::Crashed,
        ]
        .into_iter()
        .find(|ending| ending.as_str() == text)
    }

    /// How a settled attempt ended. `None`: it was none.
    pub(super) fn of(settlement: &Settlement) -> Option<Self> {
        let timed_out = settlement
            .tried
            .as_ref()
            .is_some_and(|tried| tried.timed_out);
        match &settlement.verdict {
            Verdict::Delivered { .. } => Some(Self::Delivered),
            Verdict::Retry { .. } if timed_out => Some(Self::TimedOut),
            Verdict::Retry { .. } => Some(Self::Failed),
            Verdict::Dead { reason, .. } => Some(match reason {
                DeadReason::Rejected => Self::Rejected,
                DeadReason::Malformed => Self::Malformed,
                _ if timed_out => Self::TimedOut,
                _ => Self::Failed,
            }),
            Verdict::Release | Verdict::Postpone { .. } => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a relay tried to deliver an event, for the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Where to.
    pub destination: String,
    /// How long it took.
    pub took: Duration,
    /// Whether there was no answer in time.
    pub timed_out: bool,
}

/// The attempts that were written down, and the one that the event's own row tells of.
pub(super) fn complete(record: &Record, mut attempts: Vec<Attempt>) -> Vec<Attempt> {
    let told = attempts
        .last()
        .is_some_and(|last| last.epoch == record.lease_epoch);
    let (ending, claimed_at) = match record.status {
        Status::Processing => (Ending::Running, Some(record.updated_at)),
        Status::Delivered => (Ending::Delivered, None),
        Status::Pending | Status::Dead => return attempts,
    };
    if !told {
        attempts.push(Attempt {
            number: record.attempts,
            epoch: record.lease_epoch,
            claimed_at,
            ended_at: record.delivered_at,
            took: None,
            ending,
            error: None,
            relay: record.lease_owner,
            relay_name: None,
            destination: None,
        });
    }
    attempts
}
