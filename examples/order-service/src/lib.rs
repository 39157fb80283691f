//! The order service of seed document 002: orders in PostgreSQL, their events in Kafka.
//!
//! In the order of the flow: [`order`] writes an order and its event in one transaction, [`publisher`]
//! sends what was committed, [`billing`] is a consumer that duplicates do not disturb.

pub mod billing;
pub mod order;
pub mod publisher;

pub use billing::Billing;
pub use order::{Line, NewOrder, OrderCreated, OrderError, Orders, Placed};

/// The outbox, as the document names it.
pub const OUTBOX: &str = "public.outbox";
