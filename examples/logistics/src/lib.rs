//! The logistics orders of seed document 003: many workers in parallel on one outbox.
//!
//! In the order of the flow: [`order`] writes an order and its event in one transaction, [`worker`] publishes what was
//! committed, as often in parallel as one likes, and [`warehouse`] is a consumer that duplicates do not disturb.

pub mod order;
pub mod warehouse;
pub mod worker;

pub use order::{Order, OrderError, Orders};

/// The outbox, as the document names it.
pub const OUTBOX: &str = "public.outbox_events";
/// The exchange that events go to.
pub const EXCHANGE: &str = "logistics.orders";
