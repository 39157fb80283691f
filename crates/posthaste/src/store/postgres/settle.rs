//! Settle: end and prolong leases, each write fenced by owner and epoch.

use std::collections::HashSet;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::Postgres;
use super::link::of_settlements;
use crate::event::Lease;
use crate::store::{Ending, Settled, Settlement, StoreError, Verdict, fingerprint, storable};

impl Postgres {
    /// Ends leases, however mixed, in one round trip.
    pub(super) async fn settle_leases(
        &self,
        settlements: &[Settlement],
    ) -> Result<Settled, StoreError> {
        // Of what was claimed once there is no history: it takes the short way.
        let with = |keep: bool, once: bool| {
            settlements.iter().filter(move |s| {
                s.verdict == Verdict::Delivered { keep } && (s.lease.epoch == 1) == once
            })
        };
        let (kept, deleted) = (with(true, true), with(false, true));
        let (kept_again, deleted_again) = (with(true, false), with(false, false));
        let others = settlements
            .iter()
            .filter(|s| !matches!(s.verdict, Verdict::Delivered { .. }));
        // Sent together on one connection: however mixed, a batch is one round trip.
        let sql = &self.sql;
        let (kept, deleted, kept_again, deleted_again, others) = tokio::join!(
            self.end("deliver", &sql.deliver, kept.map(|s| &s.lease)),
            self.end(
                "deliver_delete",
                &sql.deliver_delete,
                deleted.map(|s| &s.lease)
            ),
            self.end_with_history(kept_again),
            self.end(
                "deliver_delete_again",
                &sql.deliver_delete_again,
                deleted_again.map(|s| &s.lease)
            ),
            self.end_otherwise(others),
        );
        let ended = [kept, deleted, kept_again, deleted_again, others];
        let ended: Result<Vec<_>, _> = ended.into_iter().collect();
        let lost = ended.map_err(of_settlements)?.concat();
        self.held.end(settlements.iter().map(|s| s.lease.owner));
        Ok(Settled {
            applied: settlements.len() - lost.len(),
            lost,
        })
    }

    /// Prolongs leases. Gives back those that are lost.
    pub(super) async fn extend_leases(
        &self,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Vec<Lease>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let columns: Leases = leases.iter().collect();
        let lease = lease.as_secs_f64();
        let rows = self
            .settle
            .query(
                "extend",
                &self.sql.extend,
                &[&columns.owners, &columns.ids, &columns.epochs, &lease],
            )
            .await?;
        Ok(Self::lost(leases.iter(), &rows))
    }

    async fn end<'l>(
        &self,
        name: &'static str,
        sql: &str,
        leases: impl Iterator<Item = &'l Lease> + Clone,
    ) -> Result<Vec<Lease>, StoreError> {
        let columns: Leases = leases.clone().collect();
        if columns.ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self
            .settle
            .query(name, sql, &[&columns.owners, &columns.ids, &columns.epochs])
            .await?;
        match rows.len() == columns.ids.len() {
            true => Ok(Vec::new()),
            false => Ok(Self::lost(leases, &rows)),
        }
    }

    async fn end_with_history<'s>(
        &self,
        settlements: impl Iterator<Item = &'s Settlement> + Clone,
    ) -> Result<Vec<Lease>, StoreError> {
        let leases: Leases = settlements.clone().map(|s| &s.lease).collect();
        if leases.ids.is_empty() {
            return Ok(Vec::new());
        }
        let (took, destinations) = tried(settlements.clone());
        let rows = self
            .settle
            .query(
                "deliver_again",
                &self.sql.deliver_again,
                &[
                    &leases.owners,
                    &leases.ids,
                    &leases.epochs,
                    &took,
                    &destinations,
                    &self.name,
                ],
            )
            .await?;
        Ok(Self::lost(settlements.map(|s| &s.lease), &rows))
    }

    async fn end_otherwise<'s>(
        &self,
        settlements: impl Iterator<Item = &'s Settlement> + Clone,
    ) -> Result<Vec<Lease>, StoreError> {
        let leases: Leases = settlements.clone().map(|s| &s.lease).collect();
        if leases.ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut verdicts = Vec::new();
        let mut delays = Vec::new();
        let mut reasons = Vec::new();
        let mut errors = Vec::new();
        let mut letters = Vec::new();
        let mut fingerprints = Vec::new();
        let mut endings = Vec::new();
        let (took, destinations) = tried(settlements.clone());
        for settlement in settlements.clone() {
            let mut letter = None;
            let (verdict, delay, reason, error) = match &settlement.verdict {
                Verdict::Retry { delay, error } => {
                    ("retry", delay.as_secs_f64(), None, Some(error))
                }
                Verdict::Dead {
                    reason,
                    error,
                    letter: topic,
                } => {
                    letter = topic.as_deref();
                    ("dead", 0.0, Some(reason.as_str()), Some(error))
                }
                Verdict::Postpone { delay } => ("postpone", delay.as_secs_f64(), None, None),
                Verdict::Release | Verdict::Delivered { .. } => ("release", 0.0, None, None),
            };
            verdicts.push(verdict);
            delays.push(delay);
            reasons.push(reason);
            let error = error.map(|text| storable(text));
            fingerprints.push(error.as_deref().map(fingerprint));
            errors.push(error);
            let ending = Ending::of(settlement).filter(|_| settlement.is_for_history());
            endings.push(ending.map(Ending::as_str));
            letters.push(letter);
        }
        let rows = self
            .settle
            .query(
                "settle",
                &self.sql.settle,
                &[
                    &leases.owners,
                    &leases.ids,
                    &leases.epochs,
                    &verdicts,
                    &delays,
                    &reasons,
                    &errors,
                    &letters,
                    &fingerprints,
                    &endings,
                    &took,
                    &destinations,
                    &self.name,
                ],
            )
            .await?;
        Ok(Self::lost(settlements.map(|s| &s.lease), &rows))
    }

    /// The leases among these that the statement did not touch.
    fn lost<'l>(leases: impl Iterator<Item = &'l Lease>, touched: &[Row]) -> Vec<Lease> {
        let touched: HashSet<(Uuid, i64)> =
            touched.iter().map(|row| (row.get(0), row.get(1))).collect();
        leases
            .filter(|lease| !touched.contains(&(lease.id, lease.epoch)))
            .copied()
            .collect()
    }
}

/// How long each attempt took, in seconds, and where to.
fn tried<'s>(
    settlements: impl Iterator<Item = &'s Settlement>,
) -> (Vec<Option<f64>>, Vec<Option<String>>) {
    let tried = settlements.map(|s| s.tried.as_ref());
    tried
        .map(|tried| {
            let took = tried.map(|tried| tried.took.as_secs_f64());
            (took, tried.map(|tried| storable(&tried.destination)))
        })
        .unzip()
}

/// The columns of a batch of leases.
struct Leases {
    owners: Vec<Uuid>,
    ids: Vec<Uuid>,
    epochs: Vec<i64>,
}

impl<'l> FromIterator<&'l Lease> for Leases {
    fn from_iter<I: IntoIterator<Item = &'l Lease>>(leases: I) -> Self {
        let mut columns = Self {
            owners: Vec::new(),
            ids: Vec::new(),
            epochs: Vec::new(),
        };
        for lease in leases {
            columns.owners.push(lease.owner);
            columns.ids.push(lease.id);
            columns.epochs.push(lease.epoch);
        }
        columns
    }
}
