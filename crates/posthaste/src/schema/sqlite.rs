//! Applying, checking and printing migrations of a SQLite file.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::{Migration, SchemaError, Structure};
use crate::table::{InSqlite, Table, TableError};

const MIGRATIONS_TABLE: &str = include_str!("../../sql/sqlite/migrations/0000_migrations.sql");

pub(super) const OUTBOX: Structure = Structure {
    migrations: &[
        Migration {
            version: 1,
            name: "outbox",
            sql: include_str!("../../sql/sqlite/migrations/0001_outbox.sql"),
        },
        Migration {
            version: 2,
            name: "operate",
            sql: include_str!("../../sql/sqlite/migrations/0002_operate.sql"),
        },
        Migration {
            version: 3,
            name: "audit",
            sql: include_str!("../../sql/sqlite/migrations/0003_audit.sql"),
        },
    ],
};

const INBOX: Structure = Structure {
    migrations: &[Migration {
        version: 1,
        name: "inbox",
        sql: include_str!("../../sql/sqlite/migrations/0001_inbox.sql"),
    }],
};

/// How long others may keep the file locked.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the outbox, or brings it up to date, and puts the file into WAL mode. Safe to call at every
/// start, and from many processes at once. Gives back the version that it is at.
pub fn apply(connection: &mut Connection, table: &Table) -> Result<i32, SchemaError> {
    try_apply(connection, table).map_err(|failure| failure.of(table))
}

/// Makes an inbox, or brings it up to date.
pub fn apply_inbox(connection: &mut Connection, table: &Table) -> Result<i32, SchemaError> {
    INBOX
        .apply_sqlite(connection, table)
        .map_err(|failure| failure.of(table))
}

/// Checks that the outbox is what this version works with, and says what mends it if not.
pub fn check(connection: &Connection, table: &Table) -> Result<(), SchemaError> {
    try_check(connection, table).map_err(|failure| failure.of(table))
}

/// Checks an inbox in the same way.
pub fn check_inbox(connection: &Connection, table: &Table) -> Result<(), SchemaError> {
    INBOX
        .check_sqlite(connection, table)
        .map_err(|failure| failure.of(table))
}

/// The whole structure of an outbox as SQL, for teams with a migration tool of their own.
///
/// It records itself, so that [`check`] knows about it. Run it in one transaction.
pub fn sql(table: &Table) -> Result<String, TableError> {
    OUTBOX.script_sqlite(table)
}

/// The whole structure of an inbox as SQL.
pub fn inbox_sql(table: &Table) -> Result<String, TableError> {
    INBOX.script_sqlite(table)
}

/// What went wrong, with SQLite's own error kept apart: whoever has the file may know it better.
pub(crate) enum Failure {
    Schema(SchemaError),
    Sqlite(rusqlite::Error),
}

impl Failure {
    fn of(self, table: &Table) -> SchemaError {
        match self {
            Self::Schema(error) => error,
            Self::Sqlite(error) => SchemaError::Database {
                table: table.to_string(),
                source: error.into(),
            },
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        Self::Schema(error.into())
    }
}

pub(crate) fn try_apply(connection: &mut Connection, table: &Table) -> Result<i32, Failure> {
    OUTBOX.apply_sqlite(connection, table)
}

pub(crate) fn try_check(connection: &Connection, table: &Table) -> Result<(), Failure> {
    OUTBOX.check_sqlite(connection, table)
}

impl Structure {
    fn apply_sqlite(&self, connection: &mut Connection, table: &Table) -> Result<i32, Failure> {
        let name = table.in_sqlite()?;
        // Two processes may start at once: the second waits here, and finds it done.
        let transaction = patiently(|| {
            let _: String =
                connection.query_row("pragma journal_mode = wal", [], |row| row.get(0))?;
            Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        })?;
        transaction.execute_batch(&name.render(MIGRATIONS_TABLE))?;
        let applied = applied(&transaction, &name)?;
        let applied = self.recognise(&table.to_string(), &applied)?;
        for migration in &self.migrations[applied..] {
            let sql = name.render(migration.sql) + &migration.record_sqlite(&name);
            transaction.execute_batch(&sql)?;
        }
        transaction.commit()?;
        Ok(self.version())
    }

