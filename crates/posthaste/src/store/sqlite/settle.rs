//! Settle: end and prolong leases, each write fenced by owner and epoch. A batch is one commit.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::of_settlements;
use super::link::Link;
use super::{Outbox, decode};
use crate::event::Lease;
use crate::store::{
    ATTEMPTS_KEPT, Ending, Settled, Settlement, StoreError, Verdict, crew, fingerprint, storable,
};

impl Outbox {
    /// Ends leases, however mixed.
    pub(super) fn settle_leases(
        &self,
        link: &mut Link,
        settlements: &[Settlement],
    ) -> Result<Settled, StoreError> {
        let now = decode::now();
        let lost = link.write(|connection| {
            let mut deliver = connection.prepare_cached(&self.sql.deliver)?;
            let mut delete = connection.prepare_cached(&self.sql.deliver_delete)?;
            let mut settle = connection.prepare_cached(&self.sql.settle)?;
            let mut forget = connection.prepare_cached(&self.sql.forget)?;
            let mut lost = Vec::new();
            for settlement in settlements {
                let Settlement { lease, verdict, .. } = settlement;
                let (id, owner) = (lease.id.to_string(), lease.owner.to_string());
                if settlement.is_for_history() {
                    self.write_attempt(connection, settlement, now)?;
                }
                let mut letter = None;
                let (name, delay, reason, error) = match verdict {
                    Verdict::Delivered { keep } => {
                        let touched = match keep {
                            true => deliver.execute(params![now, id, owner, lease.epoch])?,
                            false => delete.execute(params![id, owner, lease.epoch])?,
                        };
                        if touched == 0 {
                            lost.push(*lease);
                        } else if !keep && lease.epoch > 1 {
                            // Its history goes with it. What was claimed once has none.
                            forget.execute([&id])?;
                        }
                        continue;
                    }
                    Verdict::Retry { delay, error } => ("retry", *delay, None, Some(error)),
                    Verdict::Dead {
                        reason,
                        error,
                        letter: topic,
                    } => {
                        letter = topic.as_deref();
                        let reason = Some(reason.as_str());
                        ("dead", Duration::ZERO, reason, Some(error))
                    }
                    Verdict::Release => ("release", Duration::ZERO, None, None),
                    Verdict::Postpone { delay } => ("postpone", *delay, None, None),
                };
                let (delay, error) = (decode::length(delay), error.map(|text| storable(text)));
                let kind = error.as_deref().map(fingerprint);
                let values = params![
                    now,
                    id,
                    owner,
                    lease.epoch,
                    name,
                    delay,
                    reason,
                    error,
                    kind
                ];
                let settled = settle.query_row(values, |row| row.get(0)).optional()?;
                match (settled, letter) {
                    (None, _) => lost.push(*lease),
                    (Some(sequence), Some(topic)) => {
                        self.send_letter(connection, sequence, topic)?;
                    }
                    (Some(_), None) => {}
                }
            }
            Ok(lost)
        });
        let lost = lost.map_err(of_settlements)?;
        Ok(Settled {
            applied: settlements.len() - lost.len(),
            lost,
        })
    }

    /// Writes down how an attempt ended, if the lease still holds.
    fn write_attempt(
        &self,
        connection: &Connection,
        settlement: &Settlement,
        now: i64,
    ) -> rusqlite::Result<()> {
        let (lease, tried) = (&settlement.lease, settlement.tried.as_ref());
        let id = lease.id.to_string();
        let written = connection
            .prepare_cached(&self.sql.attempt)?
            .execute(params![
                now,
                id,
                lease.owner.to_string(),
                lease.epoch,
                tried.map(|tried| tried.took.as_secs_f64()),
                Ending::of(settlement).map(Ending::as_str),
                settlement.verdict.error().map(storable),
                crew::name(),
                tried.map(|tried| storable(&tried.destination)),
            ])?;
        if written > 0 && lease.epoch > ATTEMPTS_KEPT as i64 {
            connection
                .prepare_cached(&self.sql.surplus)?
                .execute(params![id, ATTEMPTS_KEPT as i64])?;
        }
        Ok(())
    }

    /// Prolongs leases. Gives back those that are lost.
    pub(super) fn extend_leases(
        &self,
        link: &mut Link,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Vec<Lease>, StoreError> {
        let until = decode::now() + decode::length(lease);
        // As lasting as the claim was: a power cut ends the relay, too.
        link.write_lazily(|connection| {
            let mut extend = connection.prepare_cached(&self.sql.extend)?;
            let mut lost = Vec::new();
            for lease in leases {
                let (id, owner) = (lease.id.to_string(), lease.owner.to_string());
                if extend.execute(params![until, id, owner, lease.epoch])? == 0 {
                    lost.push(*lease);
                }
            }
            Ok(lost)
        })
    }
}
