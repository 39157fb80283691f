//! A bed for the store on PostgreSQL: a fresh outbox in the server that the tests were given.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::postgres::Postgres;
use posthaste::{EnqueueError, Message, Receipt};
use uuid::Uuid;

use super::Bed;
use crate::outbox::{Fresh, connect};

/// An outbox in PostgreSQL.
pub struct OnPostgres {
    fresh: Fresh,
}

impl OnPostgres {
    /// A fresh one, in a schema of its own.
    pub async fn new() -> Self {
        Self {
            fresh: Fresh::new().await,
        }
    }

    /// Waits until the server has noticed that the session of this owner is over.
    pub async fn is_over(&self, owner: Uuid) {
        let sql = "select 1 from pg_locks where locktype = 'advisory' and database = \
                   (select oid from pg_database where datname = current_database()) \
                   and classid::bigint = (hashtextextended($1, 0) >> 32) & 4294967295 \
                   and objid::bigint = hashtextextended($1, 0) & 4294967295";
        let owner = owner.to_string();
        let locks = async || {
            self.fresh
                .client
                .query(sql, &[&owner])
                .await
                .expect("locks")
        };
        while !locks().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The outbox and a connection to it, for what only PostgreSQL can be asked.
    pub fn fresh(&self) -> &Fresh {
        &self.fresh
    }
}

#[async_trait]
impl Bed for OnPostgres {
    type Store = Postgres;

    // On a connection of its own, so that tests can let producers race.
    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Receipt>, EnqueueError> {
        let mut client = connect(&self.fresh.url).await;
        let transaction = client.transaction().await.expect("a transaction");
        let receipts = self
            .fresh
            .outbox
            .enqueue_all(&transaction, messages)
            .await?;
        transaction.commit().await.expect("a commit");
        Ok(receipts)
    }

    async fn relay(&self) -> Postgres {
        self.fresh.store().await
    }

    async fn pass(&self, time: Duration) {
        let seconds = time.as_secs();
        let mut sql = String::new();
        for (table, columns) in super::TIMES {
            let older: Vec<String> = columns
                .split(' ')
                .map(|column| format!("{column} = {column} - interval '{seconds} s'"))
                .collect();
            sql += &self
                .fresh
                .sql(&format!("update {table} set {};", older.join(", ")));
        }
        self.fresh
            .client
            .batch_execute(&sql)
            .await
            .expect("older events");
    }

    async fn archive(&self) -> Vec<Uuid> {
        let sql = self
            .fresh
            .sql("select id from {outbox:archive} order by sequence");
        let rows = self
            .fresh
            .client
            .query(&sql, &[])
            .await
            .expect("the archive");
        rows.iter().map(|row| row.get(0)).collect()
    }
}
