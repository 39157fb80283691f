//! Look: counts, pages, attempts, groups, relays, blocked keys and the server's condition.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::decode::{self, Shown, Timestamp};
use super::operate::Values;
use super::{Postgres, presence};
use crate::event::Status;
use crate::store::{
    ATTEMPTS_KEPT, Attempt, BLOCKED_LOOK, BlockedKey, Ending, Filter, GROUP_LOOK, GROUP_TOPICS,
    Group, Health, Holder, LIVE_LOOK, Mark, Order, PAGE_LOOK, Page, RelayInfo, Stats, Store,
    StoreError, WAITING_LOOK, history,
};

impl Postgres {
    /// The outbox in numbers.
    pub(super) async fn in_numbers(&self) -> Result<Stats, StoreError> {
        let name = |place| self.table.render(place);
        let names = [
            name("{outbox}"),
            name("{outbox:due}"),
            name("{outbox:dead}"),
        ];
        let look = i64::from(LIVE_LOOK);
        let values: [&(dyn ToSql + Sync); 4] = [&look, &names[0], &names[1], &names[2]];
        let rows = self.ops.query("stats", &self.sql.stats, &values).await?;
        let row = rows.first().expect("stats has one row");
        let count = |column| row.get::<_, i64>(column).unsigned_abs();
        let estimate = |column| {
            let estimate: Option<i64> = row.get(column);
            estimate.unwrap_or(0).max(0).unsigned_abs()
        };
        let mut stats = Stats {
            pending: count("pending"),
            processing: count("processing"),
            dead: count("dead"),
            stuck: count("stuck"),
            oldest_pending: Duration::try_from_secs_f64(row.get("oldest_pending"))
                .unwrap_or_default(),
            at_least: false,
            enqueued: row.get::<_, bool>("may_know").then(|| estimate("enqueued")),
        };
        if count("looked") >= u64::from(LIVE_LOOK) {
            let live = estimate("live_estimate").saturating_sub(stats.processing);
            stats.pending = stats.pending.max(live);
            stats.at_least = true;
        }
        if stats.dead >= u64::from(LIVE_LOOK) {
            stats.dead = stats.dead.max(estimate("dead_estimate"));
            stats.at_least = true;
        }
        Ok(stats)
    }

    /// A page of events.
    pub(super) async fn page(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let filter = Filter {
            after: None,
            ..filter.clone()
        };
        if filter.matches_nothing() || limit == 0 {
            return Ok(Page::default());
        }
        let (page, browse) = match order {
            Order::NewestFirst => ("browse_newest", &self.sql.browse_newest),
            Order::OldestFirst => ("browse_oldest", &self.sql.browse_oldest),
        };
        let (at, sequence) = match (from, order) {
            (Some(mark), _) => (Timestamp::of(mark.at), mark.sequence),
            (None, Order::NewestFirst) => (Timestamp(i64::MAX), i64::MAX),
            (None, Order::OldestFirst) => (Timestamp(i64::MIN), i64::MIN),
        };
        // Events that are named are found by their ids, however many others there are.
        let look = match filter.ids.is_empty() {
            true => i64::from(PAGE_LOOK),
            false => return self.named(&filter, order, from, limit).await,
        };
        let values = Values::of(&filter);
        let size = i64::from(limit);
        let mut params = values.params();
        params.extend([&size as &(dyn ToSql + Sync), &at, &sequence, &look]);
        let rows = self.ops.query(page, browse, &params).await?;
        let is_event = |row: &&Row| row.get::<_, Option<Uuid>>("id").is_some();
        let records: Vec<_> = rows.iter().filter(is_event).map(decode::record).collect();
        // Either the page is full, or else there is a row for where it ended.
        let last = rows
            .last()
            .filter(|row| rows.len() >= limit as usize || !is_event(row));
        let next = last.map(|row| Mark {
            at: row.get::<_, Timestamp>("place").system_time(),
            sequence: row.get("sequence"),
        });
        Ok(Page { records, next })
    }

    async fn named(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let all = u32::try_from(filter.ids.len()).unwrap_or(u32::MAX);
        let records = self.records(filter, all).await?;
        Ok(Page::of(records, order, from, limit))
    }

    /// Every attempt of an event.
    pub(super) async fn attempts(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        let Some(record) = self.show(id).await? else {
            return Ok(Vec::new());
        };
        let values: [&(dyn ToSql + Sync); 2] = [&id, &(ATTEMPTS_KEPT as i64)];
        let rows = self
            .ops
            .query("history", &self.sql.history, &values)
            .await?;
        let written = rows.iter().rev().map(attempt).collect();
        Ok(history::complete(&record, written))
    }

