//! The module `hrm`: who works where. Each change commits together with its event, in `hrm_outbox`.
//!
//! It knows the ids of organizations, and nothing else of the module `org`.

use std::time::SystemTime;

use deadpool_postgres::Pool;
use posthaste::time::rfc3339;
use posthaste::{Outbox, Receipt};
use uuid::Uuid;

use crate::event::{Announced, Command, EmployeeHired};
use crate::setup::{HRM_OUTBOX, ModuleError, connect};
use crate::trace;

/// All employees.
#[derive(Clone)]
pub struct Staff {
    pool: Pool,
    outbox: Outbox,
}

impl Staff {
    /// Those in this database.
    pub fn open(address: &str) -> Result<Self, ModuleError> {
        Ok(Self {
            pool: connect(address)?,
            outbox: Outbox::new(HRM_OUTBOX)?.trace_with(trace::current),
        })
    }

    /// Hires somebody. To give the same command again hires nobody twice.
    pub async fn hire(
        &self,
        command: &Command,
        organization_id: Uuid,
        name: &str,
    ) -> Result<Receipt, ModuleError> {
        let insert = "insert into hrm.employees (id, tenant_id, organization_id, name)
                      values ($1, $2, $3, $4) on conflict (id) do nothing";
        let employee_id = command.event_id;
        let event = EmployeeHired {
            employee_id,
            organization_id,
            name: name.to_owned(),
            at: rfc3339(SystemTime::now()),
        };
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let tenant_id = command.tenant_id;
        transaction
            .execute(insert, &[&employee_id, &tenant_id, &organization_id, &name])
            .await?;
        let message = event.message(command)?;
        let receipt = self.outbox.enqueue(&transaction, &message).await?;
        transaction.commit().await?;
        Ok(receipt)
    }
}
