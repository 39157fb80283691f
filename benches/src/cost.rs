//! What a relay costs: at rest, in memory, and what an event costs the database.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_postgres::Client;

use posthaste::store::Ordering;

use crate::Result;
use crate::bed::Bed;
use crate::drain::{After, drain};
use crate::relay_process::RelayProcess;

/// A relay with nothing to do.
pub(crate) async fn idle(bed: &Bed) -> Result {
    let (settle, watch) = if bed.quick { (3, 7) } else { (60, 20) };
    let fresh = bed.fresh().await?;
    let relay = RelayProcess::start(&bed.url, &fresh.table, 86_400).await?;
    tokio::time::sleep(Duration::from_secs(settle)).await;
    let (before, queries) = (relay.usage()?, transactions(&fresh.client).await?);
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(watch)).await;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = (relay.usage()?.cpu - before.cpu).as_secs_f64() / seconds * 100.0;
    // The statistics of a session are seen a second late; ours are two of the queries.
    let queries = (transactions(&fresh.client).await? - queries) as f64 / seconds;
    relay.stop().await?;
    bed.tell(
        "idle relay",
        cpu,
        "% of a core",
        None,
        json!({"queries_per_second": (queries * 10.0).round() / 10.0, "idle_for_seconds": settle, "seconds": seconds.round()}),
    );
    fresh.drop().await
}

async fn transactions(client: &Client) -> Result<i64> {
    Ok(client
        .query_one(
            "select (xact_commit + xact_rollback)::bigint from pg_stat_database where datname = current_database()",
            &[],
        )
        .await?
        .get(0))
}

/// A relay that drains a large backlog.
pub(crate) async fn memory(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 100_000 } else { 1_000_000 };
    let fresh = bed.fresh().await?;
    fresh.fill(events).await?;
    let relay = RelayProcess::start(&bed.url, &fresh.table, 0).await?;
    let left = fresh.sql("select exists (select from {outbox})");
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        if !fresh.client.query_one(&left, &[]).await?.get::<_, bool>(0) {
            break;
        }
    }
    let usage = relay.usage()?;
    let delivered = relay.stop().await?.len();
    bed.tell(
        "memory of a relay that drains",
        usage.peak_kib as f64 / 1024.0,
        "MiB",
        None,
        json!({"events": events, "delivered": delivered, "cpu_seconds": usage.cpu.as_secs_f64()}),
    );
    fresh.drop().await
}

/// WAL bytes and row versions of one delivered event, from enqueue to settled.
pub(crate) async fn per_event(bed: &Bed) -> Result {
    let events: i64 = if bed.quick { 20_000 } else { 100_000 };
    for (name, after) in [("kept", After::Kept), ("deleted", After::Deleted)] {
        let fresh = bed.fresh().await?;
        let wal = || async {
            let row = fresh
                .client
                .query_one("select (pg_current_wal_insert_lsn() - '0/0')::float8", &[])
                .await?;
            Ok::<f64, tokio_postgres::Error>(row.get(0))
        };
        let start = wal().await?;
        fresh.fill(events).await?;
        let filled = wal().await?;
        drain(
            &bed.url,
            fresh.table.clone(),
            events.unsigned_abs(),
            after,
            Ordering::None,
        )
        .await?;
        let drained = wal().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let row = fresh
            .client
            .query_one(
                "select n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del from pg_stat_user_tables \
                 where schemaname = $1 and relname = $2",
                &[&fresh.table.schema(), &fresh.table.name()],
            )
            .await?;
        let n = events as f64;
        let share = |column: usize| (row.get::<_, i64>(column) as f64 / n * 100.0).round() / 100.0;
        bed.tell(
            &format!("WAL of one event, {name}"),
            (drained - start) / n,
            "bytes",
            None,
            json!({
                "events": events, "of_it_enqueue": ((filled - start) / n).round(), "row_versions": 1.0 + share(1),
                "updates": share(1), "of_them_in_page": share(2), "deletes": share(3),
            }),
        );
        fresh.drop().await?;
    }
    Ok(())
}
