//! Enqueue with diesel-async.
//!
//! Diesel has no type for an open transaction, only connections that know whether they are in
//! one: so that is asked first.

use diesel::QueryableByName;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Bool, Bytea, Double, Nullable, Text, Uuid as PgUuid};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, TransactionManager};
use uuid::Uuid;

use super::{EnqueueError, Receipt, Statement, Transaction};

type One<T> = T;
type Many<T> = Array<T>;

/// The parameters of a statement, in order. `Row` and `Rows` have the same fields.
macro_rules! bind {
    ($sql:expr, $row:expr, $as:ident) => {
        sql_query($sql)
            .bind::<$as<PgUuid>, _>(&$row.id)
            .bind::<$as<Text>, _>(&$row.namespace)
            .bind::<$as<Text>, _>(&$row.topic)
            .bind::<$as<Nullable<PgUuid>>, _>(&$row.tenant_id)
            .bind::<$as<Nullable<Text>>, _>(&$row.aggregate_type)
            .bind::<$as<Nullable<Text>>, _>(&$row.aggregate_id)
            .bind::<$as<Nullable<Text>>, _>(&$row.event_type)
            .bind::<$as<Nullable<Text>>, _>(&$row.ordering_key)
            .bind::<$as<Nullable<Text>>, _>(&$row.dedupe_key)
            .bind::<$as<Text>, _>(&$row.headers)
            .bind::<$as<Text>, _>(&$row.content_type)
            .bind::<$as<Nullable<Text>>, _>(&$row.payload)
            .bind::<$as<Nullable<Bytea>>, _>(&$row.payload_bytes)
            .bind::<$as<Double>, _>(&$row.delay)
            .bind::<$as<Nullable<Double>>, _>(&$row.due)
            .bind::<$as<Nullable<Text>>, _>(&$row.traceparent)
            .bind::<$as<Nullable<Text>>, _>(&$row.tracestate)
    };
}

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = PgUuid)]
    id: Uuid,
    #[diesel(sql_type = BigInt)]
    sequence: i64,
    #[diesel(sql_type = Bool)]
    new: bool,
}

impl Transaction for &mut AsyncPgConnection {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        in_transaction(self)?;
        let answers: Vec<Answer> = match statement {
            Statement::One { sql, row, .. } => bind!(sql, row, One).load(self).await,
            Statement::Many { sql, rows, .. } => bind!(sql, rows, Many).load(self).await,
        }
        .map_err(EnqueueError::database)?;
        let receipt = |answer: Answer| Receipt {
            id: answer.id,
            sequence: answer.sequence,
            new: answer.new,
        };
        Ok(answers.into_iter().map(receipt).collect())
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        in_transaction(self)?;
        let query = sql_query(sql).into_boxed();
        let query = texts
            .iter()
            .fold(query, |query, text| query.bind::<Text, _>(*text));
        let touched = query.execute(self).await.map_err(EnqueueError::database)?;
        Ok(u64::try_from(touched).unwrap_or(u64::MAX))
    }
}

fn in_transaction(connection: &mut AsyncPgConnection) -> Result<(), EnqueueError> {
    type Manager = <AsyncPgConnection as AsyncConnection>::TransactionManager;
    let depth = Manager::transaction_manager_status_mut(connection)
        .transaction_depth()
        .map_err(EnqueueError::database)?;
    depth.map(drop).ok_or(EnqueueError::NotInTransaction)
}
