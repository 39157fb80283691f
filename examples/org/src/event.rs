//! What the modules announce: each event is a type with its topic, and its fields are the payload.
//!
//! A change that old consumers cannot read gets a new type, and the topic's next version.

use posthaste::{EnqueueError, Message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An event that a module announces.
pub trait Announced: Serialize + DeserializeOwned + Send + 'static {
    /// `<module>.<aggregate>.<event>.vN`.
    const TOPIC: &'static str;

    /// The message that announces it, for a command.
    fn message(&self, command: &Command) -> Result<Message, EnqueueError> {
        let message = Message::json(Self::TOPIC, self)?
            .id(command.event_id)
            .tenant(command.tenant_id);
        Ok(message)
    }
}

/// On whose behalf something is done, and under which id it is announced.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// For whom.
    pub tenant_id: Uuid,
    /// The id of the event. To give a command again with the same id announces nothing more.
    pub event_id: Uuid,
}

impl Command {
    /// A command of this tenant.
    pub fn of(tenant_id: Uuid) -> Self {
        Self {
            tenant_id,
            event_id: Uuid::now_v7(),
        }
    }
}

/// There is a new organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationCreated {
    /// Which.
    pub organization_id: Uuid,
    /// Its name.
    pub name: String,
    /// When, in UTC as RFC 3339 writes it.
    pub at: String,
}

impl Announced for OrganizationCreated {
    const TOPIC: &'static str = "org.organization.created.v1";
}

/// An organization has another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationRenamed {
    /// Which.
    pub organization_id: Uuid,
    /// Its new name.
    pub name: String,
    /// How often it has changed: events may overtake each other, and the highest counts.
    pub version: i64,
    /// When, in UTC as RFC 3339 writes it.
    pub at: String,
}

impl Announced for OrganizationRenamed {
    const TOPIC: &'static str = "org.organization.updated.v1";
}

/// An organization is no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganizationDissolved {
    /// Which.
    pub organization_id: Uuid,
    /// When, in UTC as RFC 3339 writes it.
    pub at: String,
}

impl Announced for OrganizationDissolved {
    const TOPIC: &'static str = "org.organization.deleted.v1";
}

/// An organization has one employee more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmployeeHired {
    /// Who.
    pub employee_id: Uuid,
    /// By whom.
    pub organization_id: Uuid,
    /// The name.
    pub name: String,
    /// When, in UTC as RFC 3339 writes it.
    pub at: String,
}

impl Announced for EmployeeHired {
    const TOPIC: &'static str = "hrm.employee.hired.v1";
}
