//! Orders: each is written together with its event, in one transaction. Knows nothing of a broker.

use posthaste::{EnqueueError, Message, Outbox, StoreError, TableError, schema};
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, NoTls, Transaction};
use uuid::Uuid;

use crate::OUTBOX;

const TOPIC: &str = "logistics.order.created.v1";
const SCHEMA: &str = include_str!("../sql/schema.sql");

/// What is to be shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order.
    pub id: Uuid,
    /// Where to.
    pub destination: String,
    /// How heavy it is.
    pub kilograms: i32,
}

/// The event: all of the order, and the id by which consumers know that they had it before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    /// The id of the event.
    pub message_id: Uuid,
    /// The order.
    pub order_id: Uuid,
    /// Where to.
    pub destination: String,
    /// How heavy it is.
    pub kilograms: i32,
}

/// Why there is no order. Nothing of it was kept, and there is no event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// The event was refused.
    #[error("the event was not enqueued: {0}")]
    Event(#[from] EnqueueError),
    /// The outbox could not be set up.
    #[error("the outbox could not be set up: {0}")]
    Outbox(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The database refused a statement.
    #[error("the database refused the order: check it, and that DATABASE_URL is right")]
    Database(#[from] tokio_postgres::Error),
}

/// Takes orders, one after the other.
pub struct Orders {
    client: Client,
    outbox: Outbox,
}

impl Orders {
    /// Opens the database at this address, and makes the tables that are missing.
    pub async fn open(address: &str) -> Result<Self, OrderError> {
        let outbox = Outbox::new(OUTBOX)?;
        schema::apply_at(address, outbox.table()).await?;
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(SCHEMA).await?;
        Ok(Self { client, outbox })
    }

    /// Writes an order and its event. Both are there afterwards, or neither. Gives back the event's id.
    pub async fn create(&mut self, order: &Order) -> Result<Uuid, OrderError> {
        let transaction = self.client.transaction().await?;
        let event = announce(&transaction, &self.outbox, order).await?;
        let sql = "insert into orders (id, destination, kilograms) values ($1, $2, $3)";
        transaction
            .execute(sql, &[&order.id, &order.destination, &order.kilograms])
            .await?;
        transaction.commit().await?;
        Ok(event)
    }
}

/// Enqueues the event of an order, in the transaction of whoever writes the order.
pub async fn announce(
    transaction: &Transaction<'_>,
    outbox: &Outbox,
    order: &Order,
) -> Result<Uuid, EnqueueError> {
    let event = OrderCreated {
        message_id: Uuid::now_v7(),
        order_id: order.id,
        destination: order.destination.clone(),
        kilograms: order.kilograms,
    };
    let message = Message::json(TOPIC, &event)?
        .id(event.message_id)
        .aggregate("Order", order.id.to_string())
        .event_type("OrderCreated");
    Ok(outbox.enqueue(transaction, &message).await?.id)
}
