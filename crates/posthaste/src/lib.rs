//! Posthaste: a transactional outbox.
//!
//! Enqueue events inside your own database transaction; a relay (crate `posthaste-relay`,
//! or the binary) delivers them at least once. An event exists if, and only if, its
//! transaction committed.
//!
//! The modules follow an event: [`Message`] → [`Outbox::enqueue`] → [`store`] → clean.

mod aggregate;
#[cfg(feature = "zstd")]
mod compress;
mod enqueue;
mod event;
pub mod header;
mod inbox;
mod message;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod pattern;
pub mod schema;
pub mod store;
mod table;
pub mod time;
mod topic;

pub use aggregate::{Recorded, Saved};
#[cfg(feature = "zstd")]
pub use compress::{Compression, DecompressError, decompress};
#[cfg(feature = "tokio-postgres")]
pub use enqueue::Prepared;
pub use enqueue::{
    DEFAULT_PAYLOAD_LIMIT, Database, EnqueueError, Outbox, Receipt, Row, Rows, Statement,
    Transaction,
};
pub use event::{DeadReason, Event, Lease, Record, Status};
pub use inbox::{Inbox, InboxError, Once};
pub use message::{Message, Payload, TraceContext};
pub use pattern::Pattern;
pub use store::{Store, StoreError};
pub use table::{Table, TableError};
pub use topic::TopicRule;
