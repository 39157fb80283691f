//! Claim: look for what is due, read it, then lease it, and remember where to go on.
//!
//! The look takes no lock that writers wait for, so a relay that finds nothing is in nobody's way. What
//! it found is leased only if it still can be: others may have written in between. Without order it has
//! a thread of its own, beside the one that settles (see `ahead.rs`). By key it must not: no other relay of this process
//! may take or settle events between the look and the lease, and all of them write on one thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::decode::{self, Read, Taken};
use super::link::{Identity, Link};
use super::presence::Present;
use super::{Outbox, list};
use crate::event::{DeadReason, Lease};
use crate::store::cursors::{Cursor, End};
use crate::store::{
    Claim, Claimed, Died, Malformed, OnFailure, Ordering, Settlement, StoreError, Verdict,
};

/// What a look found, by sequence.
#[derive(Default)]
struct Found {
    go: Vec<i64>,
    park: Vec<i64>,
    /// Those of them whose former owner is gone or came too late.
    crashed: Vec<i64>,
    /// How far it looked.
    last: Option<Cursor>,
    full: bool,
    more: bool,
    waiting: Vec<String>,
}

/// What can be leased, with all that the events say.
pub(super) struct Candidates {
    /// The file that they were found in.
    pub(super) database: Option<Identity>,
    found: Found,
    read: HashMap<i64, Read>,
    /// Whose leases count as free, as a JSON array.
    gone: String,
    from: Cursor,
    looked_at: i64,
}

impl Candidates {
    /// Where there is more to be found.
    pub(super) fn goes_on_from(&self) -> Option<Cursor> {
        self.found.last.filter(|_| self.found.more)
    }

    pub(super) fn bytes(&self) -> usize {
        let events = self
            .read
            .values()
            .filter_map(|read| read.event.as_ref().ok());
        events.map(|event| event.payload.len()).sum()
    }
}

/// What a claim got, on its way to whoever asked for it. Should nobody wait for it any more, it goes back.
pub(super) struct Answer {
    outbox: Arc<Outbox>,
    claimed: Claimed,
}

impl Answer {
    pub(super) fn new(outbox: Arc<Outbox>, claimed: Claimed) -> Self {
        Self { outbox, claimed }
    }

    pub(super) fn received(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let Claimed {
            events,
            malformed,
            held_back,
            ..
        } = std::mem::take(&mut self.claimed);
        let leases = events.iter().map(|event| event.lease);
        let leases = leases.chain(malformed.into_iter().map(|row| row.lease));
        let released: Vec<Settlement> = leases
            .chain(held_back)
            .map(|lease| Settlement::new(lease, Verdict::Release))
            .collect();
        if !released.is_empty() {
            let outbox = self.outbox.clone();
            let writer = &self.outbox.home.writer;
            drop(writer.begin(move |link| outbox.settle_leases(link, &released)));
        }
    }
}

impl Outbox {
    /// Where a claim looks from.
    pub(super) fn start_of(&self, claim: &Claim) -> Cursor {
        let mut cursors = self.cursors.lock().expect("not poisoned");
        cursors.from(claim)
    }

    /// Looks for what can be leased, from a place on. It may be done for a store that has left, or for one
    /// whose file another process relays: it is the lease that takes the right to relay.
    pub(super) fn look_for_events(
        &self,
        link: &mut Link,
        claim: &Claim,
        from: Cursor,
    ) -> Result<Candidates, StoreError> {
        let gone = list(&self.gone());
        let now = decode::now();
        let database = self.home.database();
        let (found, read) = link.read(|connection| {
            let found = match claim.ordering {
                Ordering::None => self.due(connection, claim, from, &gone, now)?,
                Ordering::Key(on_failure) => {
                    self.ready(connection, claim, from, on_failure, &gone, now)?
                }
            };
            let read = self.read_events(connection, &found.go, now)?;
            Ok((found, read))
        })?;
        Ok(Candidates {
            database,
            found,
            read,
            gone,
            from,
            looked_at: now,
        })
    }

    /// Leases them, as the owner that others know.
    pub(super) fn lease_events(
        &self,
        link: &mut Link,
        claim: &Claim,
        candidates: Candidates,
        present: &Present,
    ) -> Result<Claimed, StoreError> {
        let found = &candidates.found;
        let end = End {
            from: candidates.from,
            last: found.last,
            got: !(found.go.is_empty() && found.park.is_empty()),
            full: found.full,
            more: found.more,
            at: Some(candidates.looked_at),
        };
        let waiting = found.waiting.clone();
        let mut claimed = match end.got {
            false => Claimed::default(),
            true => self.take(link, claim, candidates, present.owner)?,
        };
        (claimed.more, claimed.waiting) = (end.more, waiting);
        let mut cursors = self.cursors.lock().expect("not poisoned");
        cursors.ended(claim, end);
        Ok(claimed)
    }

