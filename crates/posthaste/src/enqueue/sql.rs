//! The statements that enqueue, in the words of each database: filled in when first needed.

use std::sync::OnceLock;

use crate::table::{Table, TableError};

/// The database that a transaction belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Database {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
    Sqlite,
}

/// The statements of one outbox, for every database that was asked for.
#[derive(Clone, Default)]
pub(super) struct Statements {
    postgres: OnceLock<Sql>,
    #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
    sqlite: OnceLock<Result<Sql, TableError>>,
}

#[derive(Clone)]
pub(super) struct Sql {
    pub(super) enqueue: String,
    pub(super) enqueue_all: String,
    pub(super) enqueue_once: String,
    pub(super) enqueue_all_once: String,
    /// What finds the events that were there already, if the statements above cannot tell.
    pub(super) existing: Option<String>,
    pub(super) existing_all: Option<String>,
}

impl Statements {
    pub(super) fn of(&self, database: Database, table: &Table) -> Result<&Sql, TableError> {
        match database {
            Database::Postgres => Ok(self.postgres(table)),
            #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
            Database::Sqlite => {
                let filled = self.sqlite.get_or_init(|| {
                    let table = table.in_sqlite()?;
                    let render = |sql: &str| table.render(sql);
                    Ok(Sql {
                        enqueue: render(include_str!("../../sql/sqlite/enqueue.sql")),
                        enqueue_all: render(include_str!("../../sql/sqlite/enqueue_all.sql")),
                        enqueue_once: render(include_str!("../../sql/sqlite/enqueue_once.sql")),
                        enqueue_all_once: render(include_str!(
                            "../../sql/sqlite/enqueue_all_once.sql"
                        )),
                        existing: Some(render(include_str!("../../sql/sqlite/existing.sql"))),
                        existing_all: Some(render(include_str!(
                            "../../sql/sqlite/existing_all.sql"
                        ))),
                    })
                });
                filled.as_ref().map_err(Clone::clone)
            }
        }
    }

    pub(super) fn postgres(&self, table: &Table) -> &Sql {
        self.postgres.get_or_init(|| Sql {
            enqueue: table.render(include_str!("../../sql/postgres/enqueue.sql")),
            enqueue_all: table.render(include_str!("../../sql/postgres/enqueue_all.sql")),
            enqueue_once: table.render(include_str!("../../sql/postgres/enqueue_once.sql")),
            enqueue_all_once: table.render(include_str!("../../sql/postgres/enqueue_all_once.sql")),
            existing: None,
            existing_all: None,
        })
    }
}
