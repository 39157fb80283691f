//! The same on SQLite: enqueue, drain and latency, and what an idle relay costs.
//!
//! Files are in the folder for temporary files: see that it is on the disk that you mean (`TMPDIR`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use posthaste::store::Ordering;
use posthaste::{Outbox, Table, schema};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::bed::{Bed, message};
use crate::drain::{After, drain as through_relay};
use crate::latency::{PER_SECOND, tell};
use crate::relay_process::{RelayProcess, now};

const DUE: &str = include_str!("../../crates/posthaste/sql/sqlite/due.sql");
const READ: &str = include_str!("../../crates/posthaste/sql/sqlite/read.sql");
const TAKE: &str = include_str!("../../crates/posthaste/sql/sqlite/take.sql");
const DELIVER: &str = include_str!("../../crates/posthaste/sql/sqlite/deliver.sql");
const DELIVER_DELETE: &str = include_str!("../../crates/posthaste/sql/sqlite/deliver_delete.sql");
const BARE: &str = "insert into {outbox} \
    (id, namespace, topic, tenant_id, aggregate_type, aggregate_id, event_type, ordering_key, dedupe_key, \
     headers, content_type, payload, payload_bytes, traceparent, tracestate) \
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/// An outbox in a file of its own, which goes with it.
struct FreshFile {
    dir: PathBuf,
    table: Table,
    outbox: Outbox,
}

impl FreshFile {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("posthaste-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&dir)?;
        let table = Table::parse("outbox")?;
        let fresh = Self {
            dir,
            outbox: Outbox::of(table.clone()),
            table,
        };
        schema::sqlite::apply(&mut fresh.open()?, &fresh.table)?;
        Ok(fresh)
    }

    fn path(&self) -> PathBuf {
        self.dir.join("bench.db")
    }

