//! Billing, a consumer: writes one invoice for each order, however often its event arrives.
//!
//! It knows the orders by their events alone. In real life it is another service.

use std::sync::atomic::{AtomicU64, Ordering};

use deadpool_postgres::{Pool, PoolError};
use posthaste::schema::{self, SchemaError};
use posthaste::{Inbox, InboxError, Once, TableError};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message as _};
use rdkafka::types::RDKafkaErrorCode;
use uuid::Uuid;

use crate::order::{OrderCreated, OrderError, pool};

/// The topic of Kafka that holds the events of orders.
pub const TOPIC: &str = "order-service.Order";
const PARTITIONS: i32 = 3;

/// Why billing stopped. What it had not committed, it reads again when it goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BillingError {
    /// A message that it cannot understand.
    #[error("a message of {TOPIC} cannot be read: {0}")]
    Unreadable(String),
    /// Kafka failed.
    #[error("Kafka failed: check that it runs at the address in KAFKA_BROKERS")]
    Kafka(#[from] KafkaError),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OrderError),
    /// There is no connection to be had.
    #[error("the database cannot be reached: check that it runs at the address in DATABASE_URL")]
    Unreachable(#[from] PoolError),
    /// The inbox could not be set up.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The inbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The inbox failed.
    #[error(transparent)]
    Inbox(#[from] InboxError),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

/// Reads the events of orders, and writes invoices.
pub struct Billing {
    consumer: StreamConsumer,
    pool: Pool,
    inbox: Inbox,
    duplicates: AtomicU64,
}

impl Billing {
    /// Opens the database, makes the topic if it is missing, and joins the group `billing`.
    pub async fn open(address: &str, brokers: &str) -> Result<Self, BillingError> {
        create_topic(brokers).await?;
        let inbox = Inbox::new("public.billing_inbox")?;
        let pool = pool(address)?;
        schema::apply_inbox(&mut *pool.get().await?, inbox.table()).await?;
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "billing")
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .create()?;
        consumer.subscribe(&[TOPIC])?;
        Ok(Self {
            consumer,
            pool,
            inbox,
            duplicates: AtomicU64::new(0),
        })
    }

    /// Works until it fails. May be dropped at any time: what was not committed is read again.
    pub async fn run(&self) -> Result<(), BillingError> {
        loop {
            let message = match self.consumer.recv().await {
                Ok(message) => message,
                // Kafka is away, or its topic has moved. The consumer finds it again by itself.
                Err(KafkaError::MessageConsumption(code)) => {
                    tracing::warn!(%code, "billing waits for Kafka");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (id, order) = read(&message)?;
            if self.bill(id, &order).await? == Once::Again {
                self.duplicates.fetch_add(1, Ordering::Relaxed);
            }
            // After the invoice: the other way round, a crash in between would lose it.
            self.consumer.commit_message(&message, CommitMode::Async)?;
        }
    }

    /// Writes an invoice and that this event was handled, in one transaction.
    pub async fn bill(&self, event: Uuid, order: &OrderCreated) -> Result<Once, BillingError> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let once = self.inbox.once(&transaction, "billing", event).await?;
        if once == Once::First {
            let sql = "insert into invoices (order_id, event_id, total_cents) values ($1, $2, $3)";
            transaction
                .execute(sql, &[&order.order_id, &event, &order.total_cents])
                .await?;
        }
        transaction.commit().await?;
        Ok(once)
    }

    /// How many events came again.
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }
}

/// The event's id, which the message has beside its body, and the event.
fn read(message: &BorrowedMessage<'_>) -> Result<(Uuid, OrderCreated), BillingError> {
    let unreadable = |why: &dyn std::fmt::Display| BillingError::Unreadable(why.to_string());
    let id = message
        .headers()
        .and_then(|headers| headers.iter().find(|header| header.key == "posthaste-id"))
        .and_then(|header| header.value)
        .ok_or_else(|| unreadable(&"it has no header posthaste-id"))?;
    let id = Uuid::try_parse_ascii(id).map_err(|error| unreadable(&error))?;
    let body = message.payload().unwrap_or_default();
    let order = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
    Ok((id, order))
}

/// Makes the topic, unless it is there.
async fn create_topic(brokers: &str) -> Result<(), KafkaError> {
    let mut config = ClientConfig::new();
    let admin: AdminClient<DefaultClientContext> =
        config.set("bootstrap.servers", brokers).create()?;
    // One replica, as the example has one broker. A real cluster has three.
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
    for made in admin.create_topics([&topic], &AdminOptions::new()).await? {
        match made {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(KafkaError::AdminOp(code)),
        }
    }
    Ok(())
}
