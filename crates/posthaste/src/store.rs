//! The seam between the relay and a database: claim, settle, extend, take over, clean, inspect.
//!
//! Everything is asked in batches, one round trip each. A store decides by its database's
//! clock only. A service does not enqueue here, but in the transaction that is its own.

/// The statements of a store: a field for each, named as its file in `sql/<database>/`, with the table filled in.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! statements {
    ($database:literal: $($name:ident)*) => {
        struct Sql {
            $($name: String,)*
        }

        impl Sql {
            fn render(render: impl Fn(&str) -> String) -> Self {
                Self {
                    $($name: render(include_str!(concat!(
                        "../../sql/", $database, "/", stringify!($name), ".sql"
                    ))),)*
                }
            }
        }
    };
}

mod browse;
mod claim;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "what databases store, memory just keeps")
)]
mod control;
mod crew;
mod examine;
mod group;
mod health;
mod history;
mod inspect;
mod letter;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "what databases store, memory just keeps")
)]
mod redelivery;
mod settle;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod cursors;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::enqueue::{EnqueueError, Receipt};
use crate::event::{Lease, Record};
use crate::message::Message;
use crate::table::Table;
use crate::topic::TopicRule;

pub use browse::{Order, PAGE_LOOK, Page};
pub use claim::{Claim, Claimed, Died, Malformed, OnFailure, Ordering, Reach, Scope};
pub use control::{Pause, Target};
pub use crew::{BLOCKED_LOOK, BlockedKey, LIVE_LOOK, RelayInfo, WAITING_LOOK};
pub use examine::{Finding, Grade};
pub use group::{GROUP_LOOK, GROUP_TOPICS, Group, fingerprint};
pub use health::{Health, Holder};
pub use history::{ATTEMPTS_KEPT, Attempt, Ending, Tried};
pub use inspect::{Audit, Content, Filter, Mark};
pub use redelivery::{Job, JobState, Redelivery, StartedJob};
pub use settle::{Settled, Settlement, Verdict};

