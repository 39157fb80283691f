//! The store on PostgreSQL. Every operation is one statement of `sql/postgres/`.
#![cfg_attr(
    not(feature = "tls"),
    allow(clippy::clone_on_copy, reason = "a connector with TLS is not Copy")
)]

mod claim;
pub(crate) mod connect;
mod decode;
mod examine;
mod held;
mod jobs;
mod link;
mod look;
mod operate;
mod presence;
mod settle;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Mutex, Notify};
use uuid::Uuid;

use self::held::Held;
pub(crate) use self::link::of_schema;
use self::link::{Link, Session};
use self::presence::Standing;
use super::cursors::Cursors;
use super::{
    Act, Attempt, Audit, BlockedKey, Claim, Claimed, Clean, Content, Filter, Finding, Group,
    Health, Job, JobState, Mark, Order, Page, Pause, Redelivery, RelayInfo, Scope, Settled,
    Settlement, StartedJob, Stats, Store, StoreError, Target, crew,
};
use crate::enqueue::{Alone, EnqueueError, Outbox, Receipt};
use crate::event::{Lease, Record};
use crate::message::Message;
use crate::schema;
use crate::table::Table;
use crate::topic::TopicRule;

const SETTLE: &str = include_str!("../../sql/postgres/session_settle.sql");
const CLAIM: &str = include_str!("../../sql/postgres/session_claim.sql");
const OPERATE: &str = include_str!("../../sql/postgres/session_operate.sql");
const PRESENCE: &str = include_str!("../../sql/postgres/session_presence.sql");

/// An outbox in PostgreSQL, as a relay or an operator sees it. It has up to four connections.
pub struct Postgres {
    table: Arc<Table>,
    sql: Sql,
    name: String,
    claim: Link,
    settle: Link,
    ops: Arc<Link>,
    presence: Link,
    standing: Mutex<Standing>,
    /// The session that stands for it, which this must not keep open, and when something was sent that it has answered.
    sign: std::sync::Mutex<Option<(Weak<Session>, Instant)>>,
    owner: std::sync::Mutex<Uuid>,
    held: Held,
    cursors: std::sync::Mutex<Cursors>,
    woken: Arc<Notify>,
}

statements! { "postgres":
    claim claim_keyed moment deliver deliver_delete settle extend clean clean_archive remove remove_archive stats list
    count content finished latest audit redeliver discard note examine register peers forget
    give_up deliver_again deliver_delete_again browse_newest browse_oldest history
    groups pause resume pauses start_job jobs job set_job advance relays blocked health
}

impl Postgres {
    /// Connects to the database at this address (`postgres://…` or `host=… user=…`), and
    /// makes sure that the outbox is set up.
    pub async fn connect(address: &str, table: Table) -> Result<Self, StoreError> {
        let config = connect::config(address)?;
        let connector = connect::connector()?;
        let woken = Arc::new(Notify::new());
        let wakes: Arc<str> = table.to_string().into();
        let link = |setup| {
            let listener = (wakes.clone(), woken.clone());
            Link::new(config.clone(), connector.clone(), setup, listener)
        };
        let store = Self {
            sql: Sql::render(|sql| table.render(sql)),
            name: crew::name(),
            claim: link(CLAIM),
            settle: link(SETTLE),
            ops: Arc::new(link(OPERATE)),
            presence: link(PRESENCE),
            standing: Mutex::new(Standing::default()),
            sign: std::sync::Mutex::default(),
            owner: std::sync::Mutex::new(Uuid::new_v4()),
            held: Held::default(),
            cursors: std::sync::Mutex::new(Cursors::default()),
            woken,
            table: Arc::new(table),
        };
        let session = store.ops.connect().await?;
        let checked = schema::check(session.client(), &store.table).await;
        checked.map_err(of_schema)?;
        Ok(store)
    }
}

/// An empty list of topics means any.
fn topics(scope: &Scope) -> Option<&[String]> {
    Some(scope.topics.as_slice()).filter(|topics| !topics.is_empty())
}

#[async_trait]
impl Store for Postgres {
    fn table(&self) -> &Table {
        &self.table
    }

    fn owner(&self) -> Uuid {
        *self.owner.lock().expect("not poisoned")
    }

    fn holds(&self, lease: &Lease) -> bool {
        lease.owner == self.owner() && self.is_certainly_present()
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.claim_events(claim).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        self.settle_leases(settlements).await
    }

    fn abandon(&self, leases: &[Lease]) {
        self.held.end(leases.iter().map(|lease| lease.owner));
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError> {
        self.extend_leases(leases, lease).await
    }

    async fn take_over(&self) -> Result<usize, StoreError> {
        self.find_gone().await
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        self.become_leader().await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.be_gone().await
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }

    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError> {
        self.remove_old(clean).await
    }

    async fn remove(&self, ids: &[Uuid], archive: bool) -> Result<u64, StoreError> {
        self.remove_ended(ids, archive).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.in_numbers().await
    }

    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.records(filter, limit).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.number(filter).await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError> {
        let filter = Filter {
            ids: vec![id],
            ..Filter::default()
        };
        Ok(self.records(&filter, 1).await?.into_iter().next())
    }

    async fn content(&self, id: Uuid) -> Result<Option<Content>, StoreError> {
        self.said(id).await
    }

    async fn finished(&self, after: Option<Mark>, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.ended(after, limit).await
    }

    async fn audit_from(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        self.acts(event, from, limit).await
    }

    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.act("redeliver", &self.sql.redeliver, ids, act).await
    }

    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        self.act("discard", &self.sql.discard, ids, act).await
    }

    async fn enqueue(
        &self,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError> {
        let session = self.ops.session().await.map_err(EnqueueError::database)?;
        let outbox = Outbox::of(Table::clone(&self.table)).topics(topics);
        let enqueued = outbox.enqueue_all(Alone(session.client()), messages).await;
        enqueued.map_err(link::of_enqueue)
    }

    async fn note(&self, what: &'static str, act: &Act) -> Result<(), StoreError> {
        self.write_down(what, act).await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.find().await
    }

    async fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.page(filter, order, from, limit).await
    }

    async fn history(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        self.attempts(id).await
    }

    async fn groups(&self, filter: &Filter, limit: u32) -> Result<Vec<Group>, StoreError> {
        self.dead_groups(filter, limit).await
    }

    async fn pause(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        self.leave_in_peace(target, act).await
    }

    async fn resume(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        self.go_on(target, act).await
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.paused().await
    }

    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        self.begin(id, redelivery, act).await
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        self.known_jobs(limit).await
    }

    async fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        Ok(self.known_job(id).await?.map(|(job, _)| job))
    }

    async fn set_job(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        self.bring_to(id, state, act).await
    }

    async fn advance(&self, id: Uuid, limit: u32) -> Result<Option<Job>, StoreError> {
        self.redeliver_next(id, limit).await
    }

    async fn relays(&self) -> Result<Vec<RelayInfo>, StoreError> {
        self.crew().await
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError> {
        self.blocked_keys(limit).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.condition().await
    }
}
