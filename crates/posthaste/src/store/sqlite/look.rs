//! Look: counts, pages, attempts, groups, relays, blocked keys and the file's condition.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use super::link::Link;
use super::operate::{conditions, rows, statuses};
use super::{Outbox, decode};
use crate::event::Status;
use crate::store::group::{Dead, Grouping};
use crate::store::{
    ATTEMPTS_KEPT, Attempt, BLOCKED_LOOK, BlockedKey, Filter, GROUP_LOOK, Group, Health, LIVE_LOOK,
    Mark, Order, PAGE_LOOK, Page, RelayInfo, Stats, StoreError, WAITING_LOOK, crew, history,
};

/// What has been leased for longer is stuck.
const STUCK: Duration = Duration::from_secs(300);

impl Outbox {
    /// The outbox in numbers.
    pub(super) fn in_numbers(&self, link: &mut Link) -> Result<Stats, StoreError> {
        let now = decode::now();
        let stuck = now - decode::length(STUCK);
        let look = u64::from(LIVE_LOOK);
        link.read(|connection| {
            let mut statement = connection.prepare_cached(&self.sql.stats)?;
            statement.query_row(params![now, stuck, LIVE_LOOK], |row| {
                let oldest: Option<i64> = row.get(3)?;
                let waited = oldest.map_or(0, |oldest| now.saturating_sub(oldest));
                let dead: u64 = row.get::<_, u32>(4)?.into();
                let looked: u64 = row.get::<_, u32>(5)?.into();
                let enqueued: Option<i64> = row.get(6)?;
                Ok(Stats {
                    pending: row.get::<_, u32>(0)?.into(),
                    processing: row.get::<_, u32>(1)?.into(),
                    stuck: row.get::<_, u32>(2)?.into(),
                    oldest_pending: Duration::from_micros(waited.unsigned_abs()),
                    dead,
                    at_least: looked >= look || dead >= look,
                    enqueued: Some(enqueued.unwrap_or(0).unsigned_abs()),
                })
            })
        })
    }

    /// A page of events.
    pub(super) fn page(
        &self,
        link: &mut Link,
        mut filter: Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        filter.after = None;
        if filter.matches_nothing() || limit == 0 {
            return Ok(Page::default());
        }
        // Events that are named are found by their ids, however many others there are.
        if !filter.ids.is_empty() {
            let all = u32::try_from(filter.ids.len()).unwrap_or(u32::MAX);
            let records = self.records(link, &filter, all)?;
            return Ok(Page::of(records, order, from, limit));
        }
        let (browse, reach) = match order {
            Order::NewestFirst => (&self.sql.browse_newest, &self.sql.reach_newest),
            Order::OldestFirst => (&self.sql.browse_oldest, &self.sql.reach_oldest),
        };
        let (at, sequence) = match (from, order) {
            (Some(mark), _) => (decode::micros(mark.at), mark.sequence),
            (None, Order::NewestFirst) => (i64::MAX, i64::MAX),
            (None, Order::OldestFirst) => (i64::MIN, i64::MIN),
        };
        let statuses = statuses(&filter);
        let mut values = conditions(&filter, decode::now());
        let place: [Value; 4] = [
            at.into(),
            sequence.into(),
            i64::from(PAGE_LOOK).into(),
            i64::from(limit).into(),
        ];
        values.push(statuses.clone());
        values.extend(place);
        link.read(|connection| {
            // What it looked at, and where it ended, are from one moment: relays go on meanwhile.
            let moment = connection.unchecked_transaction()?;
            let records = rows(&moment, browse, params_from_iter(&values), decode::record)?;
            let next = match records.last() {
                Some(last) if records.len() >= limit as usize => Some(last.place()),
                _ => moment
                    .prepare_cached(reach)?
                    .query_row(params![PAGE_LOOK, statuses, at, sequence], mark)
                    .optional()?,
            };
            Ok(Page { records, next })
        })
    }