/// Where a relay gets its events. Every store passes the conformance suite of the test kit.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The outbox that this is the store of.
    fn table(&self) -> &Table;

    /// Who claims through this store. A store that lost its session comes back as another owner.
    fn owner(&self) -> Uuid;

    /// Whether this lease, while it lasts, certainly is with nobody else: asked before a delivery starts, so it is
    /// told from what is known. A store whose owner others may take for gone says no.
    fn holds(&self, lease: &Lease) -> bool {
        lease.owner == self.owner()
    }

    /// Leases due events, oldest first, each with one more attempt and a higher epoch.
    ///
    /// Due is what is pending and whose time has come, and what was leased by an owner whose
    /// lease has expired or who is gone. What has no attempt left becomes dead instead.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError>;

    /// Ends leases. What is no longer ours is reported as lost, and left alone.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError>;

    /// These leases are not settled after all, and run out by themselves: the store need not reckon with them.
    fn abandon(&self, _leases: &[Lease]) {}

    /// Prolongs leases to this long from now. Gives back those that are lost, and those that could not be prolonged as
    /// somebody has their event locked.
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError>;

    /// Looks for owners that are gone. From now on their leases count as expired.
    ///
    /// Also renews this store's own presence. Gives back how many are newly known to be gone.
    async fn take_over(&self) -> Result<usize, StoreError>;

    /// Becomes, or stays, the one active relay of this outbox. `false`: another one is.
    async fn lead(&self) -> Result<bool, StoreError>;

    /// Lets others know at once that this owner is gone, and lets go of leadership.
    async fn leave(&self) -> Result<(), StoreError>;

    /// Waits until something may have been enqueued. May wait for ever, if the store cannot tell.
    async fn woken(&self);

    /// Removes one batch of what is past its retention. Gives back how many events it removed.
    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError>;

    /// Removes those of these events that were delivered or are dead, or moves them to the archive. Others are left
    /// alone. Gives back how many that were.
    async fn remove(&self, ids: &[Uuid], archive: bool) -> Result<u64, StoreError>;

    /// Counts, for metrics and health checks. Its cost grows neither with what was delivered nor,
    /// beyond [`LIVE_LOOK`], with what waits: then the numbers are estimates, and say so.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Lists events, oldest first. Each page passes all that the filter is about: for large outboxes
    /// there is [`browse`](Store::browse).
    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError>;

    /// A page of events by their [place](Record::place): from this place on, which is not part of it, or
    /// from the first. Its cost does not grow with the outbox. [`Filter::after`] is left out of account.
    async fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError>;

    /// Counts events. Its cost grows with those of the statuses that the filter names, and it may be
    /// given up ([`StoreError::Slow`]).
    async fn count(&self, filter: &Filter) -> Result<u64, StoreError>;

    /// One event, if it is there.
    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError>;

    /// What one event says, if it is there.
    async fn content(&self, id: Uuid) -> Result<Option<Content>, StoreError>;

    /// Every attempt to deliver an event, the oldest first, at most [`ATTEMPTS_KEPT`] and the one
    /// that its row tells of. Empty: none was made, or there is no such event.
    async fn history(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError>;

    /// Events that were delivered or died, in the order in which they did: the first after the
    /// mark, or without a mark the latest. Those that were not kept are not among them.
    ///
    /// To miss none, look from a few seconds before the last mark on ([`Mark::back`]) and leave
    /// out what was seen: a settlement may commit after another one with a later time.
    async fn finished(&self, after: Option<Mark>, limit: u32) -> Result<Vec<Record>, StoreError>;

    /// Dead events by reason and kind of error, the largest groups first. Looks at the latest
    /// [`GROUP_LOOK`] dead.
    async fn groups(&self, filter: &Filter, limit: u32) -> Result<Vec<Group>, StoreError>;

    /// What operators did, the latest first: to this event, or to any.
    async fn audit(&self, event: Option<Uuid>, limit: u32) -> Result<Vec<Audit>, StoreError> {
        self.audit_from(event, None, limit).await
    }

    /// The same, from where a page [ended](Audit::last) on.
    async fn audit_from(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError>;

    /// Brings dead events back, with all their attempts, and enqueues delivered ones anew
    /// under a new id; a header says so ([`crate::header`]). Each is written to the audit log. Gives back the ids that will be delivered.
    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError>;

    /// Gives up live events for good. Each is written to the audit log. Gives back those given up.
    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError>;

    /// Has every relay of this outbox claim nothing, or nothing for a destination, until it is
    /// resumed. Relays obey within about a second; what is under way ends. Written to the audit log.
    /// `false`: it was paused already, and stays as it was.
    async fn pause(&self, target: &Target, act: &Act) -> Result<bool, StoreError>;

    /// Ends a pause. Written to the audit log. `false`: there was none.
    async fn resume(&self, target: &Target, act: &Act) -> Result<bool, StoreError>;

    /// What is paused, the outbox first.
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError>;

    /// Begins to redeliver many events, as relays go along. Written to the audit log.
    async fn start_job(&self, redelivery: &Redelivery, act: &Act) -> Result<Job, StoreError> {
        let started = self.start_job_as(Uuid::new_v4(), redelivery, act).await?;
        Ok(started.job)
    }

    /// The same, under an id that the caller chose, so that it can be asked for again when nobody knows
    /// whether it was done. If there is a job of this id, it stays as it is and is given back: whether it
    /// is the same redelivery is told by [`Job::is`].
    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError>;

    /// Jobs, those that are not over first, then the latest.
    async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError>;

    /// One job, if it is there.
    async fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError>;

    /// Pauses, resumes or cancels a job, and gives it back as it is then. A job that is over stays so.
    /// Written to the audit log, if it changed something.
    async fn set_job(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError>;

    /// Redelivers the next events of a running job, at most this many and no more than its rate allows by
    /// now, and records how far it got: all in one transaction. Gives the job back as it is then.
    /// `None`: it is not running, or another process is at it right now.
    async fn advance(&self, id: Uuid, limit: u32) -> Result<Option<Job>, StoreError>;

    /// Enqueues messages in a transaction of their own, all or none, for tools that have no data
    /// to commit with them. A service has: it uses [`Outbox`](crate::Outbox).
    async fn enqueue(
        &self,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError>;

    /// Writes to the audit log what an operator did to no single event, such as to clean up.
    async fn note(&self, what: &'static str, act: &Act) -> Result<(), StoreError>;

    /// The relays that are known here, those that are there first.
    async fn relays(&self) -> Result<Vec<RelayInfo>, StoreError>;

    /// Ordering keys whose first event is dead (and not discarded) or waits to be tried again, while
    /// others wait behind it; those with most of them first. Of outboxes that are not delivered by
    /// key, it means nothing.
    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError>;

    /// How the database copes, in numbers.
    async fn health(&self) -> Result<Health, StoreError>;

    /// Looks for what may trouble a relay here: its rights, the server's settings, clocks, space.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;
}

/// What to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clean {
    /// Delivered events older than this go.
    pub retention: Duration,
    /// Dead events older than this go. `None`: they stay.
    pub dead_retention: Option<Duration>,
    /// Whether to move events to the archive instead of deleting them.
    pub archive: bool,
    /// At most this many.
    pub limit: u32,
}

/// The state of an outbox in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Waiting, due or not.
    pub pending: u64,
    /// Leased.
    pub processing: u64,
    /// Dead.
    pub dead: u64,
    /// For how long the oldest due event has been due.
    pub oldest_pending: Duration,
    /// Leased for longer than five minutes.
    pub stuck: u64,
    /// There are more live or dead events than were looked at: numbers are at least what was counted
    /// and, where the database has statistics, what those say.
    pub at_least: bool,
    /// How many events were ever enqueued, if that can be told: a few more than were, as those that were
    /// rolled back count. Without those that are live or dead, it is how many were delivered.
    pub enqueued: Option<u64>,
}

/// Who does something to events, and why: for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Who.
    pub actor: String,
    /// Why.
    pub why: String,
}

/// Text as every database can hold it: without NUL.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The store at an address: `postgres://…`, `postgresql://…` and `host=… user=…` are in PostgreSQL,
/// `sqlite:shop.db` is a SQLite file. Makes sure that the outbox is set up.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub async fn connect(address: &str, table: Table) -> Result<Arc<dyn Store>, StoreError> {
    match Kind::of(address)? {
        #[cfg(feature = "postgres")]
        Kind::Postgres => Ok(Arc::new(postgres::Postgres::connect(address, table).await?)),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Ok(Arc::new(sqlite::Sqlite::connect(address, table).await?)),
    }
}

