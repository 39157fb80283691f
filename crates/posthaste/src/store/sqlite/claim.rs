//! Claim: look for what is due, then lease it, and remember where to go on.
//!
//! The look takes no lock that writers wait for, so a relay that finds nothing is in nobody's way. What
//! it found is leased only if it still can be: others may have written in between, but no other
//! relay, as all of them use this one thread.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::decode::{self, Got, Taken};
use super::link::Link;
use super::{Outbox, list};
use crate::event::DeadReason;
use crate::store::cursors::Cursor;
use crate::store::{Claim, Claimed, OnFailure, Ordering, Reach, StoreError};

/// With ordering by key, how many due events to look at for each one that is wanted.
const LOOK: i64 = 4;

/// What a look found, by sequence.
#[derive(Default)]
struct Found {
    go: Vec<i64>,
    park: Vec<i64>,
    /// Those of them whose former owner is gone or came too late.
    crashed: Vec<i64>,
    /// How far it looked.
    last: Option<Cursor>,
    more: bool,
}

impl Outbox {
    /// Claims as the owner that others know.
    pub(super) fn claim_events(
        &self,
        link: &mut Link,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        let present = self.be_present(link)?;
        let gone = match claim.reach {
            Reach::Oldest => list(&present.gone),
            Reach::Onward | Reach::Latest => list::<Uuid>(&[]),
        };
        let now = decode::now();
        let found = link.read(|connection| match claim.ordering {
            Ordering::None => self.due(connection, claim, &gone, now),
            Ordering::Key(on_failure) => self.ready(connection, claim, on_failure, &gone, now),
        })?;
        let mut claimed = match found.go.is_empty() && found.park.is_empty() {
            true => Claimed::default(),
            false => self.take(link, claim, &found, present.owner, &gone, now)?,
        };
        claimed.more = found.more;
        self.cursors
            .lock()
            .expect("not poisoned")
            .ended(claim, found.last, found.more);
        Ok(claimed)
    }

    /// The oldest that are due.
    fn due(
        &self,
        connection: &Connection,
        claim: &Claim,
        gone: &str,
        now: i64,
    ) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let mut statement = connection.prepare_cached(&self.sql.due)?;
        let Look(at, after, namespace, topics, tenant, except) = self.look(claim);
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
        while let Some(row) = rows.next()? {
            let sequence = row.get(0)?;
            found.go.push(sequence);
            if row.get(2)? {
                found.crashed.push(sequence);
            }
            found.last = Some(Cursor(row.get(1)?, sequence));
        }
        found.more = found.go.len() >= claim.limit as usize;
        Ok(found)
    }

    /// The oldest whose turn it is within their key.
    fn ready(
        &self,
        connection: &Connection,
        claim: &Claim,
        on_failure: OnFailure,
        gone: &str,
        now: i64,
    ) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let mut statement = connection.prepare_cached(&self.sql.ready)?;
        let Look(at, after, namespace, topics, tenant, except) = self.look(claim);
        let limit = i64::from(claim.limit);
        let look = limit * LOOK;
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
        ])?;
        let (mut looked_at, mut last_seen, mut last_found) = (0, None, None);
        while let Some(row) = rows.next()? {
            looked_at = row.get(0)?;
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
        let full = (found.go.len() + found.park.len()) as i64 >= limit;
        found.more = full || looked_at >= look;
        found.last = if full { last_found } else { last_seen };
        Ok(found)
    }

    /// Leases what was found.
    fn take(
        &self,
        link: &mut Link,
        claim: &Claim,
        found: &Found,
        owner: Uuid,
        gone: &str,
        now: i64,
    ) -> Result<Claimed, StoreError> {
        let (go, park) = (list(&found.go), list(&found.park));
        let lease = decode::length(claim.lease);
        let crashed = list(&found.crashed);
        let (parked, taken) = link.write_lazily(|connection| {
            if !found.crashed.is_empty() {
                let mut write = connection.prepare_cached(&self.sql.crashed)?;
                write.execute(params![now, crashed])?;
            }
            let parked: Vec<(String, i64)> = match found.park.is_empty() {
                true => Vec::new(),
                false => connection
                    .prepare_cached(&self.sql.park)?
                    .query_map(params![now, park, gone], |row| {
                        Ok((decode::shown(row, 0)?, row.get(1)?))
                    })?
                    .collect::<Result<_, _>>()?,
            };
            let max_attempts = claim.max_attempts.min(i32::MAX.unsigned_abs());
            let values = params![now, go, lease, owner.to_string(), max_attempts, gone];
            let taken: Vec<Taken> = connection
                .prepare_cached(&self.sql.take)?
                .query_map(values, |row| decode::taken(row, &self.table, owner, now))?
                .collect::<Result<_, _>>()?;
            if let Some(topic) = &claim.dead_letters {
                let died = taken
                    .iter()
                    .filter(|taken| matches!(taken.got, Got::Died(..)));
                let mut dead: Vec<i64> = died.map(|taken| taken.place.1).collect();
                dead.extend(parked.iter().map(|(_, sequence)| sequence));
                dead.sort_unstable();
                for sequence in dead {
                    self.send_letter(connection, sequence, topic)?;
                }
            }
            Ok((parked, taken))
        })?;
        Ok(claimed(parked, taken, claim.ordering))
    }

    fn look<'c>(&self, claim: &'c Claim) -> Look<'c> {
        let cursors = self.cursors.lock().expect("not poisoned");
        let Cursor(at, after) = cursors.from(claim.reach);
        let scope = &claim.scope;
        Look(
            at,
            after,
            scope.namespace.as_deref(),
            (!scope.topics.is_empty()).then(|| list(&scope.topics)),
            scope.tenant_id.map(|tenant| tenant.to_string()),
            list(&claim.except_topics),
        )
    }
}

/// `?2` to `?7` of both looks.
struct Look<'c>(
    i64,
    i64,
    Option<&'c str>,
    Option<String>,
    Option<String>,
    String,
);

fn place(row: &Row<'_>, at: usize, sequence: usize) -> rusqlite::Result<Option<Cursor>> {
    let at: Option<i64> = row.get(at)?;
    match at {
        Some(at) => Ok(Some(Cursor(at, row.get(sequence)?))),
        None => Ok(None),
    }
}

fn claimed(parked: Vec<(String, i64)>, mut taken: Vec<Taken>, ordering: Ordering) -> Claimed {
    let mut claimed = Claimed::default();
    let died = parked
        .into_iter()
        .map(|(topic, _)| (topic, DeadReason::Parked));
    claimed.died.extend(died);
    match ordering {
        Ordering::None => taken.sort_unstable_by_key(|taken| taken.place),
        // Within a key the sequence decides, also over which was due first after a retry.
        Ordering::Key(_) => taken.sort_unstable_by_key(|taken| taken.place.1),
    }
    let mut malformed: HashMap<String, i64> = HashMap::new();
    for Taken { place, key, got } in taken {
        match got {
            Got::Event(event) => claimed.events.push(*event),
            Got::Died(topic, reason) => claimed.died.push((topic, reason)),
            Got::Malformed(lease, why) => {
                claimed.malformed.push((lease, why));
                // The first of its key comes first.
                if let Some(key) = key {
                    malformed.entry(key).or_insert(place.1);
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
