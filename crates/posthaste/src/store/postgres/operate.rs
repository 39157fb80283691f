//! Operate: clean, count, list, follow, and act on single events.

use std::time::Duration;

use uuid::Uuid;

use tokio_postgres::types::ToSql;

use super::decode::Timestamp;
use super::{Postgres, decode, topics};
use crate::event::{DeadReason, Record, Status};
use crate::pattern::Pattern;
use crate::store::{Act, Audit, Clean, Content, Filter, Mark, StoreError, storable};

/// No event is older, and every database can subtract it.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The server gives up counting after this: what a relay counts and cleans waits behind it.
const COUNTING: Duration = Duration::from_secs(3);

impl Postgres {
    /// Removes one batch of what is past its retention.
    pub(super) async fn remove_old(&self, clean: &Clean) -> Result<u64, StoreError> {
        let (name, sql) = match clean.archive {
            true => ("clean_archive", &self.sql.clean_archive),
            false => ("clean", &self.sql.clean),
        };
        let values: [&(dyn ToSql + Sync); 3] = [
            &clean.retention.as_secs_f64(),
            &clean
                .dead_retention
                .map(|retention| retention.as_secs_f64()),
            &i64::from(clean.limit),
        ];
        let rows = self.ops.query(name, sql, &values).await?;
        let row = rows.first().expect("a count has one row");
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    /// Removes those that have ended.
    pub(super) async fn remove_ended(
        &self,
        ids: &[Uuid],
        archive: bool,
    ) -> Result<u64, StoreError> {
        let (name, sql) = match archive {
            true => ("remove_archive", &self.sql.remove_archive),
            false => ("remove", &self.sql.remove),
        };
        let rows = self.ops.query(name, sql, &[&ids]).await?;
        let row = rows.first().expect("a count has one row");
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    /// Events as an operator sees them.
    pub(super) async fn records(
        &self,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        if filter.matches_nothing() {
            return Ok(Vec::new());
        }
        let values = Values::of(filter);
        let limit = i64::from(limit);
        let mut params = values.params();
        params.push(&limit);
        let rows = self.ops.query("list", &self.sql.list, &params).await?;
        Ok(rows.iter().map(decode::record).collect())
    }

    /// How many events a filter is about.
    pub(super) async fn number(&self, filter: &Filter) -> Result<u64, StoreError> {
        if filter.matches_nothing() {
            return Ok(0);
        }
        let values = Values::of(filter);
        let rows = self
            .ops
            .query_within(COUNTING, "count", &self.sql.count, &values.params())
            .await?;
        let row = rows.first().expect("a count has one row");
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }

    /// What an event says.
    pub(super) async fn said(&self, id: Uuid) -> Result<Option<Content>, StoreError> {
        let rows = self.ops.query("content", &self.sql.content, &[&id]).await?;
        Ok(rows.first().map(decode::content))
    }

    /// Events that were delivered or died.
    pub(super) async fn ended(
        &self,
        after: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let limit = i64::from(limit);
        let rows = match after {
            Some(mark) => {
                let at = Timestamp::of(mark.at);
                let params: [&(dyn ToSql + Sync); 3] = [&at, &mark.sequence, &limit];
                self.ops
                    .query("finished", &self.sql.finished, &params)
                    .await?
            }
            None => {
                self.ops
                    .query("latest", &self.sql.latest, &[&limit])
                    .await?
            }
        };
        Ok(rows.iter().map(decode::record).collect())
    }

    /// What operators did.
    pub(super) async fn acts(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        let at = from.map(|mark| Timestamp::of(mark.at));
        let told = from.map_or(0, |mark| mark.sequence.max(0));
        let params: [&(dyn ToSql + Sync); 4] = [&event, &i64::from(limit), &at, &told];
        let rows = self.ops.query("audit", &self.sql.audit, &params).await?;
        Ok(rows.iter().map(decode::audit).collect())
    }

    /// Writes down what an operator did to no single event.
    pub(super) async fn write_down(&self, what: &str, act: &Act) -> Result<(), StoreError> {
        let values: [&(dyn ToSql + Sync); 3] = [&storable(&act.actor), &what, &storable(&act.why)];
        let noted = self.ops.execute("note", &self.sql.note, &values).await;
        noted.map(drop)
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
            .query(
                name,
                sql,
                &[&ids, &storable(&act.actor), &storable(&act.why)],
            )
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

/// A filter in the shape of `list.sql` and of all others that have its conditions.
pub(super) struct Values<'f> {
    filter: &'f Filter,
    topics: Option<&'f [String]>,
    pub(super) status: Option<Vec<&'static str>>,
    ids: Option<&'f [Uuid]>,
    topic: Option<String>,
    older_than: Option<f64>,
    newer_than: Option<f64>,
    ended_for: Option<f64>,
    reason: Option<&'static str>,
}

impl<'f> Values<'f> {
    pub(super) fn of(filter: &'f Filter) -> Self {
        let seconds = |age: Duration| age.min(CENTURY).as_secs_f64();
        let status = || filter.status.iter().copied().map(Status::as_str).collect();
        Self {
            filter,
            topics: topics(&filter.scope),
            status: (!filter.status.is_empty()).then(status),
            ids: Some(filter.ids.as_slice()).filter(|ids| !ids.is_empty()),
            topic: filter.topic.as_ref().map(Pattern::like),
            older_than: filter.older_than.map(seconds),
            newer_than: filter.newer_than.map(seconds),
            ended_for: filter.ended_for.map(seconds),
            reason: filter.reason.map(DeadReason::as_str),
        }
    }

    /// `$1` and those that follow.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.filter.scope.namespace,
            &self.topics,
            &self.filter.scope.tenant_id,
            &self.status,
            &self.filter.after,
            &self.ids,
            &self.topic,
            &self.older_than,
            &self.newer_than,
            &self.filter.error,
            &self.reason,
            &self.filter.event_type,
            &self.filter.aggregate_type,
            &self.filter.aggregate_id,
            &self.ended_for,
            &self.filter.fingerprint,
        ]
    }
}

#[cfg(test)]
mod tests {
    /// The conditions of a filter, without how far they are indented.
    fn conditions(sql: &'static str) -> Vec<&'static str> {
        let lines = sql.lines().map(str::trim);
        let from_first = lines.skip_while(|line| !line.starts_with("where ($1::text"));
        let last = |line: &&str| line.starts_with("and ($16::text");
        let mut conditions: Vec<&str> = from_first.collect();
        let end = conditions.iter().position(last).expect("all conditions");
        conditions.truncate(end + 1);
        conditions
    }

    #[test]
    fn what_is_listed_is_what_is_counted_browsed_grouped_and_redelivered() {
        let list = conditions(include_str!("../../../sql/postgres/list.sql"));
        for other in [
            include_str!("../../../sql/postgres/count.sql"),
            include_str!("../../../sql/postgres/browse_newest.sql"),
            include_str!("../../../sql/postgres/browse_oldest.sql"),
            include_str!("../../../sql/postgres/groups.sql"),
            include_str!("../../../sql/postgres/advance.sql"),
        ] {
            assert_eq!(conditions(other), list);
        }
    }
}
