//! The inbox: the other end of at-least-once delivery.
//!
//! A consumer notes each event's id in the transaction in which it handles the event, so that
//! the effect of an event that is delivered twice happens once.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::enqueue::{Database, EnqueueError, Transaction};
use crate::table::{Table, TableError};

const CONSUMER_LIMIT: usize = 255;

/// Which events each consumer has handled: a table in the consumer's own database, made by
/// [`schema::apply_inbox`](crate::schema) or [`schema::inbox_sql`](crate::schema::inbox_sql).
/// Cheap to clone; make one and keep it.
///
/// ```no_run
/// # async fn example(mut client: tokio_postgres::Client, event: posthaste::Event)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste::{Inbox, Once};
///
/// let inbox = Inbox::new("billing.inbox")?;
/// let transaction = client.transaction().await?;
/// if inbox.once(&transaction, "invoices", event.id).await? == Once::First {
///     // … write the invoice, in the same transaction …
/// }
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    table: Table,
    postgres: Sql,
    #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
    sqlite: Result<Sql, TableError>,
}

#[derive(Debug)]
struct Sql {
    once: String,
    clean: String,
}

/// Whether a consumer has handled an event before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the event is to be handled only if this is the first time"]
pub enum Once {
    /// It has not: handle it now, in this transaction.
    First,
    /// It has: there is nothing to do.
    Again,
}

/// Why an event was not noted. Unless it is [`InboxError::Database`], the transaction was
/// not touched and can go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The name of the consumer cannot be stored.
    #[error("the name of a consumer has 1 to 255 bytes and no NUL character")]
    ConsumerInvalid,
    /// The table cannot have this name in the database of the transaction.
    #[error(transparent)]
    TableInvalid(#[from] TableError),
    /// The connection has no open transaction.
    #[error("there is no open transaction: call this inside the one that handles the event")]
    NotInTransaction,
    /// The database refused the statement. The transaction has to be rolled back.
    #[error("the database refused to use the inbox")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl InboxError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ConsumerInvalid => "inbox.consumer_invalid",
            Self::TableInvalid(error) => error.code(),
            Self::NotInTransaction => "inbox.not_in_transaction",
            Self::Database(_) => "inbox.database",
        }
    }

    fn of(error: EnqueueError) -> Self {
        match error {
            EnqueueError::NotInTransaction => Self::NotInTransaction,
            EnqueueError::Database(source) => Self::Database(source),
            other => Self::Database(other.into()),
        }
    }
}

impl Inbox {
    /// The inbox of this name, e.g. `billing.inbox`.
    pub fn new<T: TryInto<Table, Error = TableError>>(table: T) -> Result<Self, TableError> {
        Ok(Self::of(table.try_into()?))
    }

    /// The inbox in this table.
    pub fn of(table: Table) -> Self {
        Self(Arc::new(Inner {
            postgres: Sql {
                once: table.render(include_str!("../sql/postgres/once.sql")),
                clean: table.render(include_str!("../sql/postgres/clean_inbox.sql")),
            },
            #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
            sqlite: table.in_sqlite().map(|table| Sql {
                once: table.render(include_str!("../sql/sqlite/once.sql")),
                clean: table.render(include_str!("../sql/sqlite/clean_inbox.sql")),
            }),
            table,
        }))
    }

    /// The table of the inbox.
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// Notes, in the consumer's transaction and in one statement, that it handles an event.
    ///
    /// If another transaction is handling the same event for the same consumer, this waits for
    /// it, and tells [`Once::Again`] if it committed, or [`Once::First`] if it rolled back.
    pub async fn once(
        &self,
        transaction: impl Transaction,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<Once, InboxError> {
        if consumer.is_empty() || consumer.len() > CONSUMER_LIMIT || consumer.contains('\0') {
            return Err(InboxError::ConsumerInvalid);
        }
        let sql = self.sql(transaction.database())?;
        let values = [consumer, &event_id.to_string()];
        let noted = transaction.execute(&sql.once, &values).await;
        match noted.map_err(InboxError::of)? {
            0 => Ok(Once::Again),
            _ => Ok(Once::First),
        }
    }

    /// Forgets one batch of events that were handled longer ago than the retention. Gives back
    /// how many: call it until that is less than the limit.
    ///
    /// Keep the retention longer than an event may take to arrive for the last time.
    pub async fn clean(
        &self,
        transaction: impl Transaction,
        retention: Duration,
        limit: u32,
    ) -> Result<u64, InboxError> {
        let sql = self.sql(transaction.database())?;
        let values = [&*retention.as_secs_f64().to_string(), &*limit.to_string()];
        let cleaned = transaction.execute(&sql.clean, &values).await;
        cleaned.map_err(InboxError::of)
    }

    fn sql(&self, database: Database) -> Result<&Sql, TableError> {
        match database {
            Database::Postgres => Ok(&self.0.postgres),
            #[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
            Database::Sqlite => self.0.sqlite.as_ref().map_err(Clone::clone),
        }
    }
}
