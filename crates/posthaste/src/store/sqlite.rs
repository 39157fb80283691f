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
use self::claim::Answer;
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

statements! { "sqlite":
    due ready read take rename park dead letter deliver deliver_delete settle extend leased old
    archive remove stats list list_some count count_some content finished latest audit revive
    again discard ended note crashed attempt surplus forget forget_some history browse_newest
    browse_oldest reach_newest reach_oldest next next_reach groups pause resume pauses start_job
    jobs job set_job advance leases blocking head newest behind
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
        let sql = Sql::render(|sql| name.render(sql));
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
        let (claim, ours) = (claim.clone(), self.outbox.clone());
        let answer = self
            .write(move |outbox, link| {
                // By key already for the look: nobody else may relay between it and the lease.
                let present = outbox.be_present(link)?;
                // What was found in a file that has been replaced since says nothing about this one.
                let still = candidates.filter(|found| found.database == present.database);
                let candidates = match still {
                    Some(candidates) => candidates,
                    None => outbox.look_for_events(link, &claim, outbox.start_of(&claim))?,
                };
                let claimed = outbox.lease_events(link, &claim, candidates, &present)?;
                Ok(Answer::new(ours, claimed))
            })
            .await?;
        Ok(answer.received())
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
        let new = self.write(|outbox, link| outbox.find_gone(link)).await?;
        self.outbox.forget_gone();
        Ok(new)
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

    async fn remove(&self, ids: &[Uuid], archive: bool) -> Result<u64, StoreError> {
        let ids = ids.to_vec();
        self.write(move |outbox, link| outbox.remove_ended(link, &ids, archive))
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
        // Not with what operators ask for: a pause is to be obeyed within a second.
        let outbox = self.outbox.clone();
        let looker = &self.outbox.home.looker;
        looker.run(move |link| outbox.paused(link)).await
    }

    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        let (redelivery, act) = (redelivery.clone(), act.clone());
        // Counted where nobody waits for it but those who ask.
        let filter = redelivery.meant()?;
        let total = self
            .read(move |outbox, link| match outbox.known_job(link, id)? {
                // Who asks again need not wait until everything is counted once more.
                Some(_) => Ok(0),
                None => outbox.total(link, &filter),
            })
            .await?;
        self.write(move |outbox, link| outbox.begin(link, id, &redelivery, total, &act))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use posthaste_testkit::file::FreshFile;

    use super::super::Reach;
    use super::*;

    async fn store(file: &FreshFile) -> Sqlite {
        let table = Table::parse("shop.outbox").unwrap();
        Sqlite::connect(&file.address(), table).await.unwrap()
    }

    #[tokio::test]
    async fn what_operators_ask_holds_up_neither_claims_nor_pauses() {
        let file = FreshFile::new();
        let store = store(&file).await;
        let (go_on, waits) = channel::<()>();
        let reader = &store.outbox.home.reader;
        let busy = reader.begin(move |_| Ok(waits.recv().is_ok()));
        let redelivery = Redelivery {
            filter: Filter::default(),
            rate: None,
        };
        let act = Act {
            actor: "ann".to_owned(),
            why: "mended".to_owned(),
        };
        let mut job = store.start_job(&redelivery, &act);
        tokio::select! {
            biased;
            _ = &mut job => panic!("it was not counted by the thread that reads"),
            done = tokio::time::timeout(Duration::from_secs(30), async {
                store.claim(&Claim::new(1)).await.unwrap();
                assert!(store.pauses().await.unwrap().is_empty());
                store.take_over().await.unwrap();
            }) => done.expect("nobody who relays waits for an operator"),
        }
        go_on.send(()).unwrap();
        assert!(busy.wait().await.unwrap());
        assert_eq!(job.await.unwrap().state, JobState::Running);
    }

    #[tokio::test]
    async fn a_question_that_takes_too_long_is_given_up_and_the_next_is_answered() {
        let file = FreshFile::new();
        let store = store(&file).await;
        let endless = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n";
        let limit = Duration::from_millis(100);
        let asked = store
            .read(move |_, link| {
                link.read_within(limit, |connection| {
                    connection.query_row(endless, [], |row| row.get::<_, i64>(0))
                })
            })
            .await;
        assert_eq!(asked.unwrap_err().code(), "store.slow");
        tokio::time::sleep(2 * limit).await;
        assert_eq!(store.count(&Filter::default()).await.unwrap(), 0);
    }

    // F9
    #[tokio::test]
    async fn events_of_a_destination_that_is_down_are_passed_once_and_not_by_every_look() {
        let file = FreshFile::new();
        let store = store(&file).await;
        let minute = Duration::from_secs(60);
        let old = decode::now() - decode::length(minute);
        let fill = file
            .sql("insert into {outbox} (topic, payload, next_attempt_at) values ('down', '1', ?1)");
        file.open().execute(&fill, [old]).unwrap();
        let look = |reach| Claim {
            reach,
            except_topics: vec!["down".to_owned()],
            ..Claim::new(10)
        };
        for ordering in [
            ClaimOrdering::None,
            ClaimOrdering::Key(super::super::OnFailure::Block),
        ] {
            let claim = Claim {
                ordering,
                ..look(Reach::Oldest)
            };
            assert!(store.claim(&claim).await.unwrap().events.is_empty());
            assert!(store.outbox.start_of(&look(Reach::Onward)).0 > old);
        }
        let all = Claim {
            reach: Reach::Onward,
            ..Claim::new(10)
        };
        assert_eq!(store.claim(&all).await.unwrap().events.len(), 1);
    }
}
