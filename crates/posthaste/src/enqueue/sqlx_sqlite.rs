//! Enqueue with sqlx on SQLite. Begin with `begin_with("begin immediate")`: a transaction that reads first may fail
//! to write, as others have in between.

use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use super::sqlite::{Answer, all_new, id, parameter, some_new};
use super::{Database, EnqueueError, Receipt, Row, Rows, Statement, Transaction};

/// What SQLite says to a second beginning.
const WITHIN: &str = "within a transaction";

impl Transaction for &mut sqlx::Transaction<'_, Sqlite> {
    fn database(&self) -> Database {
        Database::Sqlite
    }

    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        in_transaction(self).await?;
        match statement {
            Statement::One { sql, existing, row } => one(self, sql, existing, row).await,
            Statement::Many {
                sql,
                existing,
                rows,
            } => many(self, sql, existing, rows).await,
        }
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        in_transaction(self).await?;
        let query = sqlx::query(AssertSqlSafe(sql));
        let query = texts.iter().fold(query, |query, text| query.bind(*text));
        let done = query.execute(&mut **self).await;
        done.map(|done| done.rows_affected())
            .map_err(EnqueueError::database)
    }
}

/// An error may have rolled it back already, which sqlx does not notice: then the statement would stand alone.
/// Within a transaction, SQLite refuses to begin another.
async fn in_transaction(connection: &mut SqliteConnection) -> Result<(), EnqueueError> {
    match sqlx::query("begin").execute(&mut *connection).await {
        Err(sqlx::Error::Database(error)) if error.message().contains(WITHIN) => Ok(()),
        Err(error) => Err(EnqueueError::database(error)),
        Ok(_) => {
            let ended = sqlx::query("rollback").execute(connection).await;
            ended.map_err(EnqueueError::database)?;
            Err(EnqueueError::NotInTransaction)
        }
    }
}

async fn one(
    connection: &mut SqliteConnection,
    sql: &str,
    existing: Option<&str>,
    row: &Row,
) -> Result<Vec<Receipt>, EnqueueError> {
    // Safe, here and below: the text is one of ours, and its table is quoted.
    let query = sqlx::query(AssertSqlSafe(sql))
        .bind(row.id.to_string())
        .bind(&row.namespace)
        .bind(&row.topic)
        .bind(row.tenant_id.map(|tenant| tenant.to_string()))
        .bind(&row.aggregate_type)
        .bind(&row.aggregate_id)
        .bind(&row.event_type)
        .bind(&row.ordering_key)
        .bind(&row.dedupe_key)
        .bind(&row.headers)
        .bind(&row.content_type)
        .bind(&row.payload)
        .bind(&row.payload_bytes)
        .bind(row.delay)
        .bind(row.due)
        .bind(&row.traceparent)
        .bind(&row.tracestate);
    let receipt = |new| {
        move |(id, sequence): &Answer| Receipt {
            id: *id,
            sequence: *sequence,
            new,
        }
    };
    let inserted = answers(query.fetch_all(&mut *connection).await)?;
    match existing {
        Some(existing) if inserted.is_empty() => {
            let query = sqlx::query(AssertSqlSafe(existing))
                .bind(row.id.to_string())
                .bind(&row.namespace)
                .bind(&row.topic)
                .bind(&row.dedupe_key);
            let met = answers(query.fetch_all(&mut *connection).await)?;
            Ok(met.iter().map(receipt(false)).collect())
        }
        _ => Ok(inserted.iter().map(receipt(true)).collect()),
    }
}

async fn many(
    connection: &mut SqliteConnection,
    sql: &str,
    existing: Option<&str>,
    rows: &Rows,
) -> Result<Vec<Receipt>, EnqueueError> {
    let messages = parameter(rows);
    let query = sqlx::query(AssertSqlSafe(sql)).bind(&messages);
    let inserted = answers(query.fetch_all(&mut *connection).await)?;
    let Some(existing) = existing else {
        return Ok(all_new(rows, &inserted));
    };
    let query = sqlx::query(AssertSqlSafe(existing)).bind(&messages);
    let found = answers(query.fetch_all(&mut *connection).await)?;
    Ok(some_new(rows, &inserted, &found))
}

fn answers(rows: Result<Vec<SqliteRow>, sqlx::Error>) -> Result<Vec<Answer>, EnqueueError> {
    let answer = |row: &SqliteRow| {
        let text: &str = row.try_get(0).map_err(EnqueueError::database)?;
        let sequence = row.try_get(1).map_err(EnqueueError::database)?;
        Ok((id(text)?, sequence))
    };
    rows.map_err(EnqueueError::database)?
        .iter()
        .map(answer)
        .collect()
}