/// Which database an address is about.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) enum Kind {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "sqlite")]
    Sqlite,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Kind {
    pub(crate) fn of(address: &str) -> Result<Self, StoreError> {
        // The address may hold a password: no more of it is told than its scheme.
        match address.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "sqlite")]
            Some("sqlite") => Ok(Self::Sqlite),
            #[cfg(not(feature = "sqlite"))]
            Some("sqlite") => Err(missing("sqlite")),
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => Ok(Self::Postgres),
            #[cfg(feature = "postgres")]
            _ if address.contains('=') && !address.contains("://") => Ok(Self::Postgres),
            #[cfg(not(feature = "postgres"))]
            Some("postgres" | "postgresql") => Err(missing("postgres")),
            _ => Err(StoreError::Settings(
                "the database address is not known: write it as postgres://… or sqlite:…"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(any(
    all(feature = "postgres", not(feature = "sqlite")),
    all(feature = "sqlite", not(feature = "postgres"))
))]
fn missing(feature: &str) -> StoreError {
    StoreError::Settings(format!(
        "this is built without the feature `{feature}`, which the database address needs"
    ))
}

/// Why a store did not do as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached, or the connection broke. Trying again may help.
    #[error("the database is not reachable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The schema is not what this version works with.
    #[error(transparent)]
    Schema(#[from] crate::schema::SchemaError),
    /// The settings cannot work.
    #[error("{0}")]
    Settings(String),
    /// Another process relays this file, and only one at a time may.
    #[error(
        "{path} is relayed by {by}: only one process at a time can relay a SQLite file. Stop it, or serve all outboxes of the file in one process"
    )]
    Taken {
        /// The database file.
        path: String,
        /// Which process it is.
        by: String,
    },
    /// There is no space left. Nothing is lost; trying again helps once there is.
    #[error("there is no space left for the database: free some, and work goes on by itself")]
    Full(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database can be read only.
    #[error(
        "the database cannot be written to: make its file and its folder writable for the user that this runs as"
    )]
    ReadOnly(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A question was given up, because the answer took too long. Nothing is wrong with the database.
    #[error("the answer would take too long: narrow the question down, by status, topic or time")]
    Slow(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database may not be opened, or its user may not do this.
    #[error(
        "the database does not allow this: a server's user needs the role for it (`posthaste migrate --print --roles`), and the user that this runs as must be allowed to read and write a file and its folder"
    )]
    Denied(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database is damaged, or is none. Nothing was changed.
    #[error(
        "the database file is damaged or is no database: stop writing to it, and restore a backup or recover it with `sqlite3 <file> .recover`"
    )]
    Corrupt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store.unavailable",
            Self::Refused(_) => "store.refused",
            Self::Schema(error) => error.code(),
            Self::Settings(_) => "store.settings",
            Self::Taken { .. } => "store.taken",
            Self::Full(_) => "store.full",
            Self::ReadOnly(_) => "store.read_only",
            Self::Slow(_) => "store.slow",
            Self::Denied(_) => "store.denied",
            Self::Corrupt(_) => "store.corrupt",
        }
    }
}
