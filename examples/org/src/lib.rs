//! Two modules of one service, each with an outbox of its own, and handlers in the same process.
//!
//! The modules follow an event. [`Organizations`] and [`Staff`] change their tables and enqueue what
//! they [announce](Announced), in one transaction. [`Relays`] deliver it, one instance of the service
//! being active, to the [`Bus`](posthaste_relay::sink::Bus) of the [`Directory`], which handles each
//! event once. [`Environment`] has the switches of the operator, and [`metrics`] what Prometheus reads.

mod directory;
mod environment;
mod event;
pub mod metrics;
mod organizations;
mod relays;
mod setup;
mod staff;
mod totals;
pub mod trace;

pub use directory::{Directory, DirectoryError};
pub use environment::{Environment, EnvironmentError, parse_duration};
pub use event::{
    Announced, Command, EmployeeHired, OrganizationCreated, OrganizationDissolved,
    OrganizationRenamed,
};
pub use organizations::Organizations;
pub use relays::{Relays, StartError};
pub use setup::{HRM_OUTBOX, INBOX, ModuleError, ORG_OUTBOX, connect, set_up};
pub use staff::Staff;
pub use totals::Totals;
