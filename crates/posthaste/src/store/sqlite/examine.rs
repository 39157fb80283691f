//! Examine: what a relay on SQLite depends on, and what may trouble it.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::link::Link;
use super::{Outbox, decode};
use crate::store::{Finding, StoreError};

/// A file of which more than half is free is worth a vacuum, if it is this large.
const WORTH_A_VACUUM: i64 = 64 * 1024 * 1024;

/// Clocks that are this far apart are worth a word.
const SKEW: Duration = Duration::from_secs(5);

impl Outbox {
    /// Everything that was looked at, good or bad.
    pub(super) fn find(&self, link: &mut Link) -> Result<Vec<Finding>, StoreError> {
        link.write(|connection| {
            let newest = connection
                .prepare_cached(&self.sql.newest)?
                .query_row([], |row| row.get(0));
            Ok(vec![
                library(),
                clock(newest.optional()?, decode::now()),
                journal(connection)?,
                space(connection)?,
            ])
        })
    }
}

/// That this was asked in a transaction which writes says that the file can be written to.
fn library() -> Finding {
    let found = format!(
        "SQLite {}, and the file can be written",
        rusqlite::version()
    );
    Finding::good("library", found)
}

/// The clock of this machine decides what is due: it must not have been set back.
fn clock(newest: Option<i64>, now: i64) -> Finding {
    let ahead = newest.map_or(0, |newest| newest.saturating_sub(now));
    match ahead > decode::length(SKEW) {
        true => Finding::good(
            "clock",
            format!(
                "the latest event was enqueued {} s from now",
                ahead / 1_000_000
            ),
        )
        .doubtful(
            "this machine's clock was set back, or a producer's is ahead: such events wait until it has caught up; synchronise it (NTP)",
        ),
        false => Finding::good("clock", "no event is from the future"),
    }
}

fn journal(connection: &Connection) -> rusqlite::Result<Finding> {
    let mode: String = pragma(connection, "pragma journal_mode")?;
    let finding = Finding::good("journal", format!("journal_mode {mode}"));
    Ok(match mode.as_str() {
        "wal" => finding,
        _ => finding.doubtful(
            "readers and writers wait for each other: set journal_mode = wal, on a local file system",
        ),
    })
}

fn space(connection: &Connection) -> rusqlite::Result<Finding> {
    let pages: i64 = pragma(connection, "pragma page_count")?;
    let free: i64 = pragma(connection, "pragma freelist_count")?;
    let size: i64 = pragma(connection, "pragma page_size")?;
    let mib = |pages: i64| (pages * size) as f64 / 1_048_576.0;
    let found = format!("{:.1} MiB, {:.1} of them free", mib(pages), mib(free));
    let finding = Finding::good("space", found);
    Ok(match pages * size > WORTH_A_VACUUM && free > pages / 2 {
        true => {
            finding.doubtful("to give it back to the file system, run `vacuum` while no relay runs")
        }
        false => finding,
    })
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> rusqlite::Result<T> {
    connection.query_row(sql, [], |row| row.get(0))
}
