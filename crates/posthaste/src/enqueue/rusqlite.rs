//! Enqueue with rusqlite, whose connections cache their prepared statements.
//!
//! It blocks for as long as the statement takes. The functions that end in `_sync` are for
//! programs that have nothing to await.

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::{Connection, Params, Row as SqlRow, params, params_from_iter};
use uuid::Uuid;

use super::sqlite::{Answer, all_new, id, parameter, some_new};
use super::{Database, EnqueueError, Outbox, Receipt, Row, Rows, Statement, Transaction};
use crate::inbox::{Inbox, InboxError, Once};
use crate::message::Message;

/// Both are an open transaction, and both lead to their connection.
macro_rules! transaction {
    ($kind:ident) => {
        impl Transaction for &rusqlite::$kind<'_> {
            fn database(&self) -> Database {
                Database::Sqlite
            }

            // Done before the future is made: a connection of rusqlite cannot be sent along with it.
            fn run(
                self,
                statement: Statement<'_>,
            ) -> impl Future<Output = Result<Vec<Receipt>, EnqueueError>> + Send {
                ready(run(self, statement))
            }

            fn execute(
                self,
                sql: &str,
                texts: &[&str],
            ) -> impl Future<Output = Result<u64, EnqueueError>> + Send {
                ready(execute(self, sql, texts))
            }
        }
    };
}

transaction!(Transaction);
transaction!(Savepoint);

impl Outbox {
    /// [`Outbox::enqueue`] for programs that are not async.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = posthaste::Outbox::new("orders_outbox")?;
    /// # let message = posthaste::Message::json("shop.order.placed.v1", &42)?;
    /// let mut connection = rusqlite::Connection::open("shop.db")?;
    /// // Not a deferred one: it could read, and then fail to write as others have in between.
    /// let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    /// transaction.execute("insert into orders (id) values (?1)", [42])?;
    /// outbox.enqueue_sync(&transaction, &message)?;
    /// transaction.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn enqueue_sync(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        message: &Message,
    ) -> Result<Receipt, EnqueueError> {
        at_once(self.enqueue(transaction, message))
    }

    /// [`Outbox::enqueue_all`] for programs that are not async.
    pub fn enqueue_all_sync(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        at_once(self.enqueue_all(transaction, messages))
    }
}

impl Inbox {
    /// [`Inbox::once`] for programs that are not async.
    pub fn once_sync(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<Once, InboxError> {
        at_once(self.once(transaction, consumer, event_id))
    }
}

/// The answer of a future that awaits nothing but a transaction which blocks.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a transaction of rusqlite is ready at once"),
    }
}

fn run(connection: &Connection, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
    in_transaction(connection)?;
    match statement {
        Statement::One { sql, existing, row } => one(connection, sql, existing, row),
        Statement::Many {
            sql,
            existing,
            rows,
        } => many(connection, sql, existing, rows),
    }
}

fn one(
    connection: &Connection,
    sql: &str,
    existing: Option<&str>,
    row: &Row,
) -> Result<Vec<Receipt>, EnqueueError> {
    let values = params![
        row.id.to_string(),
        row.namespace,
        row.topic,
        row.tenant_id.map(|tenant| tenant.to_string()),
        row.aggregate_type,
        row.aggregate_id,
        row.event_type,
        row.ordering_key,
        row.dedupe_key,
        row.headers,
        row.content_type,
        row.payload,
        row.payload_bytes,
        row.delay,
        row.due,
        row.traceparent,
        row.tracestate,
    ];
    let receipt = |new| {
        move |(id, sequence): &Answer| Receipt {
            id: *id,
            sequence: *sequence,
            new,
        }
    };
    let inserted = answers(connection, sql, values)?;
    match existing {
        Some(existing) if inserted.is_empty() => {
            let id = row.id.to_string();
            let values = params![id, row.namespace, row.topic, row.dedupe_key];
            let met = answers(connection, existing, values)?;
            Ok(met.iter().map(receipt(false)).collect())
        }
        _ => Ok(inserted.iter().map(receipt(true)).collect()),
    }
}

fn many(
    connection: &Connection,
    sql: &str,
    existing: Option<&str>,
    rows: &Rows,
) -> Result<Vec<Receipt>, EnqueueError> {
    let messages = parameter(rows);
    let inserted = answers(connection, sql, params![messages])?;
    match existing {
        Some(existing) => {
            let found = answers(connection, existing, params![messages])?;
            Ok(some_new(rows, &inserted, &found))
        }
        None => Ok(all_new(rows, &inserted)),
    }
}

fn execute(connection: &Connection, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
    in_transaction(connection)?;
    let done = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(params_from_iter(texts)));
    done.map(|rows| rows as u64).map_err(EnqueueError::database)
}

fn answers(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<Answer>, EnqueueError> {
    let read = |row: &SqlRow<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
    let answered: rusqlite::Result<Vec<(String, i64)>> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(values, read)?.collect());
    let answered = answered.map_err(EnqueueError::database)?;
    answered
        .into_iter()
        .map(|(text, sequence)| Ok((id(&text)?, sequence)))
        .collect()
}

/// An error may have rolled it back already: then the statement would stand alone.
fn in_transaction(connection: &Connection) -> Result<(), EnqueueError> {
    match connection.is_autocommit() {
        true => Err(EnqueueError::NotInTransaction),
        false => Ok(()),
    }
}
