//! Examine: what a relay on PostgreSQL depends on, and what may trouble it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::Row;

use super::Postgres;
use crate::store::{Finding, StoreError};

/// The oldest server that the tests have been run on.
const OLDEST: i32 = 150_000;
/// Clocks further apart than this make times of different machines hard to compare.
const SKEW: Duration = Duration::from_secs(5);
/// A transaction older than this keeps dead rows from being removed for too long.
const LONG_TRANSACTION: Duration = Duration::from_secs(300);
/// So many connections a relay may need when it starts.
const CONNECTIONS: i64 = 4;

impl Postgres {
    /// Everything that was looked at, good or bad.
    pub(super) async fn find(&self) -> Result<Vec<Finding>, StoreError> {
        let asked = SystemTime::now();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
            [&self.table.schema(), &self.table.name()];
        let rows = self
            .ops
            .query("examine", &self.sql.examine, &parameters)
            .await?;
        let answered = SystemTime::now();
        let row = rows
            .first()
            .expect("the outbox was there when it connected");
        Ok(vec![
            server(row),
            clock(row, asked, answered),
            rights(row),
            durability(row),
            connections(row),
            vacuum(row),
            transactions(row),
        ])
    }
}

fn server(row: &Row) -> Finding {
    let found = format!("PostgreSQL {}", row.get::<_, String>("version_text"));
    let finding = Finding::good("server", found);
    if row.get("is_standby") {
        finding.bad("this is a standby, which takes no writes: give the primary's address")
    } else if row.get::<_, i32>("version") < OLDEST {
        finding.doubtful("Posthaste is tested on PostgreSQL 15 and later: upgrade")
    } else {
        finding
    }
}

fn clock(row: &Row, asked: SystemTime, answered: SystemTime) -> Finding {
    let theirs = UNIX_EPOCH + Duration::from_secs_f64(row.get::<_, f64>("clock").max(0.0));
    // However long the question took, a clock that agrees with ours was read in between.
    let skew = match (
        asked.duration_since(theirs),
        theirs.duration_since(answered),
    ) {
        (Ok(behind), _) => behind,
        (_, Ok(ahead)) => ahead,
        _ => Duration::ZERO,
    };
    let finding = Finding::good(
        "clock",
        format!("{:.1} s apart from the server's", skew.as_secs_f64()),
    );
    match skew > SKEW {
        true => finding.doubtful(
            "due and lease times are the server's and are safe, but logs are hard to compare: synchronise both clocks (NTP)",
        ),
        false => finding,
    }
}

fn rights(row: &Row) -> Finding {
    let lacking: Vec<String> = row.get("lacking");
    if lacking.is_empty() {
        return Finding::good("rights", "all that a relay needs");
    }
    Finding::good("rights", format!("this user may not {}", lacking.join(", "))).bad(
        "grant it the relay role that `posthaste migrate --print --roles` makes, or connect as another user",
    )
}

fn durability(row: &Row) -> Finding {
    let commits: String = row.get("synchronous_commit");
    if !row.get::<_, bool>("fsync") {
        return Finding::good("durability", "fsync is off").bad(
            "a crash may lose or corrupt committed events: set fsync = on in the server's configuration",
        );
    }
    let finding = Finding::good(
        "durability",
        format!("fsync on, synchronous_commit {commits}"),
    );
    match commits == "off" {
        true => finding.doubtful(
            "a crash of the server may lose the last commits and their events: set synchronous_commit = on",
        ),
        false => finding,
    }
}

fn connections(row: &Row) -> Finding {
    let (used, limit): (i64, i64) = (
        row.get("connections"),
        row.get::<_, i32>("connection_limit").into(),
    );
    let finding = Finding::good("connections", format!("{used} of {limit} in use"));
    match limit - used < CONNECTIONS {
        true => finding.doubtful(
            "a relay needs four connections for each outbox: raise the server's max_connections, or close some",
        ),
        false => finding,
    }
}

fn vacuum(row: &Row) -> Finding {
    let (live, dead): (i64, i64) = (row.get("live"), row.get("dead"));
    let bytes: i64 = row.get("bytes");
    let found = format!(
        "about {live} live and {dead} dead rows in {:.1} MiB",
        bytes as f64 / 1_048_576.0
    );
    let finding = Finding::good("vacuum", found);
    if !row.get::<_, bool>("autovacuum") {
        finding.bad("autovacuum is off, and the outbox will grow without end: set autovacuum = on")
    } else if dead > 100_000 && dead > live.saturating_mul(4) {
        finding.doubtful(
            "vacuum does not keep up: end long transactions, then run vacuum on the table",
        )
    } else {
        finding
    }
}

fn transactions(row: &Row) -> Finding {
    let seconds = row.get::<_, f64>("holding_seconds").max(0.0) as u64;
    let is_long = Duration::from_secs(seconds) > LONG_TRANSACTION;
    let prepared: Option<String> = row.get("holding_prepared");
    let slot: Option<String> = row.get("holding_slot");
    match (row.get::<_, Option<i32>>("holding_pid"), prepared) {
        (Some(pid), _) if is_long => {
            let found = format!("process {pid} has had one open for {seconds} s");
            Finding::good("transactions", found).doubtful(format!(
                "it keeps dead rows from being removed: end it, if need be with select pg_terminate_backend({pid})"
            ))
        }
        (_, Some(name)) if is_long => {
            let found = format!(
                "{name:?} was prepared {seconds} s ago, and is neither committed nor rolled back"
            );
            Finding::good("transactions", found).doubtful(
                "it keeps dead rows from being removed: commit prepared, or rollback prepared, whichever is right",
            )
        }
        _ if slot.is_some() => {
            let found = format!(
                "nobody reads from the replication slot {:?}",
                slot.unwrap_or_default()
            );
            Finding::good("transactions", found).doubtful(
                "it keeps dead rows from being removed: start its reader again, or drop it with select pg_drop_replication_slot(…)",
            )
        }
        _ if !row.get::<_, bool>("sees_all") => Finding::good(
            "transactions",
            "this user is not told of those of others",
        )
        .doubtful(
            "a transaction that holds back vacuum would not be seen: grant pg_read_all_stats to it",
        ),
        _ => Finding::good("transactions", "none open for long"),
    }
}
