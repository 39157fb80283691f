//! A bed for the store on SQLite: a fresh file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::store::sqlite::Sqlite;
use posthaste::{EnqueueError, Message, Receipt};
use uuid::Uuid;

use super::Bed;
use crate::file::FreshFile;

/// An outbox in a SQLite file.
pub struct OnSqlite {
    fresh: Arc<FreshFile>,
}

impl OnSqlite {
    /// A fresh one.
    pub async fn new() -> Self {
        Self {
            fresh: Arc::new(FreshFile::new()),
        }
    }

    /// The file, for what only SQLite can be asked.
    pub fn fresh(&self) -> &FreshFile {
        &self.fresh
    }

    /// Does something to the file, where it may block.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FreshFile) -> T + Send + 'static,
    ) -> T {
        let fresh = self.fresh.clone();
        let done = tokio::task::spawn_blocking(move || work(&fresh));
        done.await.expect("work that does not panic")
    }
}

#[async_trait]
impl Bed for OnSqlite {
    type Store = Sqlite;

    // On a connection of its own, so that tests can let producers race.
    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Receipt>, EnqueueError> {
        let messages = messages.to_vec();
        self.with(move |fresh| {
            let mut connection = fresh.open();
            let transaction = connection.transaction().expect("a transaction");
            let receipts = fresh.outbox.enqueue_all_sync(&transaction, &messages)?;
            transaction.commit().expect("a commit");
            Ok(receipts)
        })
        .await
    }

    async fn relay(&self) -> Sqlite {
        self.fresh.store().await
    }

    async fn pass(&self, time: Duration) {
        let micros = time.as_micros();
        let mut sql = String::new();
        for (table, columns) in super::TIMES {
            let older: Vec<String> = columns
                .split(' ')
                .map(|column| format!("{column} = {column} - {micros}"))
                .collect();
            sql += &format!("update {table} set {};", older.join(", "));
        }
        self.with(move |fresh| {
            fresh
                .open()
                .execute_batch(&fresh.sql(&sql))
                .expect("older events");
        })
        .await;
    }

    async fn archive(&self) -> Vec<Uuid> {
        self.with(|fresh| {
            let connection = fresh.open();
            let sql = fresh.sql("select id from {outbox:archive} order by sequence");
            let mut statement = connection.prepare(&sql).expect("the archive");
            let ids = statement.query_map([], |row| row.get::<_, String>(0));
            ids.expect("the archive")
                .map(|id| Uuid::parse_str(&id.expect("an id")).expect("a uuid"))
                .collect()
        })
        .await
    }
}
