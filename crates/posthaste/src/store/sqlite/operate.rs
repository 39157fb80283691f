//! Operate: clean, count, list, follow, and act on single events.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Params, Row, params, params_from_iter};
use uuid::Uuid;

use super::link::Link;
use super::{Outbox, decode, list};
use crate::enqueue::{EnqueueError, Outbox as Enqueue, Receipt};
use crate::event::Record;
use crate::message::Message;
use crate::pattern::Pattern;
use crate::store::{Act, Audit, Clean, Content, Filter, Mark, StoreError, storable};
use crate::table::Table;
use crate::topic::TopicRule;

/// Counting is given up after this: what a relay counts waits behind it.
const COUNTING: Duration = Duration::from_secs(3);

impl Outbox {
    /// Removes one batch of what is past its retention.
    pub(super) fn remove_old(&self, link: &mut Link, clean: &Clean) -> Result<u64, StoreError> {
        let now = decode::now();
        let before = |retention| now.saturating_sub(decode::length(retention));
        let values = params![
            before(clean.retention),
            clean.dead_retention.map(before),
            clean.limit
        ];
        let old = |connection: &Connection| -> rusqlite::Result<Vec<i64>> {
            rows(connection, &self.sql.old, values, |row| row.get(0))
        };
        // Most looks find nothing, and are in nobody's way.
        if link.read(old)?.is_empty() {
            return Ok(0);
        }
        link.write(|connection| self.remove(connection, &old(connection)?, clean.archive))
    }

    /// Removes those that have ended.
    pub(super) fn remove_ended(
        &self,
        link: &mut Link,
        ids: &[Uuid],
        archive: bool,
    ) -> Result<u64, StoreError> {
        let ids = list(ids);
        link.write(|connection| {
            let ended = rows(connection, &self.sql.ended, [&ids], |row| row.get(0))?;
            self.remove(connection, &ended, archive)
        })
    }

    fn remove(
        &self,
        connection: &Connection,
        sequences: &[i64],
        archive: bool,
    ) -> rusqlite::Result<u64> {
        let sequences = list(sequences);
        if archive {
            let mut archive = connection.prepare_cached(&self.sql.archive)?;
            archive.execute([&sequences])?;
        }
        let mut forget = connection.prepare_cached(&self.sql.forget_some)?;
        forget.execute([&sequences])?;
        let mut remove = connection.prepare_cached(&self.sql.remove)?;
        Ok(remove.execute([&sequences])? as u64)
    }

    /// Events as an operator sees them.
    pub(super) fn records(
        &self,
        link: &mut Link,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        if filter.matches_nothing() {
            return Ok(Vec::new());
        }
        let (mut values, some) = values(filter);
        values.push(i64::from(limit).into());
        let sql = match some {
            true => &self.sql.list_some,
            false => &self.sql.list,
        };
        link.read(|connection| rows(connection, sql, params_from_iter(&values), decode::record))
    }

