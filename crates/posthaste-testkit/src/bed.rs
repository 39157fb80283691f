//! What a test of a store stands on: an outbox of its own, relays on it, and time that passes.

mod memory;
mod postgres;
mod sqlite;

use std::time::Duration;

use async_trait::async_trait;
use posthaste::{EnqueueError, Message, Receipt, Store};
use uuid::Uuid;

pub use memory::InMemory;
pub use postgres::OnPostgres;
pub use sqlite::OnSqlite;

/// The tables of an outbox with their columns that are times.
const TIMES: [(&str, &str); 4] = [
    (
        "{outbox}",
        "next_attempt_at created_at updated_at delivered_at dead_at lease_until",
    ),
    ("{outbox:attempts}", "claimed_at ended_at"),
    ("{outbox:pauses}", "at"),
    (
        "{outbox:jobs}",
        "created_at updated_at ended_at spent_at cursor_at",
    ),
];

/// One outbox that nobody else uses. A further store implements this, and passes its
/// constructor to [`conformance!`](crate::conformance!).
#[async_trait]
pub trait Bed: Send + Sync + 'static {
    /// The store to be tested.
    type Store: Store;

    /// Enqueues messages in a transaction of their own.
    async fn enqueue(&self, messages: &[Message]) -> Result<Vec<Receipt>, EnqueueError>;

    /// The store as one more relay would have it.
    async fn relay(&self) -> Self::Store;

    /// Ends a relay as `kill -9` would: its sessions end, and it says nothing to anybody.
    fn kill(&self, relay: Self::Store) {
        drop(relay);
    }

    /// Lets this much time pass at once: everything in the outbox is that much older.
    async fn pass(&self, time: Duration);

    /// The ids of what is in the archive, in sequence.
    async fn archive(&self) -> Vec<Uuid>;
}
