//! How a database copes, in numbers: for dashboards. What does not apply to a database is `None`.

use std::time::{Duration, SystemTime};

/// The state of the database that an outbox is in. [`examine`](super::Store::examine) judges; this tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Health {
    /// What database it is, and which version.
    pub server: String,
    /// What the table of events takes, without its indexes, in bytes.
    pub table_bytes: Option<u64>,
    /// What its indexes take, in bytes.
    pub index_bytes: Option<u64>,
    /// What the whole database file takes, in bytes.
    pub file_bytes: Option<u64>,
    /// About how many rows there are, delivered ones included.
    pub live_rows: Option<u64>,
    /// About how many dead versions of rows wait for vacuum.
    pub dead_rows: Option<u64>,
    /// When the table was last vacuumed, by hand or by itself.
    pub vacuumed_at: Option<SystemTime>,
    /// When its statistics were last brought up to date.
    pub analyzed_at: Option<SystemTime>,
    /// The oldest transaction, which keeps vacuum from removing what it may still see.
    pub oldest_transaction: Option<Holder>,
    /// Whether the transactions of other users are known: if not, there may be an older one.
    pub sees_transactions: bool,
    /// How many connections the server has.
    pub connections: Option<u64>,
    /// How many it allows.
    pub connection_limit: Option<u64>,
    /// How many pages the file has.
    pub pages: Option<u64>,
    /// How many of them are free.
    pub free_pages: Option<u64>,
}

/// Who holds back vacuum.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process of the server.
    pub pid: i32,
    /// For how long the transaction has been open.
    pub age: Duration,
    /// What it does, such as `idle in transaction`. Empty if this user may not know.
    pub state: String,
    /// The name of the application. Empty if it has none, or this user may not know.
    pub application: String,
}
