//! The store on SQLite. Every statement is one of `sql/sqlite/`.
//!
//! SQLite blocks, and has one writer: all stores of a process on one file share a thread that
//! writes, one that looks for what is due, and one that reads for operators. One process at a time
//! relays a file. See docs/decisions/0015-sqlite.md.

mod ahead;
mod claim;
mod decode;
mod examine;
mod fault;
mod home;
mod jobs;
mod letter;
mod link;
mod look;
mod operate;
mod presence;
mod settle;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Notify;
use uuid::Uuid;

use self::ahead::Ahead;
use self::home::Home;
use self::link::Link;
use self::presence::Standing;
use super::Ordering as ClaimOrdering;
use super::cursors::Cursors;
use super::{
    Act, Attempt, Audit, BlockedKey, Claim, Claimed, Clean, Content, Filter, Finding, Group,
    Health, Job, JobState, Mark, Order, Page, Pause, Redelivery, RelayInfo, Settled, Settlement,
    StartedJob, Stats, Store, StoreError, Target,
};
use crate::enqueue::{EnqueueError, Receipt};
use crate::event::{Lease, Record};
use crate::message::Message;
use crate::schema::{self, SchemaError};
use crate::table::Table;
use crate::topic::TopicRule;

/// An outbox in a SQLite file, as a relay or an operator sees it.
///
/// The first to claim, lead or take over makes its process the one that relays the file, until its
/// last relay is dropped or leaves; in any other process that is [`StoreError::Taken`]. A store
/// that is dropped is gone, as if its process had been killed.
pub struct Sqlite {
    outbox: Arc<Outbox>,
    listens: AtomicBool,
}

/// What the threads work with.
struct Outbox {
    table: Arc<Table>,
    /// The name of the table in the file.
    key: String,
    sql: Sql,
    home: Arc<Home>,
    owner: Mutex<Uuid>,
    standing: Mutex<Standing>,
    cursors: Mutex<Cursors>,
    ahead: Mutex<Option<Ahead>>,
    woken: Arc<Notify>,
}

struct Sql {
    due: String,
    ready: String,
    read: String,
    take: String,
    rename: String,
    park: String,
    dead: String,
    letter: String,
    deliver: String,
    deliver_delete: String,
    settle: String,
    extend: String,
    leased: String,
    old: String,
    archive: String,
    remove: String,
    stats: String,
    list: String,
    list_some: String,
    count: String,
    count_some: String,
    content: String,
    finished: String,
    latest: String,
    audit: String,
    revive: String,
    again: String,
    discard: String,
    note: String,
    crashed: String,
    attempt: String,
    surplus: String,
    forget: String,
    forget_some: String,
    history: String,
    browse_newest: String,
    browse_oldest: String,
    reach_newest: String,
    reach_oldest: String,
    next: String,
    next_reach: String,
    groups: String,
    pause: String,
    resume: String,
    pauses: String,
    start_job: String,
    jobs: String,
    job: String,
    set_job: String,
    advance: String,
    leases: String,
    blocking: String,
    head: String,
    newest: String,
    behind: String,
}