    /// Every attempt of an event.
    pub(super) fn attempts(&self, link: &mut Link, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        let filter = Filter {
            ids: vec![id],
            ..Filter::default()
        };
        let Some(record) = self.records(link, &filter, 1)?.into_iter().next() else {
            return Ok(Vec::new());
        };
        let values = params![id.to_string(), ATTEMPTS_KEPT as i64];
        let mut written =
            link.read(|connection| rows(connection, &self.sql.history, values, decode::attempt))?;
        written.reverse();
        Ok(history::complete(&record, written))
    }

    /// Dead events in groups.
    pub(super) fn dead_groups(
        &self,
        link: &mut Link,
        filter: &Filter,
        limit: u32,
    ) -> Result<Vec<Group>, StoreError> {
        let Some(filter) = filter.of_the_dead() else {
            return Ok(Vec::new());
        };
        let mut values = conditions(&filter, decode::now());
        values.push(Value::Integer(GROUP_LOOK.into()));
        let ids = &filter.ids;
        let groups = link.read(|connection| {
            let mut groups = Grouping::default();
            let mut statement = connection.prepare_cached(&self.sql.groups)?;
            let mut found = statement.query(params_from_iter(&values))?;
            while let Some(row) = found.next()? {
                let dead = dead(row)?;
                if let Some(dead) = dead.filter(|dead| ids.is_empty() || ids.contains(&dead.id)) {
                    groups.add(dead);
                }
            }
            Ok(groups)
        })?;
        Ok(groups.largest(limit))
    }

    /// The relays that are known: those of this process, and whoever else holds leases.
    pub(super) fn crew(&self, link: &mut Link) -> Result<Vec<RelayInfo>, StoreError> {
        let leases: Vec<(Uuid, u64, SystemTime)> = link.read(|connection| {
            rows(connection, &self.sql.leases, [LIVE_LOOK], |row| {
                let oldest = decode::system_time(row.get(2)?);
                Ok((decode::id(row, 0)?, row.get::<_, u32>(1)?.into(), oldest))
            })
        })?;
        let (ours, leader) = self
            .home
            .relays(&self.key, |relays| (relays.owners.clone(), relays.leader));
        let elsewhere = self.home.relays_elsewhere();
        let mut crew: BTreeMap<Uuid, RelayInfo> = ours
            .iter()
            .map(|(&owner, &alive)| {
                let relay = RelayInfo {
                    alive,
                    leads: leader == Some(owner),
                    ..RelayInfo::new(owner, Some(crew::name()))
                };
                (owner, relay)
            })
            .collect();
        let pid = elsewhere.as_ref().and_then(|other| other.pid);
        let other = |owner| RelayInfo {
            alive: elsewhere.is_some(),
            pid,
            ..RelayInfo::new(owner, pid.map(|pid| format!("process {pid}")))
        };
        for (owner, count, oldest) in leases {
            let relay = crew.entry(owner).or_insert_with(|| other(owner));
            relay.leases = count;
            relay.oldest_lease = Some(oldest);
        }
        if elsewhere.is_some() {
            // Only one process at a time relays a file, also while it holds no lease that could name it.
            let theirs = crew.values().filter(|it| !ours.contains_key(&it.owner));
            let last = theirs.max_by_key(|relay| relay.oldest_lease);
            let owner = last.map_or(Uuid::nil(), |relay| relay.owner);
            crew.entry(owner).or_insert_with(|| other(owner)).leads = true;
        }
        let mut crew: Vec<RelayInfo> = crew.into_values().collect();
        crew.sort_by_key(|relay| !relay.alive);
        Ok(crew)
    }

