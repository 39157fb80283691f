//! The warehouse, a consumer: ships each order once, however often its event arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt as _;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use posthaste::schema::{self, SchemaError};
use posthaste::{Inbox, InboxError, Once, TableError};
use tokio_postgres::{Client, NoTls};

use crate::EXCHANGE;
use crate::order::OrderCreated;

/// Why the warehouse stopped. What it had not acknowledged comes again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WarehouseError {
    /// A message that it cannot understand.
    #[error("a message is no OrderCreated")]
    Unreadable,
    /// RabbitMQ failed.
    #[error("RabbitMQ failed: check that it runs at the address in AMQP_URL: {0}")]
    RabbitMq(#[from] lapin::Error),
    /// The inbox could not be set up.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The inbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The inbox failed.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// The database failed.
    #[error("the database failed: check that it runs at the address in DATABASE_URL")]
    Database(#[from] tokio_postgres::Error),
}

/// Ships what was ordered.
pub struct Warehouse {
    /// Closed when it is dropped.
    _connection: Connection,
    channel: Channel,
    queue: String,
    client: Client,
    inbox: Inbox,
    duplicates: Arc<AtomicU64>,
}

impl Warehouse {
    /// Makes its queue, which outlives it, and what leads there. From then on nothing is missed.
    pub async fn open(address: &str, url: &str, queue: &str) -> Result<Self, WarehouseError> {
        let (mut client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        let inbox = Inbox::new("public.warehouse_inbox")?;
        schema::apply_inbox(&mut client, inbox.table()).await?;
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let none = FieldTable::default;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        channel
            .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, none())
            .await?;
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel.queue_declare(queue.into(), durable, none()).await?;
        let (pattern, bind) = ("logistics.order.created.*", QueueBindOptions::default());
        channel
            .queue_bind(queue.into(), EXCHANGE.into(), pattern.into(), bind, none())
            .await?;
        Ok(Self {
            _connection: connection,
            channel,
            queue: queue.to_owned(),
            client,
            inbox,
            duplicates: Arc::default(),
        })
    }

    /// How many events came again, so far.
    pub fn duplicates(&self) -> Arc<AtomicU64> {
        self.duplicates.clone()
    }

    /// Works until it fails. Gives back why.
    pub async fn run(mut self) -> Result<(), WarehouseError> {
        let options = BasicConsumeOptions::default();
        let (queue, tag) = (self.queue.as_str().into(), "warehouse".into());
        let consuming = self
            .channel
            .basic_consume(queue, tag, options, FieldTable::default());
        let mut consumer = consuming.await?;
        while let Some(delivery) = consumer.next().await {
            let delivery = delivery?;
            let order = serde_json::from_slice(&delivery.data);
            let order = order.map_err(|_| WarehouseError::Unreadable)?;
            if self.ship(&order).await? == Once::Again {
                self.duplicates.fetch_add(1, Ordering::Relaxed);
            }
            delivery.ack(BasicAckOptions::default()).await?;
        }
        Ok(())
    }

    /// Ships an order, unless that was done before: both in one transaction.
    pub async fn ship(&mut self, order: &OrderCreated) -> Result<Once, WarehouseError> {
        let transaction = self.client.transaction().await?;
        let noted = self.inbox.once(&transaction, "warehouse", order.message_id);
        let once = noted.await?;
        if once == Once::First {
            let sql = "insert into shipments (order_id, destination) values ($1, $2)";
            transaction
                .execute(sql, &[&order.order_id, &order.destination])
                .await?;
        }
        transaction.commit().await?;
        Ok(once)
    }
}