    fn address(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// A connection whose commits are durable, as all are by default.
    fn open(&self) -> Result<Connection> {
        let connection = Connection::open(self.path())?;
        connection.execute_batch("pragma synchronous = full; pragma cache_size = -16384")?;
        Ok(connection)
    }

    fn fill(&self, events: i64) -> Result {
        let sql = "insert into outbox (id, topic, aggregate_type, aggregate_id, payload) \
            with recursive counter (n) as (select 1 union all select n + 1 from counter where n < ?1) \
            select printf('0197f3a0-%04x-7000-8000-%012x', n / 65536, n), 'shop.order.placed.v1', 'Order', n, \
                   json_object('order', n, 'note', printf('%.220c', 'x')) \
            from counter";
        let connection = self.open()?;
        connection.execute(sql, [events])?;
        let checkpoint = "pragma wal_checkpoint(truncate)";
        Ok(connection.query_row(checkpoint, [], |_| Ok(()))?)
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn sql(text: &str) -> String {
    text.replace("{outbox}", "outbox")
        .replace("{name:due}", "outbox_due")
}

/// One connection, one event per transaction, against a bare INSERT of the same columns.
pub(crate) async fn enqueue(bed: &Bed) -> Result {
    let rounds = if bed.quick { 6 } else { 20 };
    let turn = Duration::from_millis(600);
    let files = [FreshFile::new()?, FreshFile::new()?, FreshFile::new()?];
    let mut connections = Vec::new();
    for file in &files {
        connections.push(file.open()?);
    }
    let mut sums = [0.0; 3];
    let mut n = 0;
    // In short turns, so that a noisy moment hits all of them.
    for _ in 0..rounds {
        for (way, connection) in connections.iter_mut().enumerate() {
            let (started, mut made) = (Instant::now(), 0);
            while started.elapsed() < turn {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let outbox = &files[way].outbox;
                match way {
                    0 => insert(&transaction, n)?,
                    1 => drop(outbox.enqueue_sync(&transaction, &message(n))?),
                    _ => {
                        let message = message(n).id(Uuid::now_v7());
                        outbox.enqueue_sync(&transaction, &message)?;
                    }
                }
                transaction.commit()?;
                (n, made) = (n + 1, made + 1);
            }
            sums[way] += f64::from(made) / started.elapsed().as_secs_f64();
        }
    }
    let [bare, ours, once] = sums.map(|sum| sum / f64::from(rounds));
    let settings = json!({"connections": 1, "per_transaction": 1, "payload_bytes": 250, "sqlite": rusqlite::version(), "synchronous": "full"});
    bed.tell(
        "enqueue_sqlite",
        ours,
        "events/s",
        Some(bare),
        settings.clone(),
    );
    bed.tell(
        "enqueue_sqlite, id given",
        once,
        "events/s",
        Some(bare),
        settings,
    );
    Ok(())
}

fn insert(connection: &Connection, n: u64) -> Result {
    let payload = json!({"order": n, "note": "x".repeat(225)}).to_string();
    let none = None::<&str>;
    connection.prepare_cached(&sql(BARE))?.execute(params![
        Uuid::now_v7().to_string(),
        "",
        "shop.order.placed.v1",
        none,
        "Order",
        n.to_string(),
        none,
        none,
        none,
        "{}",
        "application/json",
        payload,
        None::<&[u8]>,
        none,
        none,
    ])?;
    Ok(())
}

/// A backlog through a relay, against the same statements in a bare loop on one connection.
pub(crate) async fn drain(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 30_000 } else { 100_000 };
    for after in [After::Deleted, After::Kept] {
        let mut best = (0.0, 0);
        let mut relay = 0.0_f64;
        for batch in [500, 1000, 2000] {
            let file = FreshFile::new()?;
            file.fill(events)?;
            let floor = bare_loop(&file, events, batch, after)?;
            if floor > best.0 {
                best = (floor, batch);
            }
            let file = FreshFile::new()?;
            file.fill(events)?;
            let (address, table) = (file.address(), file.table.clone());
            let count = events.unsigned_abs();
            let took = through_relay(&address, table, count, after, Ordering::None).await?;
            relay = relay.max(events as f64 / took.as_secs_f64());
        }
        bed.tell(
            &format!("drain_sqlite {events}, {}", after.name()),
            relay,
            "events/s",
            Some(best.0),
            json!({"batch_size": 500, "floor_batch_size": best.1, "best_of": 3, "sink": "no-op", "synchronous": "claims normal, settlements full"}),
        );
    }
    Ok(())
}

fn bare_loop(file: &FreshFile, events: i64, batch: i64, after: After) -> Result<f64> {
    let connection = file.open()?;
    let owner = Uuid::new_v4().to_string();
    let none = None::<&str>;
    let (mut at, mut sequence) = (0_i64, 0_i64);
    let mut left = events;
    let (due, read, take) = (sql(DUE), sql(READ), sql(TAKE));
    let (deliver, delete) = (sql(DELIVER), sql(DELIVER_DELETE));
    let started = Instant::now();
    while left > 0 {
        let time = i64::try_from(now() / 1000)?;
        let mut due = connection.prepare_cached(&due)?;
        let values = params![time, at, sequence, none, none, none, "[]", "[]", batch];
        let found: Vec<(i64, i64)> = due
            .query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        (sequence, at) = *found.last().ok_or("the bare loop found nothing")?;
        let list: Vec<i64> = found.iter().map(|(sequence, _)| *sequence).collect();
        let list = serde_json::to_string(&list)?;
        // What a claim is for: the event, and the right to settle it.
        let mut read = connection.prepare_cached(&read)?;
        let mut events: HashMap<i64, (String, String)> = read
            .query_map([&list], |row| {
                Ok((row.get(0)?, (row.get(1)?, row.get(12)?)))
            })?
            .collect::<rusqlite::Result<_>>()?;
        connection.execute_batch("pragma synchronous = normal; begin immediate")?;
        let values = params![time, list, 60_000_000, owner, 25, "[]"];
        let mut take = connection.prepare_cached(&take)?;
        let leases: Vec<(i64, i64)> = take
            .query_map(values, |row| Ok((row.get(0)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let taken: Vec<(String, i64, String)> = leases
            .into_iter()
            .filter_map(|(sequence, epoch)| {
                let (id, payload) = events.remove(&sequence)?;
                Some((id, epoch, payload))
            })
            .collect();
        connection.execute_batch("commit; pragma synchronous = full; begin immediate")?;
        for (id, epoch, _) in &taken {
            let settled = match after {
                After::Kept => connection
                    .prepare_cached(&deliver)?
                    .execute(params![time, id, owner, epoch])?,
                After::Deleted => connection
                    .prepare_cached(&delete)?
                    .execute(params![id, owner, epoch])?,
            };
            left -= settled as i64;
        }
        connection.execute_batch("commit")?;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// From commit to sink, in another process.
pub(crate) async fn latency(bed: &Bed) -> Result {
    let seconds = if bed.quick { 8 } else { 30 };
    let file = FreshFile::new()?;
    let relay = RelayProcess::start(&file.address(), &file.table, 86_400).await?;
    let mut connection = file.open()?;
    let mut committed = HashMap::new();
    let mut beat = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    for n in 0..seconds * PER_SECOND {
        beat.tick().await;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let receipt = file.outbox.enqueue_sync(&transaction, &message(n))?;
        transaction.commit()?;
        committed.insert(receipt.id, now());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    tell(
        bed,
        "latency_sqlite",
        PER_SECOND,
        committed,
        relay.stop().await?,
    )
}

/// A relay with nothing to do.
pub(crate) async fn idle(bed: &Bed) -> Result {
    let (settle, watch) = if bed.quick { (3, 7) } else { (60, 20) };
    let file = FreshFile::new()?;
    let relay = RelayProcess::start(&file.address(), &file.table, 86_400).await?;
    tokio::time::sleep(Duration::from_secs(settle)).await;
    let (before, started) = (relay.usage()?.cpu, Instant::now());
    tokio::time::sleep(Duration::from_secs(watch)).await;
    let cpu = (relay.usage()?.cpu - before).as_secs_f64() / started.elapsed().as_secs_f64();
    relay.stop().await?;
    let settings = json!({"idle_for_seconds": settle, "seconds": watch});
    bed.tell(
        "idle relay, sqlite",
        cpu * 100.0,
        "% of a core",
        None,
        settings,
    );
    Ok(())
}
