//! Enqueue: write a message in the caller's own transaction, in exactly one statement.
//!
//! [`Outbox`] checks a message and turns it into a [`Row`]; each client driver has a
//! small file beside this one that binds the row and runs the statement. A driver
//! is handed a transaction, never a bare connection.

mod check;
mod json;
mod row;
mod sql;
#[cfg(any(feature = "rusqlite", feature = "sqlx-sqlite"))]
mod sqlite;
mod trace;

#[cfg(feature = "deadpool")]
mod deadpool;
#[cfg(feature = "diesel-async")]
mod diesel;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::future::Future;
use std::sync::Arc;

use tracing::Instrument;
use uuid::Uuid;

use crate::message::{Message, TraceContext};
use crate::table::{Table, TableError};
use crate::topic::TopicRule;

#[cfg(feature = "postgres")]
pub(crate) use self::tokio_postgres::Alone;
#[cfg(feature = "tokio-postgres")]
pub use self::tokio_postgres::Prepared;
pub use row::{Row, Rows};
pub use sql::Database;

/// The largest payload that an outbox takes unless told otherwise.
pub const DEFAULT_PAYLOAD_LIMIT: usize = 1024 * 1024;

/// An outbox to enqueue into: a table, and what it accepts. Cheap to clone; make one and keep it.
///
/// ```
/// # fn main() -> Result<(), posthaste::TableError> {
/// let outbox = posthaste::Outbox::new("public.orders_outbox")?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    table: Table,
    name: Arc<str>,
    topics: TopicRule,
    payload_limit: usize,
    trace: Option<fn() -> Option<TraceContext>>,
    #[cfg(feature = "zstd")]
    compression: Option<crate::Compression>,
    statements: sql::Statements,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The id of the event: the one of the first enqueue, if it was there already.
    pub id: Uuid,
    /// The place of the event in its outbox. Grows, with gaps.
    pub sequence: i64,
    /// Whether this call made the event (`false`: it was already enqueued).
    pub new: bool,
}

/// Why a message was not enqueued. Unless it is [`EnqueueError::Database`], the
/// transaction was not touched and can go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The topic breaks the rule of the outbox.
    #[error("topic {topic:?} is not valid: {why}")]
    TopicInvalid {
        /// The topic, cut to a readable length.
        topic: String,
        /// What is wrong, and what would be right.
        why: &'static str,
    },
    /// Tenant and dedupe key disagree.
    #[error("dedupe_key must begin with the tenant's id and a slash: {tenant_id}/…")]
    DedupeTenantMismatch {
        /// The tenant that was given.
        tenant_id: Uuid,
    },
    /// The payload is larger than the outbox accepts.
    #[error(
        "payload has {size} bytes, more than the limit of {limit}: store it elsewhere and send a reference, or raise the limit"
    )]
    PayloadTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit of the outbox.
        limit: usize,
    },
    /// The payload is no JSON that the database can hold.
    #[error("payload is not valid JSON: {0}")]
    JsonInvalid(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A text holds a NUL character, which PostgreSQL cannot store.
    #[error("{field} contains a NUL character")]
    NulCharacter {
        /// The field of the message.
        field: &'static str,
    },
    /// A field is longer than it may be.
    #[error("{field} has {size} bytes, more than the limit of {limit}")]
    TooLong {
        /// The field of the message.
        field: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A header cannot be carried by every destination.
    #[error("header {name:?} is not valid: {why}")]
    HeaderInvalid {
        /// The name of the header, cut to a readable length.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A field does not have the form that it must have.
    #[error("{field} is not valid: {why}")]
    FieldInvalid {
        /// The field of the message.
        field: &'static str,
        /// What would be right.
        why: &'static str,
    },
    /// The table cannot have this name in the database of the transaction.
    #[error(transparent)]
    TableInvalid(#[from] TableError),
    /// The connection has no open transaction.
    #[error("there is no open transaction: enqueue inside the one that changes your data")]
    NotInTransaction,
    /// The transaction is one of another database than the outbox's.
    #[error("the transaction belongs to a {database} database, and the outbox is in PostgreSQL")]
    DatabaseUnsupported {
        /// The database of the transaction.
        database: String,
    },
    /// The database refused the statement. The transaction has to be rolled back.
    #[error("the database refused to enqueue")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl EnqueueError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TopicInvalid { .. } => "outbox.topic_invalid",
            Self::DedupeTenantMismatch { .. } => "outbox.dedupe_tenant_mismatch",
            Self::PayloadTooLarge { .. } => "outbox.payload_too_large",
            Self::JsonInvalid(_) => "outbox.json_invalid",
            Self::NulCharacter { .. } => "outbox.nul_character",
            Self::TooLong { .. } => "outbox.too_long",
            Self::HeaderInvalid { .. } => "outbox.header_invalid",
            Self::FieldInvalid { .. } => "outbox.field_invalid",
            Self::TableInvalid(error) => error.code(),
            Self::NotInTransaction => "outbox.not_in_transaction",
            Self::DatabaseUnsupported { .. } => "outbox.database_unsupported",
            Self::Database(_) => "outbox.database",
        }
    }

    #[allow(dead_code, reason = "only the driver features use it")]
    pub(crate) fn database(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Database(Box::new(error))
    }
}

/// One statement, ready for a driver to bind and run.
///
/// On PostgreSQL it answers with one row for each message, in order: `id`, `sequence`, `new`. On
/// SQLite it answers with `id` and `sequence` of what is new.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Statement<'a> {
    /// One message, its values as the parameters in the order of [`Row`]'s fields.
    One {
        /// The text of the statement.
        sql: &'a str,
        /// On SQLite, if the event may be there already: what finds it.
        existing: Option<&'a str>,
        /// The values.
        row: &'a Row,
    },
    /// Many messages, an array for each parameter, in the order of [`Rows`]' fields.
    Many {
        /// The text of the statement.
        sql: &'a str,
        /// On SQLite, if the event may be there already: what finds it.
        existing: Option<&'a str>,
        /// The values.
        rows: &'a Rows,
    },
}

