//! The consumer: a directory of organizations with the number of their employees, kept by handlers
//! on the bus of this process.
//!
//! Events arrive at least once and in any order. Each is handled once, by its id; one that comes too
//! early is an error, and comes again.

use std::sync::Arc;

use deadpool_postgres::{Pool, PoolError};
use posthaste::{Event, Inbox, InboxError, Once};
use posthaste_relay::sink::Bus;
use tokio_postgres::types::ToSql;

use crate::event::{
    Announced, EmployeeHired, OrganizationCreated, OrganizationDissolved, OrganizationRenamed,
};
use crate::setup::{INBOX, ModuleError, connect};

/// The name under which the directory notes what it has handled.
const CONSUMER: &str = "directory";

/// Why an event was not handled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It tells of an organization that has not been heard of.
    #[error("its organization is not in the directory yet")]
    TooEarly,
    /// The directory is not reachable.
    #[error("the directory is not reachable")]
    Unreachable(#[from] PoolError),
    /// The event could not be noted.
    #[error("the event was not noted: {0}")]
    Inbox(#[from] InboxError),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

/// The directory.
pub struct Directory {
    pool: Pool,
    inbox: Inbox,
}

impl Directory {
    /// The directory in this database.
    pub fn open(address: &str) -> Result<Arc<Self>, ModuleError> {
        Ok(Arc::new(Self {
            pool: connect(address)?,
            inbox: Inbox::new(INBOX)?,
        }))
    }

    /// The bus, with a handler for each event.
    pub fn bus(self: Arc<Self>) -> Bus {
        let [created, renamed, dissolved, hired] = [0; 4].map(|_| self.clone());
        Bus::new()
            .on_json(
                OrganizationCreated::TOPIC,
                move |event, it: OrganizationCreated| {
                    let directory = created.clone();
                    async move { directory.created(&event, &it).await }
                },
            )
            .on_json(
                OrganizationRenamed::TOPIC,
                move |event, it: OrganizationRenamed| {
                    let directory = renamed.clone();
                    async move { directory.renamed(&event, &it).await }
                },
            )
            .on_json(
                OrganizationDissolved::TOPIC,
                move |event, it: OrganizationDissolved| {
                    let directory = dissolved.clone();
                    async move { directory.dissolved(&event, &it).await }
                },
            )
            .on_json(EmployeeHired::TOPIC, move |event, it: EmployeeHired| {
                let directory = hired.clone();
                async move { directory.hired(&event, &it).await }
            })
    }

    async fn created(&self, event: &Event, it: &OrganizationCreated) -> Result<(), DirectoryError> {
        let sql = "insert into directory.organizations (id, tenant_id, name, version)
                   values ($1, $2, $3, 1) on conflict (id) do update set id = excluded.id";
        let tenant = event.tenant_id.unwrap_or_default();
        self.once(event, it.organization_id, sql, &[&tenant, &it.name])
            .await
    }

    async fn renamed(&self, event: &Event, it: &OrganizationRenamed) -> Result<(), DirectoryError> {
        let sql = "update directory.organizations
                   set name = case when version < $3 then $2 else name end, version = greatest(version, $3)
                   where id = $1";
        self.once(event, it.organization_id, sql, &[&it.name, &it.version])
            .await
    }

    async fn dissolved(
        &self,
        event: &Event,
        it: &OrganizationDissolved,
    ) -> Result<(), DirectoryError> {
        let sql = "update directory.organizations set dissolved = true where id = $1";
        self.once(event, it.organization_id, sql, &[]).await
    }

    async fn hired(&self, event: &Event, it: &EmployeeHired) -> Result<(), DirectoryError> {
        let sql = "update directory.organizations set employees = employees + 1 where id = $1";
        self.once(event, it.organization_id, sql, &[]).await
    }

    /// Lets an event have its effect on an organization, unless it has had it.
    async fn once(
        &self,
        event: &Event,
        organization: uuid::Uuid,
        sql: &str,
        others: &[&(dyn ToSql + Sync)],
    ) -> Result<(), DirectoryError> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let once = self.inbox.once(&transaction, CONSUMER, event.id).await?;
        if once == Once::First {
            let mut values: Vec<&(dyn ToSql + Sync)> = vec![&organization];
            values.extend(others);
            if transaction.execute(sql, &values).await? == 0 {
                // Not committed, and so not noted either.
                return Err(DirectoryError::TooEarly);
            }
        }
        transaction.commit().await?;
        Ok(())
    }
}
