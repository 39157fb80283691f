//! The structure of an outbox in the database: making it, checking it, printing it.
//!
//! Migrations are numbered, only go forward and are never edited; what was applied to which
//! outbox is recorded, with a checksum, in `posthaste_migrations` of the same schema.

#[cfg(feature = "postgres")]
mod apply;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod at;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use sha2::{Digest, Sha256};

use crate::table::{Table, literal, quote};

#[cfg(feature = "postgres")]
pub use apply::{apply, apply_inbox, check, check_inbox, notify};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use at::{apply_at, check_at, notify_at, sql_at};

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

/// What a table is for, and the migrations that make it so.
struct Structure {
    migrations: &'static [Migration],
}

const MIGRATIONS_TABLE: &str = include_str!("../sql/postgres/migrations/0000_migrations.sql");

const OUTBOX: Structure = Structure {
    migrations: &[
        Migration {
            version: 1,
            name: "outbox",
            sql: include_str!("../sql/postgres/migrations/0001_outbox.sql"),
        },
        Migration {
            version: 2,
            name: "operate",
            sql: include_str!("../sql/postgres/migrations/0002_operate.sql"),
        },
        Migration {
            version: 3,
            name: "audit",
            sql: include_str!("../sql/postgres/migrations/0003_audit.sql"),
        },
    ],
};

const INBOX: Structure = Structure {
    migrations: &[Migration {
        version: 1,
        name: "inbox",
        sql: include_str!("../sql/postgres/migrations/0001_inbox.sql"),
    }],
};

/// Names of the roles that [`roles_sql`] grants to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// May enqueue.
    pub producer: String,
    /// May claim, settle and clean.
    pub relay: String,
    /// May look, but sees no payload.
    pub reader: String,
    /// May look, redeliver and discard.
    pub operator: String,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            producer: "posthaste_producer".to_owned(),
            relay: "posthaste_relay".to_owned(),
            reader: "posthaste_reader".to_owned(),
            operator: "posthaste_operator".to_owned(),
        }
    }
}

/// The whole structure of an outbox as SQL, for teams with a migration tool of their own.
///
/// It records itself, so that [`check`] knows about it. Run it in one transaction.
pub fn sql(table: &Table) -> String {
    OUTBOX.script(table)
}

/// The whole structure of an inbox as SQL.
pub fn inbox_sql(table: &Table) -> String {
    INBOX.script(table)
}

/// Roles with the least privileges that producers, relays, readers and operators need, as SQL.
///
/// Roles that do not exist are created, without login: grant them to those who log in.
pub fn roles_sql(table: &Table, roles: &Roles) -> String {
    let role = |name: &str| match name {
        "producer" => Some(&roles.producer),
        "relay" => Some(&roles.relay),
        "reader" => Some(&roles.reader),
        "operator" => Some(&roles.operator),
        _ => None,
    };
    table.render_with(
        include_str!("../sql/postgres/roles.sql"),
        |place| match place.split_once(':') {
            Some(("create", name)) => Some(create_role(role(name)?)),
            Some(_) => None,
            None => Some(quote(role(place)?)),
        },
    )
}

/// The statement that makes a role, unless there is one.
fn create_role(name: &str) -> String {
    let name = quote(name);
    let body = format!(
        "begin if to_regrole({}) is null then create role {name} nologin; end if; end",
        literal(&name)
    );
    format!("do {}", literal(&body))
}

impl Structure {
    fn script(&self, table: &Table) -> String {
        let mut script = table.render(MIGRATIONS_TABLE);
        for migration in self.migrations {
            script.push('\n');
            script.push_str(&table.render(migration.sql));
            script.push_str(&migration.record(table));
        }
        script
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn version(&self) -> i32 {
        self.migrations.last().map_or(0, |last| last.version)
    }

    /// How many of our migrations were applied, having made sure that they are ours.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn recognise(&self, table: &str, applied: &[(i32, String)]) -> Result<usize, SchemaError> {
        for (place, (version, checksum)) in applied.iter().enumerate() {
            let Some(migration) = self.migrations.get(place) else {
                return Err(SchemaError::Newer {
                    table: table.to_owned(),
                    found: applied.last().map_or(*version, |(last, _)| *last),
                    known: self.version(),
                });
            };
            if migration.version != *version || migration.checksum() != *checksum {
                return Err(SchemaError::Changed {
                    table: table.to_owned(),
                    version: *version,
                });
            }
        }
        Ok(applied.len())
    }

    /// Whether all of our migrations were applied, given how many were.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn up_to_date(&self, table: &str, applied: usize) -> Result<(), SchemaError> {
        match self.migrations[..applied].last() {
            None => Err(SchemaError::Missing {
                table: table.to_owned(),
            }),
            Some(found) if found.version < self.version() => Err(SchemaError::Older {
                table: table.to_owned(),
                found: found.version,
                needed: self.version(),
            }),
            Some(_) => Ok(()),
        }
    }
}

impl Migration {
    fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The statement that writes down that this migration was applied.
    fn record(&self, table: &Table) -> String {
        table.render(&format!(
            "\ninsert into {{schema}}.posthaste_migrations (object, version, name, checksum)\n\
             values ({{literal}}, {}, '{}', '{}');\n",
            self.version,
            self.name,
            self.checksum()
        ))
    }
}

/// What is wrong with the structure of an outbox, and what mends it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// There is no such outbox.
    #[error(
        "{table} is not set up: run `posthaste migrate`, call posthaste::schema::apply, or run what posthaste::schema::sql prints"
    )]
    Missing {
        /// The outbox.
        table: String,
    },
    /// The structure is older than this version needs.
    #[error(
        "{table} has schema version {found}, and this version needs {needed}: run `posthaste migrate`, or call posthaste::schema::apply"
    )]
    Older {
        /// The outbox.
        table: String,
        /// What it has.
        found: i32,
        /// What is needed.
        needed: i32,
    },
    /// The structure is newer than this version knows.
    #[error(
        "{table} has schema version {found}, and this version knows only {known}: upgrade posthaste"
    )]
    Newer {
        /// The outbox.
        table: String,
        /// What it has.
        found: i32,
        /// The newest that is known.
        known: i32,
    },
    /// A migration that was applied is not the one that this version has.
    #[error(
        "migration {version} of {table} was applied with another text: it was edited, or comes from another build. Compare with what posthaste::schema::sql prints"
    )]
    Changed {
        /// The outbox.
        table: String,
        /// The migration.
        version: i32,
    },
    /// Something that belongs to the outbox is gone or broken.
    #[error("{table} is damaged: {what}. Mend it with: {remedy}")]
    Damaged {
        /// The outbox.
        table: String,
        /// What is wrong.
        what: String,
        /// A statement that mends it.
        remedy: String,
    },
    /// The table cannot have this name in this database.
    #[error(transparent)]
    TableInvalid(#[from] crate::table::TableError),
    /// The database refused, or could not be reached.
    #[error("the database refused while working on {table}")]
    Database {
        /// The outbox.
        table: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SchemaError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "schema.missing",
            Self::Older { .. } => "schema.older",
            Self::Newer { .. } => "schema.newer",
            Self::Changed { .. } => "schema.changed",
            Self::Damaged { .. } => "schema.damaged",
            Self::TableInvalid(error) => error.code(),
            Self::Database { .. } => "schema.database",
        }
    }
}
