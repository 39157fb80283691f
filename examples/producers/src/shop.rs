//! The shop's database, with one outbox for all producers, and the relay that delivers it.

use std::sync::Arc;

use posthaste::store::postgres::Postgres;
use posthaste::{Store, Table, schema};
use posthaste_relay::Relay;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::{Ledger, Result};

const TABLES: &str = include_str!("../shop.sql");

/// A database of its own, with `orders_outbox` and a table of orders for each language.
pub struct Shop {
    /// The address of the database.
    pub address: String,
    /// The outbox.
    pub table: Table,
    /// A connection to it.
    pub client: Client,
}

impl Shop {
    /// Makes a new database in the server of this address, with all that belongs to it.
    pub async fn open(server: &str) -> Result<Self> {
        let name = format!("producers_{}", uuid::Uuid::new_v4().simple());
        let client = connect(server).await?;
        client
            .batch_execute(&format!("create database {name}"))
            .await?;
        let bare = server.split('?').next().unwrap_or(server);
        let (host, _) = bare
            .rsplit_once('/')
            .ok_or("write the address as postgres://user@host:port/database")?;
        let address = format!("{host}/{name}");
        let mut client = connect(&address).await?;
        let table = Table::parse("orders_outbox")?;
        schema::apply(&mut client, &table).await?;
        client.batch_execute(TABLES).await?;
        Ok(Self {
            address,
            table,
            client,
        })
    }

    /// Starts a relay, which writes what it delivers into the ledger.
    pub async fn relay(&self, ledger: &Ledger) -> Result<Relaying> {
        let store = Postgres::connect(&self.address, self.table.clone()).await?;
        let store: Arc<dyn Store> = Arc::new(store);
        let relay = Relay::builder_on(store)
            .destination("ledger", ledger.sink())
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            relay.run(async { drop(stopped.await) }).await;
        });
        Ok(Relaying { stop, task })
    }
}

/// A relay at work.
pub struct Relaying {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Relaying {
    /// Lets it finish what it has in hand.
    pub async fn stop(self) -> Result {
        // It may have ended by itself.
        let _ = self.stop.send(());
        Ok(self.task.await?)
    }
}

async fn connect(address: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