    /// Ordering keys that are held up.
    pub(super) fn blocked_keys(
        &self,
        link: &mut Link,
        limit: u32,
    ) -> Result<Vec<BlockedKey>, StoreError> {
        let now = decode::now();
        let mut blocked = link.read(|connection| {
            let values = params![now, BLOCKED_LOOK];
            let keys = rows(connection, &self.sql.blocking, values, |row| {
                decode::shown(row, 0)
            })?;
            let mut blocked = Vec::new();
            for key in keys {
                blocked.extend(self.blocked_key(connection, &key, now)?);
            }
            Ok(blocked)
        })?;
        blocked.sort_by(|a, b| b.waiting.cmp(&a.waiting).then_with(|| a.key.cmp(&b.key)));
        blocked.truncate(limit as usize);
        Ok(blocked)
    }

    fn blocked_key(
        &self,
        connection: &Connection,
        key: &str,
        now: i64,
    ) -> rusqlite::Result<Option<BlockedKey>> {
        let mut statement = connection.prepare_cached(&self.sql.head)?;
        let head = statement.query_row([key], head).optional()?;
        let Some((mut blocked, sequence)) = head else {
            return Ok(None);
        };
        let waits = |at: SystemTime| decode::micros(at) > now;
        let held_up = match blocked.status {
            Status::Dead => true,
            Status::Pending => blocked.next_attempt_at.is_some_and(waits),
            _ => false,
        };
        if !held_up {
            return Ok(None);
        }
        let values = params![key, sequence, WAITING_LOOK];
        let mut behind = connection.prepare_cached(&self.sql.behind)?;
        blocked.waiting = behind.query_row(values, |row| row.get::<_, u32>(0))?.into();
        Ok(Some(blocked).filter(|blocked| blocked.waiting > 0))
    }

    /// How the file copes.
    pub(super) fn condition(&self, link: &mut Link) -> Result<Health, StoreError> {
        link.read(|connection| {
            let pragma = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            let pages = pragma("pragma page_count")?.unsigned_abs();
            let size = pragma("pragma page_size")?.unsigned_abs();
            Ok(Health {
                server: format!("SQLite {}", rusqlite::version()),
                file_bytes: Some(pages.saturating_mul(size)),
                pages: Some(pages),
                free_pages: Some(pragma("pragma freelist_count")?.unsigned_abs()),
                ..Health::default()
            })
        })
    }
}

fn mark(row: &Row<'_>) -> rusqlite::Result<Mark> {
    Ok(Mark {
        at: decode::system_time(row.get(0)?),
        sequence: row.get(1)?,
    })
}

fn dead(row: &Row<'_>) -> rusqlite::Result<Option<Dead>> {
    let Some(reason) = decode::reason(decode::maybe_shown(row, 1)?) else {
        return Ok(None);
    };
    Ok(Some(Dead {
        fingerprint: decode::shown(row, 0)?,
        reason,
        topic: decode::shown(row, 2)?,
        at: decode::system_time(row.get(3)?),
        id: decode::id(row, 4)?,
        error: decode::maybe_shown(row, 5)?,
    }))
}

/// The first event of a key, and its sequence.
fn head(row: &Row<'_>) -> rusqlite::Result<(BlockedKey, i64)> {
    let dead_at: Option<i64> = row.get(9)?;
    let dead_at = dead_at.map(decode::system_time);
    let blocked = BlockedKey {
        key: decode::shown(row, 0)?,
        head: decode::id(row, 1)?,
        topic: decode::shown(row, 2)?,
        status: match Status::parse(&decode::shown(row, 3)?) {
            Some(status) => status,
            None if dead_at.is_some() => Status::Dead,
            None => Status::Pending,
        },
        reason: decode::reason(decode::maybe_shown(row, 4)?),
        attempts: decode::attempts(row, 5)?,
        error: decode::maybe_shown(row, 6)?,
        since: dead_at.unwrap_or(decode::system_time(row.get(7)?)),
        next_attempt_at: match dead_at {
            Some(_) => None,
            None => Some(decode::system_time(row.get(8)?)),
        },
        waiting: 0,
    };
    Ok((blocked, row.get(10)?))
}
