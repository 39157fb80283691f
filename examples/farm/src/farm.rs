//! Commands: load aggregates, let them change, and save them with their events in one transaction.

use posthaste::{EnqueueError, Outbox, Receipt, Recorded, StoreError, TableError, schema};
use posthaste_relay::Waker;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::OUTBOX;
use crate::aggregate::{Aggregate, Barn, Field};

const SCHEMA: &str = include_str!("../sql/schema.sql");
/// Events are to be small: what is larger is refused.
const LARGEST_EVENT: usize = 16 * 1024;

/// Why a command did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarmError {
    /// There is nothing to harvest.
    #[error("nothing grows there: sow first")]
    NothingGrows,
    /// A harvest does not fit.
    #[error("the barn has no room for that: use another one")]
    BarnFull,
    /// Somebody else has saved the same aggregate in the meantime.
    #[error("somebody else changed it at the same time: try again")]
    Conflict,
    /// A domain event was refused.
    #[error("a domain event was not enqueued: {0}")]
    Event(#[from] EnqueueError),
    /// The outbox could not be set up.
    #[error("the outbox could not be set up: {0}")]
    Outbox(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The database failed.
    #[error("the database failed: check that it runs at the address in DATABASE_URL")]
    Database(#[source] tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for FarmError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if *code == SqlState::CHECK_VIOLATION => Self::BarnFull,
            _ => Self::Database(error),
        }
    }
}

/// Does what farmers ask for.
pub struct Farm {
    client: Client,
    outbox: Outbox,
    waker: Option<Waker>,
}

impl Farm {
    /// Opens the database at this address, and makes the tables that are missing.
    pub async fn open(address: &str) -> Result<Self, FarmError> {
        let outbox = Outbox::new(OUTBOX)?.payload_limit(LARGEST_EVENT);
        schema::apply_at(address, outbox.table()).await?;
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(SCHEMA).await?;
        Ok(Self {
            client,
            outbox,
            waker: None,
        })
    }

    /// Wakes the publisher of this process after each command, so that no event waits for its next look.
    pub fn waking(mut self, waker: Waker) -> Self {
        self.waker = Some(waker);
        self
    }

    /// Sows a field.
    pub async fn sow(&mut self, field: Uuid, crop: &str) -> Result<(), FarmError> {
        let mut field = self.field(field).await?;
        field.sow(crop)?;
        self.save_changes(&mut [&mut field]).await.map(drop)
    }

    /// Brings the harvest of a field into a barn: both change, or neither does.
    pub async fn harvest(
        &mut self,
        field: Uuid,
        barn: Uuid,
        kilograms: i64,
    ) -> Result<(), FarmError> {
        let (mut field, mut barn) = (self.field(field).await?, self.barn(barn).await?);
        let crop = field.harvest(kilograms)?;
        barn.store(&crop, kilograms)?;
        self.save_changes(&mut [&mut field, &mut barn])
            .await
            .map(drop)
    }

    /// Saves aggregates, and the domain events that they have raised, in one transaction. The events are
    /// forgotten once it has committed, and only then.
    pub async fn save_changes(
        &mut self,
        aggregates: &mut [&mut dyn Aggregate],
    ) -> Result<Vec<Receipt>, FarmError> {
        let transaction = self.client.transaction().await?;
        for aggregate in aggregates.iter() {
            let (sql, values) = aggregate.upsert();
            if transaction.execute(sql, &values).await? == 0 {
                return Err(FarmError::Conflict);
            }
        }
        let recorded = aggregates.iter_mut().map(|aggregate| aggregate.recorded());
        let saved = self.outbox.save(&transaction, recorded).await?;
        let receipts = saved.receipts().to_vec();
        saved.after(transaction.commit()).await?;
        for aggregate in aggregates {
            *aggregate.version() += 1;
        }
        if let Some(waker) = &self.waker {
            waker.wake();
        }
        Ok(receipts)
    }

    async fn field(&self, id: Uuid) -> Result<Field, FarmError> {
        let sql = "select name, crop, version from fields where id = $1";
        let row = self.client.query_one(sql, &[&id]).await?;
        Ok(Field {
            id,
            name: row.get(0),
            crop: row.get(1),
            version: row.get(2),
            events: Recorded::new(),
        })
    }

    async fn barn(&self, id: Uuid) -> Result<Barn, FarmError> {
        let sql = "select capacity, stored, version from barns where id = $1";
        let row = self.client.query_one(sql, &[&id]).await?;
        Ok(Barn {
            id,
            capacity: row.get(0),
            stored: row.get(1),
            version: row.get(2),
            events: Recorded::new(),
        })
    }
}