impl Sqlite {
    /// Opens the file at this address (`sqlite:shop.db`, `sqlite:///var/lib/shop.db` or just the
    /// path), and makes sure that the outbox is set up. A relative path is one in the folder that the
    /// process runs in.
    pub async fn connect(address: &str, table: Table) -> Result<Self, StoreError> {
        let path = Self::path(address)?;
        let name = table.in_sqlite().map_err(SchemaError::from)?;
        if !path.exists() {
            return Err(missing(&path, &table));
        }
        let home = Home::at(&path)?;
        let checked = table.clone();
        home.reader
            .run(move |link| {
                link.read(|connection| Ok(schema::sqlite::try_check(connection, &checked)))?
                    .map_err(fault::of_schema)
            })
            .await?;
        let render = |sql: &str| name.render(sql);
        let sql = Sql {
            due: render(include_str!("../../sql/sqlite/due.sql")),
            ready: render(include_str!("../../sql/sqlite/ready.sql")),
            read: render(include_str!("../../sql/sqlite/read.sql")),
            take: render(include_str!("../../sql/sqlite/take.sql")),
            rename: render(include_str!("../../sql/sqlite/rename.sql")),
            park: render(include_str!("../../sql/sqlite/park.sql")),
            dead: render(include_str!("../../sql/sqlite/dead.sql")),
            letter: render(include_str!("../../sql/sqlite/letter.sql")),
            deliver: render(include_str!("../../sql/sqlite/deliver.sql")),
            deliver_delete: render(include_str!("../../sql/sqlite/deliver_delete.sql")),
            settle: render(include_str!("../../sql/sqlite/settle.sql")),
            extend: render(include_str!("../../sql/sqlite/extend.sql")),
            leased: render(include_str!("../../sql/sqlite/leased.sql")),
            old: render(include_str!("../../sql/sqlite/old.sql")),
            archive: render(include_str!("../../sql/sqlite/archive.sql")),
            remove: render(include_str!("../../sql/sqlite/remove.sql")),
            stats: render(include_str!("../../sql/sqlite/stats.sql")),
            list: render(include_str!("../../sql/sqlite/list.sql")),
            list_some: render(include_str!("../../sql/sqlite/list_some.sql")),
            count: render(include_str!("../../sql/sqlite/count.sql")),
            count_some: render(include_str!("../../sql/sqlite/count_some.sql")),
            content: render(include_str!("../../sql/sqlite/content.sql")),
            finished: render(include_str!("../../sql/sqlite/finished.sql")),
            latest: render(include_str!("../../sql/sqlite/latest.sql")),
            audit: render(include_str!("../../sql/sqlite/audit.sql")),
            revive: render(include_str!("../../sql/sqlite/revive.sql")),
            again: render(include_str!("../../sql/sqlite/again.sql")),
            discard: render(include_str!("../../sql/sqlite/discard.sql")),
            note: render(include_str!("../../sql/sqlite/note.sql")),
            crashed: render(include_str!("../../sql/sqlite/crashed.sql")),
            attempt: render(include_str!("../../sql/sqlite/attempt.sql")),
            surplus: render(include_str!("../../sql/sqlite/surplus.sql")),
            forget: render(include_str!("../../sql/sqlite/forget.sql")),
            forget_some: render(include_str!("../../sql/sqlite/forget_some.sql")),
            history: render(include_str!("../../sql/sqlite/history.sql")),
            browse_newest: render(include_str!("../../sql/sqlite/browse_newest.sql")),
            browse_oldest: render(include_str!("../../sql/sqlite/browse_oldest.sql")),
            reach_newest: render(include_str!("../../sql/sqlite/reach_newest.sql")),
            reach_oldest: render(include_str!("../../sql/sqlite/reach_oldest.sql")),
            next: render(include_str!("../../sql/sqlite/next.sql")),
            next_reach: render(include_str!("../../sql/sqlite/next_reach.sql")),
            groups: render(include_str!("../../sql/sqlite/groups.sql")),
            pause: render(include_str!("../../sql/sqlite/pause.sql")),
            resume: render(include_str!("../../sql/sqlite/resume.sql")),
            pauses: render(include_str!("../../sql/sqlite/pauses.sql")),
            start_job: render(include_str!("../../sql/sqlite/start_job.sql")),
            jobs: render(include_str!("../../sql/sqlite/jobs.sql")),
            job: render(include_str!("../../sql/sqlite/job.sql")),
            set_job: render(include_str!("../../sql/sqlite/set_job.sql")),
            advance: render(include_str!("../../sql/sqlite/advance.sql")),
            leases: render(include_str!("../../sql/sqlite/leases.sql")),
            blocking: render(include_str!("../../sql/sqlite/blocking.sql")),
            head: render(include_str!("../../sql/sqlite/head.sql")),
            newest: render(include_str!("../../sql/sqlite/newest.sql")),
            behind: render(include_str!("../../sql/sqlite/behind.sql")),
        };
        Ok(Self {
            outbox: Arc::new(Outbox {
                key: name.name("").to_ascii_lowercase(),
                table: Arc::new(table),
                sql,
                home,
                owner: Mutex::new(Uuid::new_v4()),
                standing: Mutex::default(),
                cursors: Mutex::default(),
                ahead: Mutex::default(),
                woken: Arc::new(Notify::new()),
            }),
            listens: AtomicBool::new(false),
        })
    }