/// An open transaction of some database driver.
///
/// Implemented for `&tokio_postgres::Transaction`, `&deadpool_postgres::Transaction`,
/// `&mut sqlx::PgTransaction`, `&mut diesel_async::AsyncPgConnection` (checked to be in a
/// transaction), `&sea_orm::DatabaseTransaction`, `&rusqlite::Transaction` and
/// `&mut sqlx::SqliteTransaction`, each behind its feature.
///
/// A connection is none, so that nothing is enqueued outside a transaction by accident:
///
/// ```compile_fail,E0277
/// # async fn place(outbox: posthaste::Outbox, client: tokio_postgres::Client, message: posthaste::Message) {
/// outbox.enqueue(&client, &message).await;
/// # }
/// ```
pub trait Transaction {
    /// The database that it belongs to. Defaults to PostgreSQL.
    fn database(&self) -> Database {
        Database::Postgres
    }

    /// Runs the statement, and gives back a receipt for each message in order.
    fn run(
        self,
        statement: Statement<'_>,
    ) -> impl Future<Output = Result<Vec<Receipt>, EnqueueError>> + Send;

    /// Runs a statement whose parameters are all of type `text`. Gives back how many rows
    /// it touched.
    fn execute(
        self,
        sql: &str,
        texts: &[&str],
    ) -> impl Future<Output = Result<u64, EnqueueError>> + Send;
}

impl Outbox {
    /// The outbox of this name, e.g. `public.orders_outbox`.
    pub fn new<T: TryInto<Table, Error = TableError>>(table: T) -> Result<Self, TableError> {
        Ok(Self::of(table.try_into()?))
    }

    /// The outbox in this table.
    pub fn of(table: Table) -> Self {
        Self(Arc::new(Inner {
            statements: sql::Statements::default(),
            name: table.to_string().into(),
            table,
            topics: TopicRule::default(),
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            trace: None,
            #[cfg(feature = "zstd")]
            compression: None,
        }))
    }

    /// Which topics are accepted. Defaults to [`TopicRule::Strict`].
    pub fn topics(mut self, rule: TopicRule) -> Self {
        Arc::make_mut(&mut self.0).topics = rule;
        self
    }

