//! Enqueue with deadpool-postgres, whose connections cache their prepared statements.

use deadpool_postgres::Transaction as PoolTransaction;

use super::tokio_postgres::{many, one, receipts, typed_texts};
use super::{EnqueueError, Receipt, Statement, Transaction};

impl Transaction for &PoolTransaction<'_> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, values) = match statement {
            Statement::One { sql, row, .. } => (sql, one(row)),
            Statement::Many { sql, rows, .. } => (sql, many(rows)),
        };
        let prepared = self
            .prepare_cached(sql)
            .await
            .map_err(EnqueueError::database)?;
        receipts(self.query(&prepared, &values).await)
    }

    async fn execute(self, sql: &str, texts: &[&str]) -> Result<u64, EnqueueError> {
        // Declared as text, so that the casts of the statement apply: not inferred from them.
        self.execute_typed(sql, &typed_texts(texts))
            .await
            .map_err(EnqueueError::database)
    }
}