    /// The file that an address is about. The parameter `?mode=rwc`, which other drivers need, is understood;
    /// any other is refused, as it would be without effect.
    pub fn path(address: &str) -> Result<PathBuf, StoreError> {
        let refused = |why: &str| Err(StoreError::Settings(why.to_owned()));
        let (path, parameters) = match address.strip_prefix("sqlite:") {
            Some(rest) => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                rest.split_once('?').unwrap_or((rest, "mode=rwc"))
            }
            // Just the path, which may hold any character.
            None => (address, "mode=rwc"),
        };
        match path {
            "" | ":memory:" => refused(
                "an outbox in SQLite is a file that all processes share: write its address as sqlite:shop.db",
            ),
            _ if parameters != "mode=rwc" || path.starts_with("file:") => refused(
                "the address of a SQLite file is its path, without parameters: write it as sqlite:shop.db",
            ),
            path => Ok(PathBuf::from(path)),
        }
    }

    /// Does something on the thread that writes.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outbox, &mut Link) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outbox = self.outbox.clone();
        let home = &self.outbox.home;
        home.writer.run(move |link| work(&outbox, link)).await
    }

    /// Does something on the thread that reads.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outbox, &mut Link) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outbox = self.outbox.clone();
        let home = &self.outbox.home;
        home.reader.run(move |link| work(&outbox, link)).await
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.outbox.be_dropped();
    }
}

/// Makes the outbox in the file at this address, and the file if there is none.
pub(crate) async fn apply(address: &str, table: &Table) -> Result<i32, StoreError> {
    let (path, table) = (Sqlite::path(address)?, table.clone());
    let applied = tokio::task::spawn_blocking(move || {
        let mut connection = Connection::open(path).map_err(fault::classify)?;
        schema::sqlite::try_apply(&mut connection, &table).map_err(fault::of_schema)
    });
    applied
        .await
        .map_err(|error| StoreError::Unavailable(error.into()))?
}

/// Checks the outbox in the file at this address.
pub(crate) async fn check(address: &str, table: &Table) -> Result<(), StoreError> {
    Sqlite::connect(address, table.clone()).await.map(drop)
}

fn missing(path: &Path, table: &Table) -> StoreError {
    StoreError::Schema(SchemaError::Missing {
        table: format!("{table} in {}, which does not exist,", path.display()),
    })
}

/// Values as the JSON array that statements read.
fn list<T: serde::Serialize>(values: &[T]) -> String {
    serde_json::to_string(values).expect("texts and numbers are JSON")
}

#[async_trait]
impl Store for Sqlite {
    fn table(&self) -> &Table {
        &self.outbox.table
    }