    /// The largest payload accepted, in bytes. Defaults to 1 MiB.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.0).payload_limit = bytes;
        self
    }

    /// Stores large payloads compressed with zstd, if that makes them smaller. Defaults to none.
    ///
    /// They are delivered as they are stored, with the header `content-encoding: zstd`: consumers
    /// have to know of it, and may use [`decompress`](crate::decompress). The content type remains
    /// that of the payload, and the limit counts its size before.
    #[cfg(feature = "zstd")]
    pub fn compress(mut self, compression: crate::Compression) -> Self {
        Arc::make_mut(&mut self.0).compression = Some(compression);
        self
    }

    /// Where to find the current trace context, for messages that carry none of their own.
    pub fn trace_with(mut self, current: fn() -> Option<TraceContext>) -> Self {
        Arc::make_mut(&mut self.0).trace = Some(current);
        self
    }

    /// The table of the outbox.
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// Enqueues one message in the caller's transaction, in one statement.
    ///
    /// The event exists if, and only if, that transaction commits.
    pub async fn enqueue(
        &self,
        transaction: impl Transaction,
        message: &Message,
    ) -> Result<Receipt, EnqueueError> {
        let span = trace::one(&self.0.name, message);
        let enqueued = self
            .enqueue_one(transaction, message)
            .instrument(span.clone())
            .await;
        match &enqueued {
            Ok(receipt) if !span.is_disabled() => {
                span.record("messaging.message.id", receipt.id.to_string());
            }
            Ok(_) => {}
            Err(error) => trace::failed(&span, error),
        }
        enqueued
    }

    async fn enqueue_one(
        &self,
        transaction: impl Transaction,
        message: &Message,
    ) -> Result<Receipt, EnqueueError> {
        let row = self.row(message)?;
        let statements = self.statements(transaction.database())?;
        let (sql, existing) = match row.may_exist() {
            true => (&statements.enqueue_once, statements.existing.as_deref()),
            false => (&statements.enqueue, None),
        };
        let receipts = transaction
            .run(Statement::One {
                sql,
                existing,
                row: &row,
            })
            .await?;
        let receipt = *self.answered(&receipts, 1)?.first().expect("one receipt");
        self.count(std::iter::once((message, receipt)));
        Ok(receipt)
    }

    /// Enqueues many messages in the caller's transaction, in one statement.
    ///
    /// The receipts are in the order of the messages, and so are the sequences of new events.
    /// If one message is refused, none is enqueued.
    pub async fn enqueue_all(
        &self,
        transaction: impl Transaction,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let span = trace::many(&self.0.name, messages);
        let enqueued = self
            .enqueue_many(transaction, messages)
            .instrument(span.clone())
            .await;
        if let Err(error) = &enqueued {
            trace::failed(&span, error);
        }
        enqueued
    }

    async fn enqueue_many(
        &self,
        transaction: impl Transaction,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        let mut may_exist = false;
        let mut rows = Rows::with_capacity(messages.len());
        for message in messages {
            let row = self.row(message)?;
            may_exist |= row.may_exist();
            rows.push(row);
        }
        let statements = self.statements(transaction.database())?;
        let (sql, existing) = match may_exist {
            true => (
                &statements.enqueue_all_once,
                statements.existing_all.as_deref(),
            ),
            false => (&statements.enqueue_all, None),
        };
        let receipts = transaction
            .run(Statement::Many {
                sql,
                existing,
                rows: &rows,
            })
            .await?;
        self.answered(&receipts, messages.len())?;
        self.count(messages.iter().zip(receipts.iter().copied()));
        Ok(receipts)
    }

    pub(crate) fn row(&self, message: &Message) -> Result<Row, EnqueueError> {
        let trace = match (&message.trace, self.0.trace) {
            (None, Some(current)) => current(),
            (trace, _) => trace.clone(),
        };
        check::message(message, trace.as_ref(), self.0.topics, self.0.payload_limit)?;
        #[cfg(feature = "zstd")]
        let compressed = self.0.compression.and_then(|it| it.of(&message.payload));
        #[cfg(not(feature = "zstd"))]
        let compressed = None;
        Ok(Row::new(message, trace, compressed))
    }

    fn statements(&self, database: Database) -> Result<&sql::Sql, TableError> {
        self.0.statements.of(database, &self.0.table)
    }

    fn answered<'r>(
        &self,
        receipts: &'r [Receipt],
        expected: usize,
    ) -> Result<&'r [Receipt], EnqueueError> {
        if receipts.len() == expected {
            return Ok(receipts);
        }
        // A twin that was there when we collided with it, and was cleaned away before we
        // could name it: with a committed winner gone, only the caller can start over.
        Err(EnqueueError::Database(
            format!(
                "{} of {expected} messages met an event that was being cleaned away: roll back and try again",
                expected - receipts.len()
            )
            .into(),
        ))
    }

    pub(crate) fn count<'m>(&self, enqueued: impl Iterator<Item = (&'m Message, Receipt)>) {
        let table = &self.0.name;
        for (message, receipt) in enqueued {
            if receipt.new {
                metrics::counter!("outbox_enqueue_total", "table" => table.clone(), "topic" => message.topic.clone())
                    .increment(1);
            }
            tracing::debug!(
                %table, topic = message.topic, id = %receipt.id, sequence = receipt.sequence,
                new = receipt.new, "enqueued"
            );
        }
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox")
            .field("table", &self.0.table)
            .field("topics", &self.0.topics)
            .field("payload_limit", &self.0.payload_limit)
            .finish_non_exhaustive()
    }
}