    fn check_sqlite(&self, connection: &Connection, table: &Table) -> Result<(), Failure> {
        let name = table.in_sqlite()?;
        let told = match connection.path().filter(|path| !path.is_empty()) {
            Some(path) => format!("{table} in {path}"),
            None => table.to_string(),
        };
        let applied = match exists(connection, "table", "posthaste_migrations")? {
            true => applied(connection, &name)?,
            false => Vec::new(),
        };
        self.up_to_date(&told, self.recognise(&told, &applied)?)?;
        let migrations = self.migrations.iter();
        let objects: Vec<Object> = migrations.flat_map(|m| m.objects_sqlite(&name)).collect();
        for object in &objects {
            if !exists(connection, object.kind, &object.name)? {
                // A table comes with the columns that it got later.
                let of_it = |column: &&Object| {
                    let of = column.name.rsplit_once('.').map(|(table, _)| table);
                    object.kind == "table" && column.kind == "column" && of == Some(&object.name)
                };
                let parts = std::iter::once(object).chain(objects.iter().filter(of_it));
                let remedy: Vec<&str> = parts.map(|part| part.definition.as_str()).collect();
                return Err(Failure::Schema(SchemaError::Damaged {
                    table: told,
                    what: format!("{} {} is missing", object.kind, object.name),
                    remedy: remedy.join("\n"),
                }));
            }
        }
        Ok(())
    }

    fn script_sqlite(&self, table: &Table) -> Result<String, TableError> {
        let name = table.in_sqlite()?;
        let mut script = name.render(MIGRATIONS_TABLE);
        for migration in self.migrations {
            script.push('\n');
            script.push_str(&name.render(migration.sql));
            script.push_str(&migration.record_sqlite(&name));
        }
        Ok(script)
    }
}

struct Object {
    kind: &'static str,
    name: String,
    definition: String,
}

impl Migration {
    fn record_sqlite(&self, name: &InSqlite) -> String {
        name.render(&format!(
            "\ninsert into posthaste_migrations (object, version, name, checksum)\n\
             values ({{literal}}, {}, '{}', '{}');\n",
            self.version,
            self.name,
            self.checksum()
        ))
    }

    /// The tables, indexes and columns that this migration creates.
    fn objects_sqlite(&self, name: &InSqlite) -> Vec<Object> {
        let mut objects = self.columns_sqlite(name);
        let statements = self.sql.split(";\n").filter_map(|statement| {
            let start = statement.find("create ")?;
            Some(&statement[start..])
        });
        objects.extend(statements.map(|statement| {
            let (kind, rest) = match statement.split_once(" table {") {
                Some(("create", rest)) => ("table", rest),
                _ => match statement.split_once(" index {") {
                    Some(("create" | "create unique", rest)) => ("index", rest),
                    _ => unreachable!("migrations create tables and indexes"),
                },
            };
            let place = rest.split('}').next().unwrap_or(rest);
            let suffix = place.split_once(':').map(|(_, suffix)| suffix);
            Object {
                kind,
                name: name.name(&suffix.map_or(String::new(), |suffix| format!("_{suffix}"))),
                definition: name.render(statement) + ";",
            }
        }));
        objects
    }

