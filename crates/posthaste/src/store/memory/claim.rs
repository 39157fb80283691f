//! Which events a claim takes, and what that makes of them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use super::rows::{Rows, State, Stored};
use crate::event::DeadReason;
use crate::store::{Claim, Claimed, Died, Ending, OnFailure, Ordering};
use crate::table::Table;

/// An event that a claim may take. They are taken in the order of these fields.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// When it was due; with ordering by key not before those that go before it.
    turn: SystemTime,
    sequence: i64,
    /// Whether it comes after a dead event of its key, and is to die with it.
    parked: bool,
}

/// Who claims.
pub(super) struct Relay<'a> {
    pub(super) table: &'a Arc<Table>,
    pub(super) owner: Uuid,
    /// Whose leases it counts as expired.
    pub(super) gone: HashSet<Uuid>,
}

pub(super) fn claim(rows: &mut Rows, claim: &Claim, relay: &Relay<'_>, now: SystemTime) -> Claimed {
    let due = |row: &Stored| {
        row.is_in(&claim.scope)
            && (claim.ordering == Ordering::None || claim.keys.is_empty() || row.is_of(&claim.keys))
            && !claim.except_topics.contains(&row.values.topic)
            && row.next_attempt_at <= now
            && match row.state {
                State::Pending => true,
                State::Processing { owner, until } => until < now || relay.gone.contains(&owner),
                State::Delivered { .. } | State::Dead { .. } => false,
            }
    };
    let (mut candidates, waiting) = match claim.ordering {
        Ordering::None => (
            rows.iter().filter(|row| due(row)).map(alone).collect(),
            Vec::new(),
        ),
        Ordering::Key(on_failure) => by_key(rows, due, on_failure, claim.max_attempts),
    };
    candidates.sort();
    let found = candidates.len();
    candidates.truncate(claim.limit as usize);
    let mut bytes = 0;
    let fits = candidates.iter().take_while(|candidate| {
        let fits = bytes < claim.bytes;
        bytes += rows.size(candidate.sequence);
        fits
    });
    candidates.truncate(fits.count());

    let mut claimed = Claimed {
        more: candidates.len() >= claim.limit as usize || candidates.len() < found,
        waiting,
        ..Claimed::default()
    };
    let mut dead = Vec::new();
    for Candidate {
        sequence, parked, ..
    } in candidates
    {
        let row = rows.at(sequence).expect("nobody else has the rows");
        let exhausted = row.attempts >= claim.max_attempts;
        if row.is_leased() {
            row.attempted(Ending::Crashed, None, None, None, now);
        }
        row.epoch += 1;
        row.updated_at = now;
        if parked || exhausted {
            let reason = match (parked, row.is_leased()) {
                (true, _) => DeadReason::Parked,
                (false, true) => DeadReason::Crashed,
                (false, false) => DeadReason::Exhausted,
            };
            row.state = State::Dead { at: now, reason };
            claimed.died.push(Died {
                id: row.values.id,
                sequence,
                topic: row.values.topic.clone(),
                tenant_id: row.values.tenant_id,
                attempts: row.attempts,
                reason,
            });
            dead.push(sequence);
        } else {
            row.attempts += 1;
            row.state = State::Processing {
                owner: relay.owner,
                until: now + claim.lease,
            };
            claimed.events.push(row.event(relay, now));
        }
    }
    if let Some(topic) = &claim.dead_letters {
        rows.send_letters(dead, topic, now);
    }
    if claim.ordering != Ordering::None {
        claimed.events.sort_by_key(|event| event.sequence);
    }
    claimed
}

/// Of each key: its first live events, up to the one that cannot go now; and the keys in which some wait for one that is leased.
fn by_key(
    rows: &Rows,
    due: impl Fn(&Stored) -> bool,
    on_failure: OnFailure,
    max_attempts: u32,
) -> (Vec<Candidate>, Vec<String>) {
    let (mut candidates, mut waiting) = (Vec::new(), Vec::new());
    let mut keys: BTreeMap<&str, Vec<&Stored>> = BTreeMap::new();
    for row in rows.iter() {
        match &row.values.ordering_key {
            Some(key) => keys.entry(key).or_default().push(row),
            None if due(row) => candidates.push(alone(row)),
            None => {}
        }
    }
    for (key, events) in keys {
        let mut turn = SystemTime::UNIX_EPOCH;
        let mut parked = false;
        for (n, row) in events.iter().enumerate() {
            let dead = match row.state {
                State::Delivered { .. } => continue,
                State::Dead { reason, .. } => reason != DeadReason::Discarded,
                State::Pending | State::Processing { .. } if due(row) => {
                    turn = turn.max(row.next_attempt_at);
                    candidates.push(Candidate {
                        turn,
                        sequence: row.sequence,
                        parked,
                    });
                    // It dies of this very claim, before those that follow it go.
                    row.attempts >= max_attempts
                }
                State::Pending | State::Processing { .. } => {
                    if row.is_leased() && events[n..].iter().any(|row| due(row)) {
                        waiting.push(key.to_owned());
                    }
                    break;
                }
            };
            match on_failure {
                OnFailure::Block if dead => break,
                OnFailure::Park => parked |= dead,
                OnFailure::Block | OnFailure::Skip => {}
            }
        }
    }
    (candidates, waiting)
}

fn alone(row: &Stored) -> Candidate {
    Candidate {
        turn: row.next_attempt_at,
        sequence: row.sequence,
        parked: false,
    }
}
