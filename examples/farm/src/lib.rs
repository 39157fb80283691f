//! The farm management of seed document 004: domain events of aggregates, told to RabbitMQ.
//!
//! In the order of the flow: [`aggregate`] changes and raises [`event`]s, [`farm`] saves both in one transaction,
//! [`publisher`] sends what was committed, [`subscriber`] handles it, and [`monitor`] watches.

pub mod aggregate;
pub mod event;
pub mod farm;
pub mod monitor;
pub mod publisher;
pub mod subscriber;

pub use farm::{Farm, FarmError};

/// The outbox.
pub const OUTBOX: &str = "public.outbox_messages";
/// The exchange that events go to.
pub const EXCHANGE: &str = "farmwise.events";