    fn columns_sqlite(&self, name: &InSqlite) -> Vec<Object> {
        let added = self.sql.lines().filter_map(|line| {
            let (of, rest) = line
                .strip_prefix("alter table {")?
                .split_once("} add column ")?;
            let suffix = of
                .split_once(':')
                .map_or(String::new(), |(_, s)| format!("_{s}"));
            Some(Object {
                kind: "column",
                name: format!("{}.{}", name.name(&suffix), rest.split(' ').next()?),
                definition: name.render(line),
            })
        });
        added.collect()
    }
}

fn exists(connection: &Connection, kind: &str, name: &str) -> rusqlite::Result<bool> {
    if let ("column", Some((table, column))) = (kind, name.rsplit_once('.')) {
        let sql = "select 1 from pragma_table_info(?1) where name = ?2";
        let found = connection.query_row(sql, [table, column], |_| Ok(()));
        return Ok(found.optional()?.is_some());
    }
    let sql = "select 1 from sqlite_master where type = ?1 and name = ?2 collate nocase";
    let found = connection.query_row(sql, [kind, name], |_| Ok(()));
    Ok(found.optional()?.is_some())
}

fn applied(connection: &Connection, name: &InSqlite) -> rusqlite::Result<Vec<(i32, String)>> {
    let sql = name.render(
        "select version, checksum from posthaste_migrations where object = {literal} order by version",
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Tries until nobody else has the file locked.
fn patiently<T>(mut work: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let started = Instant::now();
    loop {
        match work() {
            Err(error) if is_locked(&error) && started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Whether somebody else has the file locked.
pub(crate) fn is_locked(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
    error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_of_a_migration_is_known() {
        let name = Table::parse("shop.orders").unwrap().in_sqlite().unwrap();
        let objects = OUTBOX.migrations[0].objects_sqlite(&name);
        let names: Vec<String> = objects
            .iter()
            .map(|object| format!("{} {}", object.kind, object.name))
            .collect();
        assert_eq!(
            names,
            [
                "table shop.orders",
                "index shop.orders_event",
                "index shop.orders_due",
                "index shop.orders_keyed",
                "index shop.orders_dedupe",
                "index shop.orders_delivered",
                "index shop.orders_dead",
                "table shop.orders_audit",
                "index shop.orders_audit_event",
                "table shop.orders_archive",
            ]
        );
        assert!(
            objects[2]
                .definition
                .starts_with("create index \"shop.orders_due\"")
        );
    }

    #[test]
    fn columns_that_a_migration_adds_are_known() {
        let name = Table::parse("shop.orders").unwrap().in_sqlite().unwrap();
        let objects = OUTBOX.migrations[1].objects_sqlite(&name);
        let names: Vec<String> = objects
            .iter()
            .map(|object| format!("{} {}", object.kind, object.name))
            .collect();
        assert_eq!(
            names,
            [
                "column shop.orders.fingerprint",
                "column shop.orders_archive.fingerprint",
                "column shop.orders.redeliveries",
                "column shop.orders_archive.redeliveries",
                "table shop.orders_attempts",
                "table shop.orders_pauses",
                "table shop.orders_jobs",
            ]
        );
    }

    /// The outbox as a later version may have it.
    const LATER: Structure = Structure {
        migrations: &[
            Migration {
                version: 1,
                name: "outbox",
                sql: OUTBOX.migrations[0].sql,
            },
            Migration {
                version: 2,
                name: "operate",
                sql: OUTBOX.migrations[1].sql,
            },
            Migration {
                version: 3,
                name: "audit",
                sql: OUTBOX.migrations[2].sql,
            },
            Migration {
                version: 4,
                name: "more",
                sql: "create table {outbox:more} (id integer);\n",
            },
        ],
    };

    #[test]
    fn an_older_schema_is_told_and_brought_up_to_date() {
        let mut file = Connection::open_in_memory().unwrap();
        let table = Table::parse("orders").unwrap();
        let code = |failure: Failure| failure.of(&table).code();
        apply(&mut file, &table).unwrap();
        let older = LATER.check_sqlite(&file, &table);
        assert_eq!(older.map_err(code), Err("schema.older"));
        assert_eq!(LATER.apply_sqlite(&mut file, &table).map_err(code), Ok(4));
        assert_eq!(LATER.check_sqlite(&file, &table).map_err(code), Ok(()));
        assert_eq!(check(&file, &table).unwrap_err().code(), "schema.newer");
    }
}