    /// How many events a filter is about.
    pub(super) fn number(&self, link: &mut Link, filter: &Filter) -> Result<u64, StoreError> {
        if filter.matches_nothing() {
            return Ok(0);
        }
        let (values, some) = values(filter);
        let sql = match some {
            true => &self.sql.count_some,
            false => &self.sql.count,
        };
        link.read_within(COUNTING, |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let count: i64 = statement.query_row(params_from_iter(&values), |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
    }

    /// What an event says.
    pub(super) fn said(&self, link: &mut Link, id: Uuid) -> Result<Option<Content>, StoreError> {
        let found = link.read(|connection| {
            rows(
                connection,
                &self.sql.content,
                [id.to_string()],
                decode::content,
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Events that were delivered or died.
    pub(super) fn ended(
        &self,
        link: &mut Link,
        after: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let Some(mark) = after else {
            let mut latest = link
                .read(|connection| rows(connection, &self.sql.latest, [limit], decode::record))?;
            latest.reverse();
            return Ok(latest);
        };
        let values = params![decode::micros(mark.at), mark.sequence, limit];
        link.read(|connection| rows(connection, &self.sql.finished, values, decode::record))
    }

    /// What operators did.
    pub(super) fn acts(
        &self,
        link: &mut Link,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        let at = from.map(|mark| decode::micros(mark.at));
        let told = from.map_or(0, |mark| mark.sequence.max(0));
        let values = params![event.map(|id| id.to_string()), limit, at, told];
        link.read(|connection| rows(connection, &self.sql.audit, values, decode::audit))
    }

    /// Brings dead events back and enqueues delivered ones anew.
    pub(super) fn send_again(
        &self,
        link: &mut Link,
        ids: &[Uuid],
        act: &Act,
    ) -> Result<Vec<Uuid>, StoreError> {
        let now = decode::now();
        let acted = link.write(|connection| self.redeliver(connection, ids, act, now))?;
        // Relays of this process do not see that the file changed: it was their own connection.
        self.home.listeners.wake();
        Ok(acted)
    }

    /// The same, in a transaction.
    pub(super) fn redeliver(
        &self,
        connection: &Connection,
        ids: &[Uuid],
        act: &Act,
        now: i64,
    ) -> rusqlite::Result<Vec<Uuid>> {
        let ids = list(ids);
        let revived = rows(connection, &self.sql.revive, params![now, ids], event)?;
        for (id, topic) in &revived {
            self.note(connection, now, act, "redeliver", *id, topic, &act.why)?;
        }
        let mut sent: Vec<Uuid> = revived.into_iter().map(|(id, _)| id).collect();
        let again = rows(connection, &self.sql.again, [&ids], |row| {
            Ok((event(row)?, decode::id(row, 2)?))
        })?;
        for ((id, topic), origin) in again {
            let why = format!("{} (as {id})", act.why);
            self.note(connection, now, act, "redeliver", origin, &topic, &why)?;
            sent.push(id);
        }
        Ok(sent)
    }

    /// Gives live events up for good.
    pub(super) fn give_up(
        &self,
        link: &mut Link,
        ids: &[Uuid],
        act: &Act,
    ) -> Result<Vec<Uuid>, StoreError> {
        let (now, ids) = (decode::now(), list(ids));
        let acted = link.write(|connection| {
            let discarded = rows(connection, &self.sql.discard, params![now, ids], event)?;
            for (id, topic) in &discarded {
                self.note(connection, now, act, "discard", *id, topic, &act.why)?;
            }
            Ok(discarded.into_iter().map(|(id, _)| id).collect())
        })?;
        // What waited behind them in their keys may go now.
        self.home.listeners.wake();
        Ok(acted)
    }

    /// Enqueues in a transaction of its own.
    pub(super) fn add(
        &self,
        link: &mut Link,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError> {
        let outbox = Enqueue::of(Table::clone(&self.table)).topics(topics);
        let enqueued = link
            .write(
                |transaction| match outbox.enqueue_all_sync(transaction, messages) {
                    // What it wrote is to be undone.
                    Err(EnqueueError::Database(error)) => Err(match error.downcast() {
                        Ok(error) => *error,
                        Err(other) => rusqlite::Error::ToSqlConversionFailure(other),
                    }),
                    // Refused before anything was written.
                    answered => Ok(answered),
                },
            )
            .map_err(EnqueueError::database)?;
        self.home.listeners.wake();
        enqueued
    }

    /// Writes down what an operator did to no single event.
    pub(super) fn write_down(
        &self,
        link: &mut Link,
        what: &str,
        act: &Act,
    ) -> Result<(), StoreError> {
        let now = decode::now();
        link.write(|connection| self.note(connection, now, act, what, Uuid::nil(), "", &act.why))
    }

    /// Writes down what an operator did.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are the columns of the audit log"
    )]
    pub(super) fn note(
        &self,
        connection: &Connection,
        now: i64,
        act: &Act,
        name: &str,
        event: Uuid,
        topic: &str,
        why: &str,
    ) -> rusqlite::Result<()> {
        let actor = storable(&act.actor);
        let values = params![now, actor, name, event.to_string(), topic, storable(why)];
        connection
            .prepare_cached(&self.sql.note)?
            .execute(values)
            .map(drop)
    }
}

/// An id and a topic.
fn event(row: &Row<'_>) -> rusqlite::Result<(Uuid, String)> {
    Ok((decode::id(row, 0)?, decode::shown(row, 1)?))
}

pub(super) fn rows<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(values, read)?.collect()
}

/// A filter in the shape of `list.sql` and `count.sql`, or of those for some events, which find
/// them by their ids or statuses: those have two values more.
pub(super) fn values(filter: &Filter) -> (Vec<Value>, bool) {
    let (mut values, some) = (
        conditions(filter, decode::now()),
        !filter.ids.is_empty() || !filter.status.is_empty(),
    );
    if some {
        values.push((!filter.ids.is_empty()).then(|| list(&filter.ids)).into());
        values.push(statuses(filter));
    }
    (values, some)
}

/// The statuses of a filter, or null.
pub(super) fn statuses(filter: &Filter) -> Value {
    let status: Vec<&str> = filter.status.iter().map(|status| status.as_str()).collect();
    (!status.is_empty()).then(|| list(&status)).into()
}

/// `?1` to `?14` of all statements that take a filter, with ages as of this time.
pub(super) fn conditions(filter: &Filter, now: i64) -> Vec<Value> {
    let before = |age: Duration| now.saturating_sub(decode::length(age));
    let text = |text: &Option<String>| Value::from(text.clone());
    let scope = &filter.scope;
    let topics = (!scope.topics.is_empty()).then(|| list(&scope.topics));
    vec![
        text(&scope.namespace),
        topics.into(),
        scope.tenant_id.map(|tenant| tenant.to_string()).into(),
        filter.after.into(),
        filter.topic.as_ref().map(Pattern::glob).into(),
        filter.older_than.map(before).into(),
        filter.newer_than.map(before).into(),
        text(&filter.error),
        filter
            .reason
            .map(|reason| reason.as_str().to_owned())
            .into(),
        text(&filter.event_type),
        text(&filter.aggregate_type),
        text(&filter.aggregate_id),
        filter.ended_for.map(before).into(),
        text(&filter.fingerprint),
    ]
}

#[cfg(test)]
mod tests {
    /// From the first condition on, up to the last that all have.
    fn conditions(sql: &'static str) -> &'static str {
        let from = sql.rfind("where (?1").expect("conditions");
        let last = "coalesce(fingerprint, '') = ?14))";
        let to = sql.find(last).expect("all conditions") + last.len();
        &sql[from..to]
    }

    #[test]
    fn what_is_listed_is_what_is_counted_browsed_grouped_and_redelivered() {
        let list = conditions(include_str!("../../../sql/sqlite/list.sql"));
        for other in [
            include_str!("../../../sql/sqlite/list_some.sql"),
            include_str!("../../../sql/sqlite/count.sql"),
            include_str!("../../../sql/sqlite/count_some.sql"),
            include_str!("../../../sql/sqlite/browse_newest.sql"),
            include_str!("../../../sql/sqlite/browse_oldest.sql"),
            include_str!("../../../sql/sqlite/groups.sql"),
            include_str!("../../../sql/sqlite/next.sql"),
        ] {
            assert_eq!(conditions(other), list);
        }
    }
}