    fn read_events(
        &self,
        connection: &Connection,
        sequences: &[i64],
        now: i64,
    ) -> rusqlite::Result<HashMap<i64, Read>> {
        if sequences.is_empty() {
            return Ok(HashMap::new());
        }
        connection
            .prepare_cached(&self.sql.read)?
            .query_map([list(sequences)], |row| {
                let read = decode::read(row, &self.table, now)?;
                Ok((read.place.1, read))
            })?
            .collect()
    }

    /// The oldest that are due.
    fn due(
        &self,
        connection: &Connection,
        claim: &Claim,
        from: Cursor,
        gone: &str,
        now: i64,
    ) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let mut statement = connection.prepare_cached(&self.sql.due)?;
        let Cursor(at, after) = from;
        let Look(namespace, topics, tenant, except) = Look::of(claim);
        let values = params![
            now,
            at,
            after,
            namespace,
            topics,
            tenant,
            except,
            gone,
            claim.limit
        ];
        let mut rows = statement.query(values)?;
        let (mut bytes, mut cut) = (0, false);
        while let Some(row) = rows.next()? {
            cut = bytes >= claim.bytes;
            if cut {
                break;
            }
            bytes += row.get::<_, Option<u32>>(3)?.map_or(0, u64::from);
            let sequence = row.get(0)?;
            found.go.push(sequence);
            if row.get(2)? {
                found.crashed.push(sequence);
            }
            found.last = Some(Cursor(row.get(1)?, sequence));
        }
        found.full = cut || found.go.len() >= claim.limit as usize;
        found.more = found.full;
        Ok(found)
    }

    /// The oldest whose turn it is within their key.
    fn ready(
        &self,
        connection: &Connection,
        claim: &Claim,
        from: Cursor,
        on_failure: OnFailure,
        gone: &str,
        now: i64,
    ) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let mut statement = connection.prepare_cached(&self.sql.ready)?;
        let Cursor(at, after) = from;
        let Look(namespace, topics, tenant, except) = Look::of(claim);
        let limit = i64::from(claim.limit);
        let look = self.cursors.lock().expect("not poisoned").look(claim);
        let on_failure = match on_failure {
            OnFailure::Block => "block",
            OnFailure::Park => "park",
            OnFailure::Skip => "skip",
        };
        let mut rows = statement.query(params![
            now,
            at,
            after,
            namespace,
            topics,
            tenant,
            except,
            gone,
            limit,
            look,
            claim.max_attempts,
            on_failure,
            (!claim.keys.is_empty()).then(|| list(&claim.keys)),
        ])?;
        let (mut looked_at, mut last_seen, mut last_found) = (0, None, None);
        let (mut bytes, mut cut, mut is_first) = (0, false, true);
        while let Some(row) = rows.next()? {
            cut = bytes >= claim.bytes;
            if cut {
                break;
            }
            bytes += row.get::<_, Option<u32>>(7)?.map_or(0, u64::from);
            looked_at = row.get(0)?;
            if std::mem::take(&mut is_first)
                && let Some(keys) = row.get_ref(8)?.as_bytes_or_null()?
            {
                // Of one that is not text in UTF-8 no event is delivered, so nobody asks for it; but it hides no other.
                let keys = String::from_utf8_lossy(keys);
                found.waiting = serde_json::from_str(&keys).unwrap_or_default();
            }
            last_seen = place(row, 1, 2)?;
            if let Some(place @ Cursor(_, sequence)) = place(row, 4, 3)? {
                last_found = last_found.max(Some(place));
                if row.get(6)? {
                    found.crashed.push(sequence);
                }
                match row.get(5)? {
                    true => found.park.push(sequence),
                    false => found.go.push(sequence),
                }
            }
        }
        found.full = cut || (found.go.len() + found.park.len()) as i64 >= limit;
        found.more = found.full || (claim.keys.is_empty() && looked_at >= look);
        found.last = if found.full { last_found } else { last_seen };
        Ok(found)
    }

    /// Leases what was found.
    fn take(
        &self,
        link: &mut Link,
        claim: &Claim,
        candidates: Candidates,
        owner: Uuid,
    ) -> Result<Claimed, StoreError> {
        let Candidates {
            found,
            read,
            gone,
            looked_at,
            ..
        } = candidates;
        let now = decode::now();
        let waited = Duration::from_micros(now.saturating_sub(looked_at).max(0).unsigned_abs());
        let (go, park) = (list(&found.go), list(&found.park));
        let lease = decode::length(claim.lease);
        let crashed = list(&found.crashed);
        let (parked, taken) = link.write_lazily(|connection| {
            if !found.crashed.is_empty() {
                let mut write = connection.prepare_cached(&self.sql.crashed)?;
                write.execute(params![now, crashed, gone])?;
            }
            let parked: Vec<Died> = match found.park.is_empty() {
                true => Vec::new(),
                false => connection
                    .prepare_cached(&self.sql.park)?
                    .query_map(params![now, park, gone], decode::parked)?
                    .collect::<Result<_, _>>()?,
            };
            let max_attempts = claim.max_attempts.min(i32::MAX.unsigned_abs());
            let values = params![now, go, lease, owner.to_string(), max_attempts, gone];
            let taken: Vec<Taken> = connection
                .prepare_cached(&self.sql.take)?
                .query_map(values, decode::taken)?
                .collect::<Result<_, _>>()?;
            for (sequence, read) in read.iter().filter(|(_, read)| read.renamed) {
                if taken.iter().any(|taken| taken.sequence == *sequence) {
                    let mut rename = connection.prepare_cached(&self.sql.rename)?;
                    rename.execute(params![sequence, read.id.to_string()])?;
                }
            }
            if let Some(topic) = &claim.dead_letters {
                let died = taken.iter().filter(|taken| taken.died.is_some());
                let mut dead: Vec<i64> = died.map(|taken| taken.sequence).collect();
                dead.extend(parked.iter().map(|died| died.sequence));
                dead.sort_unstable();
                for sequence in dead {
                    self.send_letter(connection, sequence, topic)?;
                }
            }
            Ok((parked, taken))
        })?;
        Ok(claimed(parked, taken, read, waited, owner, claim.ordering))
    }
}

