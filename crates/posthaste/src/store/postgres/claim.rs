//! Claim: lease due events, and remember where to go on.

use std::collections::{HashMap, HashSet};
use std::sync::MutexGuard;
use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::decode::{self, Shown, Timestamp};
use super::{Postgres, topics};
use crate::store::cursors::{Cursor, Cursors, End};
use crate::store::{Claim, Claimed, OnFailure, Ordering, Reach, Scope, Store, StoreError};

impl Postgres {
    /// Claims as the owner that others know.
    pub(super) async fn claim_events(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let (owner, asking, gone) = {
            let standing = self.be_present().await?;
            let owner = self.owner();
            let gone = standing.gone.iter().copied().collect();
            (owner, self.held.ask(owner), gone)
        };
        let claimed = self.claim_as(owner, gone, claim).await;
        match &claimed {
            Ok(claimed) => asking.answered(claimed.leases()),
            // What was leased, if anything was, nobody knows.
            Err(StoreError::Unavailable(_)) => drop(asking),
            Err(_) => asking.answered(0),
        }
        claimed
    }

    async fn claim_as(
        &self,
        owner: Uuid,
        gone: Vec<Uuid>,
        claim: &Claim,
    ) -> Result<Claimed, StoreError> {
        let from = self.cursors().from(claim);
        let (from_at, from_sequence) = (Timestamp(from.0), from.1);
        let limit = i64::from(claim.limit);
        let bytes = i64::try_from(claim.bytes).unwrap_or(i64::MAX);
        let lease = claim.lease.as_secs_f64();
        let max_attempts = i32::try_from(claim.max_attempts).unwrap_or(i32::MAX);
        let topics = topics(&claim.scope);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &limit,
            &lease,
            &owner,
            &max_attempts,
            &claim.scope.namespace,
            &topics,
            &claim.scope.tenant_id,
            &claim.except_topics,
            &from_at,
            &from_sequence,
            &gone,
            &claim.dead_letters,
            &bytes,
        ];
        let Ordering::Key(on_failure) = claim.ordering else {
            let (rows, at) = self.look(claim, &self.sql.claim, &params).await?;
            let more = rows.len() as i64 >= limit || rows.first().is_some_and(decode::is_cut);
            let last = rows.iter().map(place).max();
            let end = End {
                from,
                last,
                got: !rows.is_empty(),
                full: more,
                more,
                at,
            };
            self.cursors().ended(claim, end);
            return Ok(self.claimed(&rows, owner, more));
        };
        let look = self.cursors().look(claim);
        let on_failure = match on_failure {
            OnFailure::Block => "block",
            OnFailure::Park => "park",
            OnFailure::Skip => "skip",
        };
        let keys = (!claim.keys.is_empty()).then_some(&claim.keys);
        params.extend([&look as &(dyn ToSql + Sync), &on_failure, &keys]);
        let (mut rows, at) = self.look(claim, &self.sql.claim_keyed, &params).await?;
        let seen = rows.iter().find(|row| !decode::is_event(row));
        let looked_at: i64 = seen.map_or(0, |row| row.get("looked_at"));
        let full = seen.is_some_and(|row| row.get("is_full"));
        // Of one that is not text in UTF-8 no event is delivered, so nobody asks for it; but it hides no other.
        let waiting: Option<Vec<Shown>> = seen.and_then(|row| row.get("waiting"));
        let last = seen.and_then(|row| {
            let at: Option<Timestamp> = row.get("last_at");
            Some(Cursor(at?.0, row.get("last_sequence")))
        });
        rows.retain(decode::is_event);
        let more = match claim.keys.is_empty() {
            true => full || looked_at >= look,
            // Keys of which it locked no first event are with somebody else: to ask again at once is in vain.
            false => full && !rows.is_empty(),
        };
        let end = End {
            from,
            last,
            got: !rows.is_empty(),
            full,
            more,
            at,
        };
        self.cursors().ended(claim, end);
        let mut claimed = self.claimed(&rows, owner, more);
        let waiting = waiting.unwrap_or_default().into_iter();
        claimed.waiting = waiting.map(|key| key.0).collect();
        // Within a key the sequence decides, also over which was due first after a retry.
        claimed.events.sort_by_key(|event| event.sequence);
        if on_failure != "skip" {
            hold_back(&mut claimed, &rows);
        }
        Ok(claimed)
    }

    /// Runs a claim. If there may be many due events that it passes, as it is not about them, it also asks, in the same
    /// round trip, what time it was before: claims that find nothing are not to pass them again and again.
    async fn look(
        &self,
        claim: &Claim,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<(Vec<Row>, Option<i64>), StoreError> {
        let rows = self.claim.query(statement(claim), sql, params);
        let is_about_all = claim.except_topics.is_empty() && claim.scope == Scope::default();
        if is_about_all || !claim.keys.is_empty() {
            return Ok((rows.await?, None));
        }
        let sent = Instant::now();
        let moment = async {
            let rows = self.claim.query("moment", &self.sql.moment, &[]).await;
            let now: Timestamp = rows.ok()?.first()?.get(0);
            // Whichever of the two was run first, the claim was not sent before.
            let since = i64::try_from(sent.elapsed().as_micros()).ok()?;
            Some(now.0.saturating_sub(since))
        };
        let (rows, moment) = tokio::join!(rows, moment);
        Ok((rows?, moment))
    }

    fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().expect("not poisoned")
    }

    fn claimed(&self, rows: &[Row], owner: Uuid, more: bool) -> Claimed {
        let mut claimed = Claimed {
            more,
            ..Claimed::default()
        };
        let mut order = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(died) = decode::died(row) {
                claimed.died.push(died);
                continue;
            }
            let lease = decode::lease(row, owner);
            match decode::event(row, &self.table, lease) {
                Ok(event) => order.push((place(row), event)),
                Err(why) => claimed.malformed.push(decode::malformed(row, lease, why)),
            }
        }
        order.sort_unstable_by_key(|(place, _)| *place);
        claimed.events = order.into_iter().map(|(_, event)| event).collect();
        claimed
    }
}

