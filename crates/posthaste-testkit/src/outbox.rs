//! A fresh outbox of its own for each test, in the PostgreSQL that the tests were given.

use posthaste::store::postgres::Postgres;
use posthaste::{Message, Outbox, Receipt, Table, schema};
use tokio_postgres::{Client, NoTls};

use crate::server;

/// An outbox that nobody else uses, in a schema of its own.
pub struct Fresh {
    /// The address of the database.
    pub url: String,
    /// Its table.
    pub table: Table,
    /// To enqueue into it.
    pub outbox: Outbox,
    /// A connection as superuser.
    pub client: Client,
}

impl Fresh {
    /// Makes one, in the server of [`server::postgres_url`].
    pub async fn new() -> Self {
        Self::at(&server::postgres_url()).await
    }

    /// Makes one, in the server at this address.
    pub async fn at(url: &str) -> Self {
        let schema = format!("t{}", uuid::Uuid::new_v4().simple());
        let table = Table::parse(&format!("{schema}.outbox")).expect("a plain name");
        let mut client = connect(url).await;
        schema::apply(&mut client, &table)
            .await
            .expect("a new schema");
        Self {
            url: url.to_owned(),
            outbox: Outbox::of(table.clone()),
            table,
            client,
        }
    }

    /// A store on it, as another relay would have.
    pub async fn store(&self) -> Postgres {
        Postgres::connect(&self.url, self.table.clone())
            .await
            .expect("a store on a fresh outbox")
    }

    /// Enqueues these in one transaction.
    pub async fn enqueue(&mut self, messages: &[Message]) -> Vec<Receipt> {
        let transaction = self.client.transaction().await.expect("a transaction");
        let receipts = self
            .outbox
            .enqueue_all(&transaction, messages)
            .await
            .expect("valid messages");
        transaction.commit().await.expect("a commit");
        receipts
    }

    /// Fills the table into a statement of a test: `{outbox}`, and what belongs to it:
    /// `{outbox:relay}`, `{outbox:audit}` and so on.
    pub fn sql(&self, sql: &str) -> String {
        let (schema, name) = (self.table.schema(), self.table.name());
        let mut sql = sql.replace("{outbox}", &format!("\"{schema}\".\"{name}\""));
        for part in ["relay", "audit", "archive", "attempts", "pauses", "jobs"] {
            let full = format!("\"{schema}\".\"{name}_{part}\"");
            sql = sql.replace(&format!("{{outbox:{part}}}"), &full);
        }
        sql
    }
}

/// Connects to a PostgreSQL server.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .unwrap_or_else(|error| panic!("cannot connect to {url}: {error}"));
    tokio::spawn(connection);
    client
}
