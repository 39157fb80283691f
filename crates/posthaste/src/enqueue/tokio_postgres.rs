//! Enqueue with tokio-postgres.
//!
//! A transaction of tokio-postgres has no statement cache, so the statement is sent with its
//! types and its values in one round trip, and planned each time. [`Prepared`] saves the planning.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction as PgTransaction};

use super::{EnqueueError, Outbox, Receipt, Row, Rows, Statement, Transaction};

const ONE: [Type; 17] = [
    Type::UUID,
    Type::TEXT,
    Type::TEXT,
    Type::UUID,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::BYTEA,
    Type::FLOAT8,
    Type::FLOAT8,
    Type::TEXT,
    Type::TEXT,
];

const MANY: [Type; 17] = [
    Type::UUID_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::UUID_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
];

/// The parameters of a statement, in order. `Row` and `Rows` have the same fields.
macro_rules! values {
    ($row:expr) => {{
        let row = $row;
        let values: [&(dyn ToSql + Sync); 17] = [
            &row.id,
            &row.namespace,
            &row.topic,
            &row.tenant_id,
            &row.aggregate_type,
            &row.aggregate_id,
            &row.event_type,
            &row.ordering_key,
            &row.dedupe_key,
            &row.headers,
            &row.content_type,
            &row.payload,
            &row.payload_bytes,
            &row.delay,
            &row.due,
            &row.traceparent,
            &row.tracestate,
        ];
        values
    }};
}

pub(super) fn one(row: &Row) -> [&(dyn ToSql + Sync); 17] {
    values!(row)
}

pub(super) fn many(rows: &Rows) -> [&(dyn ToSql + Sync); 17] {
    values!(rows)
}

pub(super) fn receipts(
    rows: Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>,
) -> Result<Vec<Receipt>, EnqueueError> {
    let receipt = |row: &tokio_postgres::Row| Receipt {
        id: row.get(0),
        sequence: row.get(1),
        new: row.get(2),
    };
    Ok(rows
        .map_err(EnqueueError::database)?
        .iter()
        .map(receipt)
        .collect())
}

pub(super) fn typed_texts<'t>(texts: &'t [&str]) -> Vec<(&'t (dyn ToSql + Sync), Type)> {
    let typed = |text: &'t &str| (text as &(dyn ToSql + Sync), Type::TEXT);
    texts.iter().map(typed).collect()
}

fn typed(statement: Statement<'_>) -> (&str, Vec<(&(dyn ToSql + Sync), Type)>) {
    let (sql, values, types) = match statement {
        Statement::One { sql, row, .. } => (sql, one(row), ONE),
        Statement::Many { sql, rows, .. } => (sql, many(rows), MANY),
    };
    (sql, values.into_iter().zip(types).collect())
}

impl Transaction for &PgTransaction<'_> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, typed) = typed(statement);
        receipts(self.query_typed(sql, &typed).await)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        self.execute_typed(sql, &typed_texts(texts))
            .await
            .map_err(EnqueueError::database)
    }
}

/// A connection with no transaction open, where each statement is one by itself.
#[cfg(feature = "postgres")]
pub(crate) struct Alone<'c>(pub(crate) &'c Client);

#[cfg(feature = "postgres")]
impl Transaction for Alone<'_> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, typed) = typed(statement);
        receipts(self.0.query_typed(sql, &typed).await)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        let done = self.0.execute_typed(sql, &typed_texts(texts)).await;
        done.map_err(EnqueueError::database)
    }
}

/// An outbox whose statements are prepared on one connection: the fastest way to enqueue
/// there, again and again.
///
/// ```no_run
/// # async fn example(mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # let outbox = posthaste::Outbox::new("orders_outbox")?;
/// # let message = posthaste::Message::json("shop.order.placed.v1", &42)?;
/// let prepared = outbox.prepare(&client).await?;
/// let transaction = client.transaction().await?;
/// outbox.enqueue(prepared.on(&transaction), &message).await?;
/// transaction.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Each with its text.
    statements: [(String, tokio_postgres::Statement); 4],
}

/// A transaction on the connection where an outbox was prepared.
#[allow(
    missing_debug_implementations,
    reason = "a transaction of tokio-postgres has none"
)]
pub struct PreparedTransaction<'a, 'c> {
    prepared: &'a Prepared,
    transaction: &'a PgTransaction<'c>,
}

impl Outbox {
    /// Prepares this outbox's statements on a connection.
    pub async fn prepare(&self, client: &Client) -> Result<Prepared, EnqueueError> {
        let prepare = async |sql: &String, types: &[Type]| {
            let prepared = client.prepare_typed(sql, types).await;
            let prepared = prepared.map_err(EnqueueError::database);
            prepared.map(|prepared| (sql.clone(), prepared))
        };
        let sql = self.0.statements.postgres(self.table());
        Ok(Prepared {
            statements: [
                prepare(&sql.enqueue, &ONE).await?,
                prepare(&sql.enqueue_once, &ONE).await?,
                prepare(&sql.enqueue_all, &MANY).await?,
                prepare(&sql.enqueue_all_once, &MANY).await?,
            ],
        })
    }
}

impl Prepared {
    /// Enqueues in this transaction, which must be of the connection that was prepared.
    pub fn on<'a, 'c>(&'a self, transaction: &'a PgTransaction<'c>) -> PreparedTransaction<'a, 'c> {
        PreparedTransaction {
            prepared: self,
            transaction,
        }
    }
}

impl Transaction for PreparedTransaction<'_, '_> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, values) = match statement {
            Statement::One { sql, row, .. } => (sql, one(row)),
            Statement::Many { sql, rows, .. } => (sql, many(rows)),
        };
        let prepared = self
            .prepared
            .statements
            .iter()
            .find(|(text, _)| text == sql);
        let Some((_, prepared)) = prepared else {
            return Err(EnqueueError::Database(
                "the outbox was prepared for another table".into(),
            ));
        };
        receipts(GenericClient::query(self.transaction, prepared, &values).await)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        Transaction::execute(self.transaction, sql, texts).await
    }
}