    /// Dead events in groups.
    pub(super) async fn dead_groups(
        &self,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<Group>, StoreError> {
        let Some(filter) = filter.of_the_dead() else {
            return Ok(Vec::new());
        };
        let values = Values::of(&filter);
        let (size, topics) = (i64::from(limit), GROUP_TOPICS as i32);
        let look = i64::from(GROUP_LOOK);
        let mut params = values.params();
        params.extend([&size as &(dyn ToSql + Sync), &topics, &look]);
        let rows = self.ops.query("groups", &self.sql.groups, &params).await?;
        Ok(rows.iter().filter_map(group).collect())
    }

    /// The relays that are known.
    pub(super) async fn crew(&self) -> Result<Vec<RelayInfo>, StoreError> {
        let key = presence::leader_key(&self.table);
        let values: [&(dyn ToSql + Sync); 2] = [&key, &i64::from(LIVE_LOOK)];
        let rows = self.ops.query("relays", &self.sql.relays, &values).await?;
        let relay = |row: &Row| RelayInfo {
            since: time(row, "since"),
            leases: row.get::<_, i64>("leases").unsigned_abs(),
            oldest_lease: time(row, "oldest_lease"),
            leads: row.get("leads"),
            alive: row.get("alive"),
            ..RelayInfo::new(row.get("owner"), row.get("name"))
        };
        Ok(rows.iter().map(relay).collect())
    }

    /// Ordering keys that are held up.
    pub(super) async fn blocked_keys(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError> {
        let values: [&(dyn ToSql + Sync); 3] = [
            &i64::from(limit),
            &i64::from(BLOCKED_LOOK),
            &i64::from(WAITING_LOOK),
        ];
        let rows = self
            .ops
            .query("blocked", &self.sql.blocked, &values)
            .await?;
        let key = |row: &Row| {
            let dead_at = time(row, "dead_at");
            let updated_at = row.get::<_, Timestamp>("updated_at").system_time();
            BlockedKey {
                key: decode::shown(row, "ordering_key"),
                head: row.get("id"),
                topic: decode::shown(row, "topic"),
                status: Status::parse(row.get("status")).expect("the table checks the status"),
                reason: decode::reason(row.get("dead_reason")),
                attempts: decode::attempts(row.get("attempts")),
                error: decode::maybe_shown(row, "last_error"),
                since: dead_at.unwrap_or(updated_at),
                next_attempt_at: time(row, "next_attempt_at").filter(|_| dead_at.is_none()),
                waiting: row.get::<_, i64>("waiting").unsigned_abs(),
            }
        };
        Ok(rows.iter().map(key).collect())
    }

    /// How the server copes.
    pub(super) async fn condition(&self) -> Result<Health, StoreError> {
        let values: [&(dyn ToSql + Sync); 2] = [&self.table.schema(), &self.table.name()];
        let rows = self.ops.query("health", &self.sql.health, &values).await?;
        let row = rows
            .first()
            .expect("the outbox was there when it connected");
        let count = |column| row.get::<_, Option<i64>>(column).map(i64::unsigned_abs);
        let holder = row.get::<_, Option<i32>>("pid").map(|pid| Holder {
            pid,
            age: Duration::try_from_secs_f64(row.get("age")).unwrap_or_default(),
            state: row.get("state"),
            application: row.get("application"),
        });
        Ok(Health {
            server: row.get("server"),
            table_bytes: count("table_bytes"),
            index_bytes: count("index_bytes"),
            live_rows: count("live_rows"),
            dead_rows: count("dead_rows"),
            vacuumed_at: time(row, "vacuumed_at"),
            analyzed_at: time(row, "analyzed_at"),
            sees_transactions: row.get("sees_all"),
            oldest_transaction: holder,
            connections: count("connections"),
            connection_limit: count("connection_limit"),
            ..Health::default()
        })
    }
}

fn time(row: &Row, column: &str) -> Option<SystemTime> {
    row.get::<_, Option<Timestamp>>(column)
        .map(Timestamp::system_time)
}

fn attempt(row: &Row) -> Attempt {
    Attempt {
        number: decode::attempts(row.get("number")),
        epoch: row.get("epoch"),
        claimed_at: time(row, "claimed_at"),
        ended_at: time(row, "ended_at"),
        took: row
            .get::<_, Option<f64>>("took")
            .and_then(|took| Duration::try_from_secs_f64(took).ok()),
        ending: Ending::parse(row.get("ending")).unwrap_or(Ending::Failed),
        error: decode::maybe_shown(row, "error"),
        relay: row.get("relay"),
        relay_name: row.get("relay_name"),
        destination: row.get("destination"),
    }
}

fn group(row: &Row) -> Option<Group> {
    let topics: Vec<Shown> = row.get("topics");
    Some(Group {
        fingerprint: row.get("fingerprint"),
        reason: decode::reason(row.get("dead_reason"))?,
        count: row.get::<_, i64>("events").unsigned_abs(),
        error: decode::maybe_shown(row, "last_error"),
        topics: topics.into_iter().map(|topic| topic.0).collect(),
        oldest: time(row, "oldest")?,
        newest: time(row, "newest")?,
        sample: row.get("id"),
    })
}
