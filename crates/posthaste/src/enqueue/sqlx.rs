//! Enqueue with sqlx, whose connections cache their prepared statements.

use sqlx::postgres::{PgRow, Postgres};
use sqlx::{AssertSqlSafe, Row as _};

use super::{EnqueueError, Receipt, Statement, Transaction};

/// The parameters of a statement, in order. `Row` and `Rows` have the same fields.
macro_rules! bind {
    ($sql:expr, $row:expr) => {
        // Safe: the text is one of ours, and its table is quoted.
        sqlx::query(AssertSqlSafe($sql))
            .bind(&$row.id)
            .bind(&$row.namespace)
            .bind(&$row.topic)
            .bind(&$row.tenant_id)
            .bind(&$row.aggregate_type)
            .bind(&$row.aggregate_id)
            .bind(&$row.event_type)
            .bind(&$row.ordering_key)
            .bind(&$row.dedupe_key)
            .bind(&$row.headers)
            .bind(&$row.content_type)
            .bind(&$row.payload)
            .bind(&$row.payload_bytes)
            .bind(&$row.delay)
            .bind(&$row.due)
            .bind(&$row.traceparent)
            .bind(&$row.tracestate)
    };
}

impl Transaction for &mut sqlx::Transaction<'_, Postgres> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let query = match statement {
            Statement::One { sql, row, .. } => bind!(sql, row),
            Statement::Many { sql, rows, .. } => bind!(sql, rows),
        };
        let rows = query.fetch_all(&mut **self).await;
        rows.and_then(|rows| rows.iter().map(receipt).collect())
            .map_err(EnqueueError::database)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        let query = sqlx::query(AssertSqlSafe(sql));
        let query = texts.iter().fold(query, |query, text| query.bind(*text));
        let done = query.execute(&mut **self).await;
        done.map(|done| done.rows_affected())
            .map_err(EnqueueError::database)
    }
}

fn receipt(row: &PgRow) -> Result<Receipt, sqlx::Error> {
    Ok(Receipt {
        id: row.try_get(0)?,
        sequence: row.try_get(1)?,
        new: row.try_get(2)?,
    })
}
