//! Enqueue with deadpool-postgres, whose connections cache their prepared statements.

use deadpool_postgres::Transaction as PoolTransaction;

use super::tokio_postgres::{many, one, receipts};
use super::{EnqueueError, Receipt, Statement, Transaction};

impl Transaction for &PoolTransaction<'_> {
    async fn run(self, statement: Statement<'_>) -> Result<Vec<Receipt>, EnqueueError> {
        let (sql, values) = match statement {
            Statement::One { sql, row } => (sql, one(row)),
            Statement::Many { sql, rows } => (sql, many(rows)),
        };
        let prepared = self
            .prepare_cached(sql)
            .await
            .map_err(EnqueueError::database)?;
        receipts(self.query(&prepared, &values).await)
    }
}