/// `?4` to `?7` of both looks.
struct Look<'c>(Option<&'c str>, Option<String>, Option<String>, String);

impl<'c> Look<'c> {
    fn of(claim: &'c Claim) -> Self {
        let scope = &claim.scope;
        Self(
            scope.namespace.as_deref(),
            (!scope.topics.is_empty()).then(|| list(&scope.topics)),
            scope.tenant_id.map(|tenant| tenant.to_string()),
            list(&claim.except_topics),
        )
    }
}

fn place(row: &Row<'_>, at: usize, sequence: usize) -> rusqlite::Result<Option<Cursor>> {
    let at: Option<i64> = row.get(at)?;
    match at {
        Some(at) => Ok(Some(Cursor(at, row.get(sequence)?))),
        None => Ok(None),
    }
}

fn claimed(
    parked: Vec<Died>,
    taken: Vec<Taken>,
    mut read: HashMap<i64, Read>,
    waited: Duration,
    owner: Uuid,
    ordering: Ordering,
) -> Claimed {
    let mut claimed = Claimed {
        died: parked,
        ..Claimed::default()
    };
    let mut leased: Vec<(Taken, Read)> = taken
        .into_iter()
        .filter_map(|taken| read.remove(&taken.sequence).map(|read| (taken, read)))
        .collect();
    match ordering {
        Ordering::None => leased.sort_unstable_by_key(|(_, read)| read.place),
        // Within a key the sequence decides, also over which was due first after a retry.
        Ordering::Key(_) => leased.sort_unstable_by_key(|(taken, _)| taken.sequence),
    }
    let mut malformed: HashMap<String, i64> = HashMap::new();
    for (taken, read) in leased {
        let lease = Lease {
            id: read.id,
            owner,
            epoch: taken.epoch,
        };
        let dead = |reason| Died {
            id: read.id,
            sequence: taken.sequence,
            topic: read.topic,
            tenant_id: read.tenant_id,
            attempts: taken.attempts,
            reason,
        };
        match (taken.died, read.event) {
            (Some(reason), _) => claimed.died.push(dead(reason)),
            (None, Ok(mut event)) => {
                (event.lease, event.attempts) = (lease, taken.attempts);
                event.age += waited;
                claimed.events.push(*event);
            }
            (None, Err(error)) => {
                let died = dead(DeadReason::Malformed);
                claimed.malformed.push(Malformed { lease, died, error });
                // The first of its key comes first.
                if let Some(key) = read.key {
                    malformed.entry(key).or_insert(taken.sequence);
                }
            }
        }
    }
    if matches!(ordering, Ordering::Key(OnFailure::Block | OnFailure::Park)) {
        let first = malformed.iter().map(|(key, first)| (key.as_str(), *first));
        claimed.hold_back(&first.collect());
    }
    claimed
}