/// One for each reach: how long a look from the oldest on takes says nothing about the others.
fn statement(claim: &Claim) -> &'static str {
    match (claim.ordering, claim.reach) {
        (Ordering::None, Reach::Oldest) => "claim oldest",
        (Ordering::None, Reach::Onward) => "claim onward",
        (Ordering::None, Reach::Latest) => "claim latest",
        (Ordering::None, Reach::Aside) => "claim aside",
        (Ordering::Key(_), _) if !claim.keys.is_empty() => "claim_keyed of some keys",
        (Ordering::Key(_), Reach::Oldest) => "claim_keyed oldest",
        (Ordering::Key(_), Reach::Onward) => "claim_keyed onward",
        (Ordering::Key(_), Reach::Latest) => "claim_keyed latest",
        (Ordering::Key(_), Reach::Aside) => "claim_keyed aside",
    }
}

fn place(row: &Row) -> Cursor {
    let (at, sequence) = decode::place(row);
    Cursor(at.0, sequence)
}

/// Sets apart what comes after a malformed event in its key: it must not overtake.
fn hold_back(claimed: &mut Claimed, rows: &[Row]) {
    let malformed = claimed.malformed.iter();
    let malformed: HashSet<Uuid> = malformed.map(|row| row.lease.id).collect();
    let mut first: HashMap<&str, i64> = HashMap::new();
    for row in rows.iter().filter(|row| malformed.contains(&row.get("id"))) {
        let sequence = row.get("sequence");
        // One that is not text in UTF-8 is malformed in every event of the key.
        if let Ok(Some(key)) = row.try_get("ordering_key") {
            let first = first.entry(key).or_insert(sequence);
            *first = sequence.min(*first);
        }
    }
    claimed.hold_back(&first);
}
