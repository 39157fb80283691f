//! The module `org`: organizations. Each change commits together with its event, in `org_outbox`.

use std::time::SystemTime;

use deadpool_postgres::Pool;
use posthaste::time::rfc3339;
use posthaste::{Outbox, Receipt};
use uuid::Uuid;

use crate::event::{
    Announced, Command, OrganizationCreated, OrganizationDissolved, OrganizationRenamed,
};
use crate::setup::{ModuleError, ORG_OUTBOX, connect};
use crate::trace;

/// All organizations.
#[derive(Clone)]
pub struct Organizations {
    pool: Pool,
    outbox: Outbox,
}

impl Organizations {
    /// Those in this database.
    pub fn open(address: &str) -> Result<Self, ModuleError> {
        Ok(Self {
            pool: connect(address)?,
            outbox: Outbox::new(ORG_OUTBOX)?.trace_with(trace::current),
        })
    }

    /// Creates one. No other of the tenant may have its name, and no other of all its id.
    pub async fn create(
        &self,
        command: &Command,
        organization_id: Uuid,
        name: &str,
    ) -> Result<Receipt, ModuleError> {
        let insert = "insert into org.organizations (id, tenant_id, name) values ($1, $2, $3)
                      on conflict (id) do nothing";
        let event = OrganizationCreated {
            organization_id,
            name: name.to_owned(),
            at: rfc3339(SystemTime::now()),
        };
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let created = transaction
            .execute(insert, &[&organization_id, &command.tenant_id, &name])
            .await?;
        let message = event.message(command)?;
        let receipt = self.outbox.enqueue(&transaction, &message).await?;
        match (created, receipt.new) {
            // What is announced must be so. Rolled back, it is not announced.
            (0, true) => return Err(ModuleError::OrganizationKnown(organization_id)),
            // The command was given before: there is nothing to commit.
            (_, false) => {}
            (_, true) => transaction.commit().await?,
        }
        Ok(receipt)
    }

    /// Gives one another name.
    pub async fn rename(
        &self,
        command: &Command,
        organization_id: Uuid,
        name: &str,
    ) -> Result<Receipt, ModuleError> {
        // Its row is locked from here on: versions are given in the order of the commits.
        let update = "update org.organizations set name = $3, version = version + 1
                      where id = $1 and tenant_id = $2 and not dissolved returning version";
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let row = transaction
            .query_opt(update, &[&organization_id, &command.tenant_id, &name])
            .await?
            .ok_or(ModuleError::OrganizationUnknown(organization_id))?;
        let event = OrganizationRenamed {
            organization_id,
            name: name.to_owned(),
            version: row.get(0),
            at: rfc3339(SystemTime::now()),
        };
        let message = event.message(command)?;
        let receipt = self.outbox.enqueue(&transaction, &message).await?;
        if receipt.new {
            transaction.commit().await?;
        }
        Ok(receipt)
    }

    /// Dissolves one, which is done once.
    pub async fn dissolve(
        &self,
        command: &Command,
        organization_id: Uuid,
    ) -> Result<Receipt, ModuleError> {
        let update = "update org.organizations set dissolved = true
                      where id = $1 and tenant_id = $2 and not dissolved";
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let dissolved = transaction
            .execute(update, &[&organization_id, &command.tenant_id])
            .await?;
        let event = OrganizationDissolved {
            organization_id,
            at: rfc3339(SystemTime::now()),
        };
        let message = event.message(command)?;
        let receipt = self.outbox.enqueue(&transaction, &message).await?;
        match (dissolved, receipt.new) {
            (0, true) => return Err(ModuleError::OrganizationUnknown(organization_id)),
            (_, false) => {}
            (_, true) => transaction.commit().await?,
        }
        Ok(receipt)
    }
}
