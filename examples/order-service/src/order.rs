//! Orders: each is written together with its event, in one transaction. Knows nothing of Kafka.

use deadpool_postgres::{Manager, Pool, PoolError, Transaction};
use posthaste::{EnqueueError, Message, Outbox, StoreError, TableError, schema};
use posthaste_relay::Waker;
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::OUTBOX;

/// The topic of the event; the type that the document gives it is `OrderCreated`.
const TOPIC: &str = "orders.order.created.v1";
const SCHEMA: &str = include_str!("../sql/schema.sql");

/// What a customer asks for.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// Who orders.
    pub customer: Uuid,
    /// What. Each article once.
    pub lines: Vec<Line>,
}

/// One article of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The article.
    pub sku: String,
    /// How many of it.
    pub quantity: i32,
    /// What one of it costs.
    pub cents: i64,
}

/// The event: all that a consumer needs, as it cannot ask this service for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    /// The id of the event in the outbox, and of the message in Kafka.
    pub event_id: Uuid,
    /// The order.
    pub order_id: Uuid,
    /// Who ordered.
    pub customer_id: Uuid,
    /// What.
    pub lines: Vec<Line>,
    /// What all of it costs.
    pub total_cents: i64,
}

/// An order that was committed, and its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The order.
    pub order: Uuid,
    /// Its event.
    pub event: Uuid,
}

/// Why there is no order. Nothing of it was kept, and there is no event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// There is not enough of an article.
    #[error("there is not enough of {sku}: order less of it, or later")]
    SoldOut {
        /// The article.
        sku: String,
    },
    /// The event was refused.
    #[error("the event was not enqueued")]
    Event(#[from] EnqueueError),
    /// The outbox could not be set up.
    #[error("the outbox could not be set up")]
    Outbox(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is no connection to be had.
    #[error("the database cannot be reached: check that it runs at the address in DATABASE_URL")]
    Unreachable(#[from] PoolError),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

/// Takes orders.
#[derive(Clone)]
pub struct Orders {
    pool: Pool,
    outbox: Outbox,
    waker: Option<Waker>,
}

impl Orders {
    /// Opens the database at this address, and makes the tables that are missing.
    pub async fn open(address: &str) -> Result<Self, OrderError> {
        let outbox = Outbox::new(OUTBOX)?;
        schema::apply_at(address, outbox.table()).await?;
        let pool = pool(address)?;
        pool.get().await?.batch_execute(SCHEMA).await?;
        Ok(Self {
            pool,
            outbox,
            waker: None,
        })
    }

    /// Wakes the publisher of this process after each order, so that no event waits for its next look.
    pub fn waking(mut self, waker: Waker) -> Self {
        self.waker = Some(waker);
        self
    }

    /// Puts this many more of an article on the shelf.
    pub async fn stock(&self, sku: &str, more: i32) -> Result<(), OrderError> {
        let sql = "insert into stock (sku, available) values ($1, $2)
                   on conflict (sku) do update set available = stock.available + excluded.available";
        self.pool.get().await?.execute(sql, &[&sku, &more]).await?;
        Ok(())
    }

    /// Writes an order and its event. Both are there afterwards, or neither.
    pub async fn place(&self, order: &NewOrder) -> Result<Placed, OrderError> {
        let event = OrderCreated::of(order);
        let message = Message::json(TOPIC, &event)?
            .id(event.event_id)
            .aggregate("Order", event.order_id.to_string())
            .event_type("OrderCreated");

        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        write(&transaction, &event).await?;
        self.outbox.enqueue(&transaction, &message).await?;
        // What fails from here on takes the event along.
        reserve(&transaction, &event.lines).await?;
        transaction.commit().await?;

        if let Some(waker) = &self.waker {
            waker.wake();
        }
        Ok(Placed {
            order: event.order_id,
            event: event.event_id,
        })
    }
}

impl OrderCreated {
    fn of(order: &NewOrder) -> Self {
        let mut lines = order.lines.clone();
        // Two orders that lock the same articles do so in the same order.
        lines.sort_by(|a, b| a.sku.cmp(&b.sku));
        Self {
            event_id: Uuid::now_v7(),
            order_id: Uuid::now_v7(),
            customer_id: order.customer,
            total_cents: lines
                .iter()
                .map(|it| i64::from(it.quantity) * it.cents)
                .sum(),
            lines,
        }
    }
}

/// Connections to the database at this address.
pub(crate) fn pool(address: &str) -> Result<Pool, OrderError> {
    let manager = Manager::new(address.parse()?, NoTls);
    let pool = Pool::builder(manager).max_size(8).build();
    Ok(pool.expect("a pool without timeouts needs no runtime"))
}

async fn write(transaction: &Transaction<'_>, order: &OrderCreated) -> Result<(), OrderError> {
    let sql = "insert into orders (id, customer_id, total_cents) values ($1, $2, $3)";
    transaction
        .execute(
            sql,
            &[&order.order_id, &order.customer_id, &order.total_cents],
        )
        .await?;
    let sql = "insert into order_lines (order_id, sku, quantity, cents) values ($1, $2, $3, $4)";
    for line in &order.lines {
        transaction
            .execute(
                sql,
                &[&order.order_id, &line.sku, &line.quantity, &line.cents],
            )
            .await?;
    }
    Ok(())
}

async fn reserve(transaction: &Transaction<'_>, lines: &[Line]) -> Result<(), OrderError> {
    let sql = "update stock set available = available - $2 where sku = $1";
    for line in lines {
        let sold_out = || OrderError::SoldOut {
            sku: line.sku.clone(),
        };
        match transaction.execute(sql, &[&line.sku, &line.quantity]).await {
            Ok(1) => {}
            Ok(_) => return Err(sold_out()),
            Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => {
                return Err(sold_out());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