    fn owner(&self) -> Uuid {
        self.outbox.owner()
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let candidates = match claim.ordering {
            ClaimOrdering::None => Some(self.outbox.candidates(claim).await?),
            ClaimOrdering::Key(_) => None,
        };
        let claim = claim.clone();
        self.write(move |outbox, link| {
            // By key already for the look: nobody else may relay between it and the lease.
            let present = outbox.be_present(link)?;
            let candidates = match candidates {
                Some(candidates) => candidates,
                None => outbox.look_for_events(link, &claim, outbox.start_of(&claim))?,
            };
            outbox.lease_events(link, &claim, candidates, &present)
        })
        .await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        let settlements = settlements.to_vec();
        self.write(move |outbox, link| outbox.settle_leases(link, &settlements))
            .await
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError> {
        let leases = leases.to_vec();
        self.write(move |outbox, link| outbox.extend_leases(link, &leases, lease))
            .await
    }

    async fn take_over(&self) -> Result<usize, StoreError> {
        self.write(|outbox, link| outbox.find_gone(link)).await
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        self.write(|outbox, link| outbox.become_leader(link)).await
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.write(|outbox, link| outbox.be_gone(link)).await
    }

    async fn woken(&self) {
        if !self.listens.swap(true, Ordering::Relaxed) {
            let home = &self.outbox.home;
            home.listeners.add(&self.outbox.woken);
            home.writer.rouse();
        }
        self.outbox.woken.notified().await;
    }

    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError> {
        let clean = *clean;
        self.write(move |outbox, link| outbox.remove_old(link, &clean))
            .await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        self.read(|outbox, link| outbox.in_numbers(link)).await
    }

    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError> {
        let filter = filter.clone();
        self.read(move |outbox, link| outbox.records(link, &filter, limit))
            .await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let filter = filter.clone();
        self.read(move |outbox, link| outbox.number(link, &filter))
            .await
    }

    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError> {
        let filter = Filter {
            ids: vec![id],
            ..Filter::default()
        };
        Ok(self.list(&filter, 1).await?.into_iter().next())
    }

    async fn content(&self, id: Uuid) -> Result<Option<Content>, StoreError> {
        self.read(move |outbox, link| outbox.said(link, id)).await
    }

    async fn finished(&self, after: Option<Mark>, limit: u32) -> Result<Vec<Record>, StoreError> {
        self.read(move |outbox, link| outbox.ended(link, after, limit))
            .await
    }

    async fn audit_from(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        self.read(move |outbox, link| outbox.acts(link, event, from, limit))
            .await
    }

    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        let (ids, act) = (ids.to_vec(), act.clone());
        self.write(move |outbox, link| outbox.send_again(link, &ids, &act))
            .await
    }

    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        let (ids, act) = (ids.to_vec(), act.clone());
        self.write(move |outbox, link| outbox.give_up(link, &ids, &act))
            .await
    }

    async fn enqueue(
        &self,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError> {
        let messages = messages.to_vec();
        let enqueued = self.write(move |outbox, link| Ok(outbox.add(link, &messages, topics)));
        enqueued.await.map_err(EnqueueError::database)?
    }

    async fn note(&self, what: &'static str, act: &Act) -> Result<(), StoreError> {
        let act = act.clone();
        self.write(move |outbox, link| outbox.write_down(link, what, &act))
            .await
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.write(|outbox, link| outbox.find(link)).await
    }

    async fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let filter = filter.clone();
        self.read(move |outbox, link| outbox.page(link, filter, order, from, limit))
            .await
    }

    async fn history(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        self.read(move |outbox, link| outbox.attempts(link, id))
            .await
    }

    async fn groups(&self, filter: &Filter, limit: u32) -> Result<Vec<Group>, StoreError> {
        let filter = filter.clone();
        self.read(move |outbox, link| outbox.dead_groups(link, &filter, limit))
            .await
    }

    async fn pause(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        let (target, act) = (target.clone(), act.clone());
        self.write(move |outbox, link| outbox.leave_in_peace(link, &target, &act))
            .await
    }

    async fn resume(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        let (target, act) = (target.clone(), act.clone());
        self.write(move |outbox, link| outbox.go_on(link, &target, &act))
            .await
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.read(|outbox, link| outbox.paused(link)).await
    }

    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        let (redelivery, act) = (redelivery.clone(), act.clone());
        self.write(move |outbox, link| outbox.begin(link, id, &redelivery, &act))
            .await
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        self.read(move |outbox, link| outbox.known_jobs(link, limit))
            .await
    }

    async fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        self.read(move |outbox, link| outbox.known_job(link, id))
            .await
    }

    async fn set_job(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        let act = act.clone();
        self.write(move |outbox, link| outbox.bring_to(link, id, state, &act))
            .await
    }

    async fn advance(&self, id: Uuid, limit: u32) -> Result<Option<Job>, StoreError> {
        self.write(move |outbox, link| outbox.redeliver_next(link, id, limit))
            .await
    }

    async fn relays(&self) -> Result<Vec<RelayInfo>, StoreError> {
        self.read(|outbox, link| outbox.crew(link)).await
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError> {
        self.read(move |outbox, link| outbox.blocked_keys(link, limit))
            .await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.read(|outbox, link| outbox.condition(link)).await
    }
}
