//! How leases end, and what that changed.

use std::time::Duration;

use super::history::Tried;
use crate::event::{DeadReason, Lease};

/// How one lease ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The lease.
    pub lease: Lease,
    /// What became of the event.
    pub verdict: Verdict,
    /// How delivery was tried, if it was: for the history.
    pub tried: Option<Tried>,
}

impl Settlement {
    /// The end of a lease, of which the history tells no more than the verdict.
    pub fn new(lease: Lease, verdict: Verdict) -> Self {
        Self {
            lease,
            verdict,
            tried: None,
        }
    }

    /// Whether the history tells of it, beyond what the event's row does: of all that was an attempt and
    /// is no first one that succeeded. An event that was claimed only once has no history to go on.
    pub(super) fn is_for_history(&self) -> bool {
        match self.verdict {
            Verdict::Delivered { keep } => keep && self.lease.epoch > 1,
            Verdict::Retry { .. } | Verdict::Dead { .. } => true,
            Verdict::Release | Verdict::Postpone { .. } => false,
        }
    }
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Delivered. With `keep = false` it is deleted in the same statement.
    Delivered {
        /// Whether to keep it, for the cleaner to remove after its retention.
        keep: bool,
    },
    /// Pending again, due after the delay.
    Retry {
        /// How long to wait.
        delay: Duration,
        /// What went wrong.
        error: String,
    },
    /// Dead.
    Dead {
        /// Why.
        reason: DeadReason,
        /// What went wrong.
        error: String,
        /// The topic under which a copy of it is enqueued, in the same transaction: the dead letter,
        /// whose headers tell of the death (see [`crate::header`]). A letter gets no letter.
        letter: Option<String>,
    },
    /// Pending again, due at once, with its attempt given back: it was never tried.
    Release,
    /// The same, but due after the delay: its destination does not take it now.
    Postpone {
        /// How long to wait.
        delay: Duration,
    },
}

impl Verdict {
    /// What went wrong, if anything did.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Retry { error, .. } | Self::Dead { error, .. } => Some(error),
            Self::Delivered { .. } | Self::Release | Self::Postpone { .. } => None,
        }
    }
}

/// What a settlement changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// How many leases were ended.
    pub applied: usize,
    /// Leases that were no longer ours.
    pub lost: Vec<Lease>,
}
