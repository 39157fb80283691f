//! A subscriber: handles each event once, however often it arrives. In real life it is another service.

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
use uuid::Uuid;

use crate::EXCHANGE;

/// Why the subscriber stopped. What it had not acknowledged comes again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriberError {
    /// A message without an id that can be read.
    #[error("a message has no event id in its property message_id")]
    NoId,
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

/// Writes down every event of the farm.
pub struct Subscriber {
    /// Closed when it is dropped.
    _connection: Connection,
    channel: Channel,
    queue: String,
    client: Client,
    inbox: Inbox,
}

impl Subscriber {
    /// Makes its queue, which outlives it, and what leads there. From then on nothing is missed.
    pub async fn open(address: &str, url: &str, queue: &str) -> Result<Self, SubscriberError> {
        let (mut client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        let inbox = Inbox::new("public.ledger_inbox")?;
        schema::apply_inbox(&mut client, inbox.table()).await?;
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let none = FieldTable::default;
        channel
            .exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, none())
            .await?;
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel.queue_declare(queue.into(), durable, none()).await?;
        let bind = QueueBindOptions::default();
        channel
            .queue_bind(queue.into(), EXCHANGE.into(), "farm.#".into(), bind, none())
            .await?;
        Ok(Self {
            _connection: connection,
            channel,
            queue: queue.to_owned(),
            client,
            inbox,
        })
    }

    /// Works until it fails. Gives back why.
    pub async fn run(mut self) -> Result<(), SubscriberError> {
        let options = BasicConsumeOptions::default();
        let consuming = self.channel.basic_consume(
            self.queue.as_str().into(),
            "ledger".into(),
            options,
            FieldTable::default(),
        );
        let mut consumer = consuming.await?;
        while let Some(delivery) = consumer.next().await {
            let delivery = delivery?;
            let properties = &delivery.properties;
            let id = properties.message_id().as_ref();
            let id = id.and_then(|id| Uuid::parse_str(id.as_str()).ok());
            let id = id.ok_or(SubscriberError::NoId)?;
            let name = properties.kind().as_ref().map_or("", |name| name.as_str());
            // That it came again is no reason to do anything but acknowledge it.
            let _ = self.handle(id, name).await?;
            delivery.ack(BasicAckOptions::default()).await?;
        }
        Ok(())
    }

    /// Handles an event, unless it was handled before: both in one transaction.
    pub async fn handle(&mut self, event: Uuid, name: &str) -> Result<Once, SubscriberError> {
        let transaction = self.client.transaction().await?;
        let once = self.inbox.once(&transaction, "ledger", event).await?;
        if once == Once::First {
            let sql = "insert into deliveries (event_id, event_type) values ($1, $2)";
            transaction.execute(sql, &[&event, &name]).await?;
        }
        transaction.commit().await?;
        Ok(once)
    }
}
