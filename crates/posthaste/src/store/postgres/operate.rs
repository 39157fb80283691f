//! Operate: clean, count, list, and act on single events.

use std::time::Duration;

use uuid::Uuid;

use super::{Postgres, decode, topics};
use crate::event::Record;
use crate::store::{Act, Clean, Filter, Stats, StoreError};

impl Postgres {
    /// Removes one batch of what is past its retention.
    pub(super) async fn remove_old(&self, clean: &Clean) -> Result<u64, StoreError> {
        let (name, sql) = match clean.archive {
            true => ("clean_archive", &self.sql.clean_archive),
            false => ("clean", &self.sql.clean),
        };
        self.ops
            .execute(
                name,
                sql,
                &[
                    &clean.retention.as_secs_f64(),
                    &clean
                        .dead_retention
                        .map(|retention| retention.as_secs_f64()),
                    &i64::from(clean.limit),
                ],
            )
            .await
    }

    /// The outbox in numbers.
    pub(super) async fn count(&self) -> Result<Stats, StoreError> {
        let rows = self.ops.query("stats", &self.sql.stats, &[]).await?;
        let row = rows.first().expect("stats has one row");
        let count = |column| row.get::<_, i64>(column).unsigned_abs();
        Ok(Stats {
            pending: count("pending"),
            processing: count("processing"),
            dead: count("dead"),
            stuck: count("stuck"),
            oldest_pending: Duration::try_from_secs_f64(row.get("oldest_pending"))
                .unwrap_or_default(),
        })
    }

    /// Events as an operator sees them.
    pub(super) async fn records(
        &self,
        filter: &Filter,
        ids: Option<Vec<Uuid>>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let rows = self
            .ops
            .query(
                "list",
                &self.sql.list,
                &[
                    &filter.scope.namespace,
                    &topics(&filter.scope),
                    &filter.scope.tenant_id,
                    &filter.status.map(|status| status.as_str()),
                    &filter.after,
                    &ids,
                    &i64::from(limit),
                ],
            )
            .await?;
        Ok(rows.iter().map(decode::record).collect())
    }

    /// Does something to events, and writes it down.
    pub(super) async fn act(
        &self,
        name: &'static str,
        sql: &str,
        ids: &[Uuid],
        act: &Act,
    ) -> Result<Vec<Uuid>, StoreError> {
        let rows = self
            .ops
            .query(name, sql, &[&ids, &act.actor, &act.why])
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
