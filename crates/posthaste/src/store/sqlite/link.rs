//! One connection to the file: opened on first use, again after it failed, and patient with others.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::fault::{of_schema, slow};
use crate::schema::SchemaError;
use crate::schema::sqlite::{Failure, is_locked};
use crate::store::StoreError;

/// How long SQLite itself waits for whoever has the file locked.
const BUSY: Duration = Duration::from_secs(5);
/// How long to go on trying after that.
const PATIENCE: Duration = Duration::from_secs(20);
const STATEMENTS: usize = 200;
/// After so many steps of SQLite's machine it is asked whether to go on: well under a millisecond.
const STEPS: i32 = 1_000;
/// What is in hand should be found in memory again when it is settled.
const CACHE: &str = "pragma cache_size = -16384";

pub(super) struct Link {
    path: PathBuf,
    role: Role,
    connection: Option<Connection>,
    /// The file that is open.
    file: Option<Identity>,
    durable: Option<bool>,
    /// The state of the file when it was last looked at.
    seen: Option<i64>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Reads,
    Writes,
}

impl Link {
    pub(super) fn new(path: PathBuf, role: Role) -> Self {
        Self {
            path,
            role,
            connection: None,
            file: None,
            durable: None,
            seen: None,
        }
    }

    /// Reads. It may be tried more than once.
    pub(super) fn read<T>(
        &mut self,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.patiently(|link| Ok(work(link.open()?)?))
    }

    /// The same for a question that is given up after a while: others wait behind it.
    pub(super) fn read_within<T>(
        &mut self,
        limit: Duration,
        work: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        self.patiently(|link| {
            let connection = link.open()?;
            // Some versions of rusqlite answer with a result, others with nothing.
            let _ = connection.progress_handler(STEPS, Some(move || began.elapsed() > limit));
            let done = work(connection);
            let _ = connection.progress_handler(0, None::<fn() -> bool>);
            Ok(done?)
        })
        .map_err(slow)
    }

    /// Writes in one transaction, whose commit is on the disk when this returns. It may be
    /// tried more than once.
    pub(super) fn write<T>(
        &mut self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.commit(true, work)
    }

    /// The same for what a power cut may undo: a lease that is gone is just claimed again.
    /// See docs/decisions/0006-claims-do-not-wait-for-the-disk.md.
    pub(super) fn write_lazily<T>(
        &mut self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.commit(false, work)
    }

    fn commit<T>(
        &mut self,
        durable: bool,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.patiently(|link| {
            link.open()?;
            link.be_durable(durable)?;
            let connection = link.open()?;
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Whether another connection has changed the file since this was last asked, and whether this is the
    /// first time. Cheap.
    pub(super) fn is_changed_by_others(&mut self) -> bool {
        let version = self.open().and_then(|connection| {
            let mut statement = connection.prepare_cached("pragma data_version")?;
            Ok(statement.query_row([], |row| row.get(0))?)
        });
        match version {
            Ok(version) => self.seen.replace(version) != Some(version),
            Err(_) => false,
        }
    }

    /// Waits for others, but not for ever. After any other failure the connection is not used
    /// again: whatever it was, a fresh one starts from a known state.
    fn patiently<T>(
        &mut self,
        work: impl Fn(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        loop {
            match work(self) {
                Ok(done) => return Ok(done),
                Err(Failure::Sqlite(error))
                    if is_locked(&error) && started.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(failure) => {
                    self.close();
                    return Err(of_schema(failure));
                }
            }
        }
    }

    /// Whatever comes next begins with a fresh connection.
    pub(super) fn close(&mut self) {
        self.connection = None;
        self.durable = None;
        self.seen = None;
    }

    fn open(&mut self) -> Result<&Connection, Failure> {
        let file = identity_at(&self.path);
        if self.connection.is_some() && self.file != file {
            // It was replaced or removed: what is written to a file without a name reaches nobody.
            self.close();
        }
        if self.connection.is_none() {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(BUSY)?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS);
            connection.execute_batch(CACHE)?;
            // A file that is empty is none: somebody may be about to fill it, and whoever sets its mode meanwhile
            // writes over what comes.
            if connection.query_row("pragma page_count", [], |row| row.get::<_, i64>(0))? == 0 {
                let table = format!("the outbox in {}, which is empty,", self.path.display());
                return Err(SchemaError::Missing { table }.into());
            }
            match self.role {
                Role::Reads => connection.execute_batch("pragma query_only = on")?,
                Role::Writes => use_wal(&connection)?,
            }
            self.connection = Some(connection);
            self.file = file;
        }
        Ok(self.connection.as_ref().expect("opened just now"))
    }

    fn be_durable(&mut self, durable: bool) -> Result<(), Failure> {
        if self.durable != Some(durable) {
            self.durable = None;
            self.open()?.execute_batch(match durable {
                true => "pragma synchronous = full",
                false => "pragma synchronous = normal",
            })?;
            self.durable = Some(durable);
        }
        Ok(())
    }
}

fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let ask = |what: &str| connection.query_row(what, [], |row| row.get::<_, String>(0));
    if ask("pragma journal_mode")? != "wal" {
        ask("pragma journal_mode = wal")?;
    }
    Ok(())
}

/// Which file it is, under whatever name.
pub(super) type Identity = (u64, u64);

#[cfg(unix)]
pub(super) fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;

    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file that is open keeps its name.
#[cfg(not(unix))]
pub(super) fn identity(_: &Metadata) -> Identity {
    (0, 0)
}

/// Which file has this name now.
pub(super) fn identity_at(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).as_ref().ok().map(identity)
}
