//! The database of the service: its tables, its outboxes, and connections to it.

use deadpool_postgres::{Manager, Pool, PoolError};
use posthaste::schema::{self, SchemaError};
use posthaste::{EnqueueError, StoreError, Table, TableError};
use tokio_postgres::NoTls;

/// The outbox of the module `org`.
pub const ORG_OUTBOX: &str = "public.org_outbox";
/// The outbox of the module `hrm`.
pub const HRM_OUTBOX: &str = "public.hrm_outbox";
/// Which events the directory has handled.
pub const INBOX: &str = "directory.inbox";

/// Far more than one instance needs, besides the four of each relay.
const CONNECTIONS: usize = 8;
/// Any number, the same in every instance: one at a time makes the tables.
const SET_UP: i64 = 0x006f_7267;

/// Why a module did not do as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// There is no such organization, or there is no more.
    #[error("there is no organization {0} of this tenant: create it first")]
    OrganizationUnknown(uuid::Uuid),
    /// There is an organization of this id, which another command has created.
    #[error("there is an organization {0} already: give the new one an id of its own")]
    OrganizationKnown(uuid::Uuid),
    /// The event was refused.
    #[error("the event was not enqueued: {0}")]
    Enqueue(#[from] EnqueueError),
    /// The outbox is not as it must be.
    #[error("the outbox cannot be used: {0}")]
    Outbox(#[from] StoreError),
    /// The inbox is not as it must be.
    #[error("the inbox cannot be used: {0}")]
    Inbox(#[from] SchemaError),
    /// A table cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The database is not reachable.
    #[error("the database is not reachable: check DATABASE_URL")]
    Unreachable(#[from] PoolError),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

/// Makes all that is missing in this database. Every instance does so when it starts.
pub async fn set_up(address: &str) -> Result<(), ModuleError> {
    for table in [ORG_OUTBOX, HRM_OUTBOX] {
        schema::apply_at(address, &Table::parse(table)?).await?;
    }
    let pool = connect(address)?;
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let lock = "select pg_advisory_xact_lock($1)";
    transaction.execute(lock, &[&SET_UP]).await?;
    transaction
        .batch_execute(include_str!("schema.sql"))
        .await?;
    transaction.commit().await?;
    schema::apply_inbox(&mut client, &Table::parse(INBOX)?).await?;
    Ok(())
}

/// Connections to the database at this address.
pub fn connect(address: &str) -> Result<Pool, tokio_postgres::Error> {
    let manager = Manager::new(address.parse()?, NoTls);
    let pool = Pool::builder(manager).max_size(CONNECTIONS);
    Ok(pool
        .build()
        .expect("a pool without timeouts needs no runtime"))
}
