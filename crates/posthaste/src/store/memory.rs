//! The store in memory: the reference that says, in plain code, what every store does.
//!
//! For tests, and for trying a relay without a database. Nothing survives the process, and
//! nothing is fast: each operation may look at every event. It reads the time through one
//! function, which a test may replace.

mod claim;
mod jobs;
mod operate;
mod rows;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::Notify;
use uuid::Uuid;

use self::jobs::Jobs;
use self::operate::Presence;
use self::rows::{Rows, State};
use super::{
    Act, Attempt, Audit, BlockedKey, Claim, Claimed, Clean, Content, Ending, Filter, Finding,
    Group, Health, Job, JobState, Mark, Order, Page, Pause, Redelivery, RelayInfo, Settled,
    Settlement, StartedJob, Stats, Store, StoreError, Target, Verdict, crew, storable,
};
use crate::enqueue::{EnqueueError, Outbox, Receipt};
use crate::event::{Lease, Record, Status};
use crate::message::Message;
use crate::table::Table;
use crate::topic::TopicRule;

/// An outbox in memory, as one relay sees it. [`Memory::relay`] gives another relay on the
/// same outbox; one that is dropped is gone, as if its process had been killed.
pub struct Memory {
    outbox: Arc<Shared>,
    /// What this relay found out about others.
    gone: Mutex<HashSet<Uuid>>,
    owner: Mutex<Uuid>,
    woken: Arc<Notify>,
}

struct Shared {
    outbox: Outbox,
    table: Arc<Table>,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    contents: Mutex<Contents>,
}

/// All that the database would hold.
#[derive(Default)]
struct Contents {
    rows: Rows,
    archive: Vec<Record>,
    audit: Vec<Audit>,
    /// Relays that leased something, and whether they are still there.
    relays: BTreeMap<Uuid, Presence>,
    leader: Option<Uuid>,
    pauses: BTreeMap<Target, Pause>,
    jobs: Jobs,
    listeners: Vec<Weak<Notify>>,
}

impl Memory {
    /// An empty outbox of this name.
    pub fn new(table: Table) -> Self {
        Self::with_clock(table, SystemTime::now)
    }

    /// An empty outbox of this name that asks this function for the time.
    pub fn with_clock(
        table: Table,
        clock: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        Self::on(Arc::new(Shared {
            table: Arc::new(table.clone()),
            outbox: Outbox::of(table),
            clock: Box::new(clock),
            contents: Mutex::default(),
        }))
    }

    fn on(outbox: Arc<Shared>) -> Self {
        let woken = Arc::new(Notify::new());
        let memory = Self {
            outbox,
            gone: Mutex::default(),
            owner: Mutex::new(Uuid::new_v4()),
            woken,
        };
        let listener = Arc::downgrade(&memory.woken);
        memory.contents().listeners.push(listener);
        memory
    }

    /// Another relay on the same outbox.
    pub fn relay(&self) -> Self {
        Self::on(self.outbox.clone())
    }

    /// Enqueues messages, all or none, with the checks of [`Outbox`] and as idempotently.
    pub fn enqueue(&self, messages: &[Message]) -> Result<Vec<Receipt>, EnqueueError> {
        self.enqueue_into(&self.outbox.outbox, messages)
    }

    fn enqueue_into(
        &self,
        outbox: &Outbox,
        messages: &[Message],
    ) -> Result<Vec<Receipt>, EnqueueError> {
        let rows = messages
            .iter()
            .map(|message| outbox.row(message))
            .collect::<Result<Vec<_>, _>>()?;
        let now = self.now();
        let mut contents = self.contents();
        let receipts: Vec<Receipt> = rows
            .into_iter()
            .map(|row| contents.rows.enqueue(row, now))
            .collect();
        contents
            .listeners
            .retain(|listener| listener.strong_count() > 0);
        for listener in contents.listeners.iter().filter_map(Weak::upgrade) {
            listener.notify_one();
        }
        drop(contents);
        outbox.count(messages.iter().zip(receipts.iter().copied()));
        Ok(receipts)
    }

    /// What the cleaner moved to the archive, in that order.
    pub fn archive(&self) -> Vec<Record> {
        self.contents().archive.clone()
    }

    fn now(&self) -> SystemTime {
        (self.outbox.clock)()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.outbox.contents.lock().expect("not poisoned")
    }

    /// Is known to others as an owner from now on, and gives back as whom.
    fn be_present(&self, contents: &mut Contents) -> Uuid {
        let owner = self.owner();
        let now = self.now();
        contents
            .relays
            .entry(owner)
            .and_modify(|presence| presence.alive = true)
            .or_insert(Presence {
                alive: true,
                since: now,
            });
        owner
    }

    /// Is gone, which others find out when they look.
    fn be_gone(&self) {
        let owner = self.owner();
        // Also while a test that failed unwinds.
        let Ok(mut contents) = self.outbox.contents.lock() else {
            return;
        };
        if contents.leader == Some(owner) {
            contents.leader = None;
        }
        if let Some(presence) = contents.relays.get_mut(&owner) {
            presence.alive = false;
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.be_gone();
    }
}

impl Contents {
    /// Forgets owners that hold no lease any more.
    fn forget(&mut self, owners: &[Uuid]) {
        for owner in owners {
            if !self.rows.iter().any(|row| row.is_leased_by(*owner)) {
                self.relays.remove(owner);
            }
        }
    }
}

#[async_trait]
impl Store for Memory {
    fn table(&self) -> &Table {
        &self.outbox.table
    }

    fn owner(&self) -> Uuid {
        *self.owner.lock().expect("not poisoned")
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let now = self.now();
        let gone = self.gone.lock().expect("not poisoned").clone();
        let mut contents = self.contents();
        let relay = claim::Relay {
            table: &self.outbox.table,
            owner: self.be_present(&mut contents),
            gone,
        };
        Ok(claim::claim(&mut contents.rows, claim, &relay, now))
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Settled, StoreError> {
        let now = self.now();
        let mut contents = self.contents();
        let mut settled = Settled::default();
        for settlement in settlements {
            let Settlement {
                lease,
                verdict,
                tried,
            } = settlement;
            let Some(row) = contents.rows.leased(lease) else {
                settled.lost.push(*lease);
                continue;
            };
            let ending = Ending::of(settlement);
            if let Some(ending) = ending.filter(|_| settlement.is_for_history()) {
                let error = verdict.error().map(storable);
                row.attempted(ending, error, tried.as_ref(), Some(crew::name()), now);
            }
            row.updated_at = now;
            match verdict {
                Verdict::Delivered { keep: false } => {
                    let sequence = row.sequence;
                    contents.rows.remove(sequence);
                }
                Verdict::Delivered { keep: true } => {
                    row.state = State::Delivered { at: now };
                    row.last_error = None;
                }
                Verdict::Retry { delay, error } => {
                    row.state = State::Pending;
                    row.next_attempt_at = now + *delay;
                    row.last_error = Some(storable(error));
                }
                Verdict::Dead {
                    reason,
                    error,
                    letter,
                } => {
                    row.state = State::Dead {
                        at: now,
                        reason: *reason,
                    };
                    row.last_error = Some(storable(error));
                    if let Some(topic) = letter {
                        let sequence = row.sequence;
                        contents.rows.send_letters(vec![sequence], topic, now);
                    }
                }
                Verdict::Release => {
                    row.state = State::Pending;
                    row.attempts -= 1;
                }
                Verdict::Postpone { delay } => {
                    row.state = State::Pending;
                    row.attempts -= 1;
                    row.next_attempt_at = now + *delay;
                }
            }
            settled.applied += 1;
        }
        Ok(settled)
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<Lease>, StoreError> {
        let until = self.now() + lease;
        let mut contents = self.contents();
        let mut lost = Vec::new();
        for lease in leases {
            match contents.rows.leased(lease) {
                Some(row) => {
                    row.state = State::Processing {
                        owner: lease.owner,
                        until,
                    }
                }
                None => lost.push(*lease),
            }
        }
        Ok(lost)
    }

    async fn take_over(&self) -> Result<usize, StoreError> {
        let mut contents = self.contents();
        self.be_present(&mut contents);
        let mut known = self.gone.lock().expect("not poisoned");
        contents.forget(&known.iter().copied().collect::<Vec<_>>());
        let gone: HashSet<Uuid> = contents
            .relays
            .iter()
            .filter(|(_, presence)| !presence.alive)
            .map(|(owner, _)| *owner)
            .collect();
        let new = gone.difference(&known).count();
        *known = gone;
        Ok(new)
    }

    async fn lead(&self) -> Result<bool, StoreError> {
        let mut contents = self.contents();
        let owner = self.be_present(&mut contents);
        Ok(*contents.leader.get_or_insert(owner) == owner)
    }

    async fn leave(&self) -> Result<(), StoreError> {
        self.be_gone();
        // Only if it holds no lease: otherwise others are to see that it is gone.
        self.contents().forget(&[self.owner()]);
        // Others may have its leases by now: should it come back, then as somebody else.
        *self.owner.lock().expect("not poisoned") = Uuid::new_v4();
        Ok(())
    }

    async fn woken(&self) {
        self.woken.notified().await;
    }

    async fn clean(&self, clean: &Clean) -> Result<u64, StoreError> {
        let now = self.now();
        let mut contents = self.contents();
        let old = contents.rows.past_retention(clean, now);
        Ok(contents.remove(&old, clean.archive))
    }

    async fn remove(&self, ids: &[Uuid], archive: bool) -> Result<u64, StoreError> {
        let mut contents = self.contents();
        let ended = contents.rows.ended(ids);
        Ok(contents.remove(&ended, archive))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let now = self.now();
        let age = |since: SystemTime| now.duration_since(since).unwrap_or_default();
        let contents = self.contents();
        let mut stats = Stats {
            enqueued: Some(contents.rows.enqueued()),
            ..Stats::default()
        };
        for row in contents.rows.iter() {
            match row.status() {
                Status::Pending => {
                    stats.pending += 1;
                    stats.oldest_pending = stats.oldest_pending.max(age(row.next_attempt_at));
                }
                Status::Processing => {
                    stats.processing += 1;
                    stats.stuck += u64::from(age(row.updated_at) > Duration::from_secs(300));
                }
                Status::Dead => stats.dead += 1,
                Status::Delivered => {}
            }
        }
        Ok(stats)
    }

    async fn list(&self, filter: &Filter, limit: u32) -> Result<Vec<Record>, StoreError> {
        let now = self.now();
        let contents = self.contents();
        let wanted = contents.rows.iter().filter(|row| row.is_meant(filter, now));
        Ok(wanted
            .take(limit as usize)
            .map(|row| row.record())
            .collect())
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let now = self.now();
        let contents = self.contents();
        let wanted = contents.rows.iter().filter(|row| row.is_meant(filter, now));
        Ok(wanted.count() as u64)
    }

    async fn show(&self, id: Uuid) -> Result<Option<Record>, StoreError> {
        Ok(self.contents().rows.by_id(id).map(|row| row.record()))
    }

    async fn content(&self, id: Uuid) -> Result<Option<Content>, StoreError> {
        Ok(self.contents().rows.by_id(id).map(|row| row.content()))
    }

    async fn finished(&self, after: Option<Mark>, limit: u32) -> Result<Vec<Record>, StoreError> {
        let contents = self.contents();
        let mut finished: Vec<Record> = contents
            .rows
            .iter()
            .map(|row| row.record())
            .filter(|record| record.mark().is_some_and(|mark| Some(mark) > after))
            .collect();
        finished.sort_by_key(Record::mark);
        let limit = limit as usize;
        match after {
            Some(_) => finished.truncate(limit),
            None => drop(finished.drain(..finished.len().saturating_sub(limit))),
        }
        Ok(finished)
    }

    async fn audit_from(
        &self,
        event: Option<Uuid>,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Vec<Audit>, StoreError> {
        let contents = self.contents();
        let wanted = |entry: &&Audit| {
            event.is_none_or(|id| entry.event_id == id)
                && from.is_none_or(|mark| entry.at <= mark.at)
        };
        let told = from.map_or(0, |mark| usize::try_from(mark.sequence).unwrap_or(0));
        let latest_first = contents.audit.iter().rev().filter(wanted).skip(told);
        Ok(latest_first.take(limit as usize).cloned().collect())
    }

    async fn redeliver(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        let now = self.now();
        Ok(self.contents().redeliver(ids, act, now))
    }

    async fn discard(&self, ids: &[Uuid], act: &Act) -> Result<Vec<Uuid>, StoreError> {
        let now = self.now();
        let mut contents = self.contents();
        let acted = contents.rows.discard(ids, now);
        for (id, topic) in &acted {
            contents.audit.push(Audit {
                at: now,
                actor: storable(&act.actor),
                act: "discard".to_owned(),
                event_id: *id,
                topic: topic.clone(),
                why: storable(&act.why),
            });
        }
        Ok(acted.into_iter().map(|(id, _)| id).collect())
    }

    async fn enqueue(
        &self,
        messages: &[Message],
        topics: TopicRule,
    ) -> Result<Vec<Receipt>, EnqueueError> {
        self.enqueue_into(&self.outbox.outbox.clone().topics(topics), messages)
    }

    async fn note(&self, what: &'static str, act: &Act) -> Result<(), StoreError> {
        let now = self.now();
        self.contents().note(what, act, now);
        Ok(())
    }

    async fn browse(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Mark>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let now = self.now();
        Ok(self.contents().browse(filter, order, from, limit, now))
    }

    async fn history(&self, id: Uuid) -> Result<Vec<Attempt>, StoreError> {
        Ok(self.contents().history(id))
    }

    async fn groups(&self, filter: &Filter, limit: u32) -> Result<Vec<Group>, StoreError> {
        let now = self.now();
        Ok(self.contents().groups(filter, limit, now))
    }

    async fn pause(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.contents().pause(target, act, now))
    }

    async fn resume(&self, target: &Target, act: &Act) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.contents().resume(target, act, now))
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        Ok(self.contents().pauses.values().cloned().collect())
    }

    async fn relays(&self) -> Result<Vec<RelayInfo>, StoreError> {
        Ok(self.contents().crew())
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedKey>, StoreError> {
        let now = self.now();
        Ok(self.contents().blocked(limit, now))
    }

    async fn health(&self) -> Result<Health, StoreError> {
        Ok(Health {
            server: "memory".to_owned(),
            live_rows: Some(self.contents().rows.iter().count() as u64),
            ..Health::default()
        })
    }

    async fn start_job_as(
        &self,
        id: Uuid,
        redelivery: &Redelivery,
        act: &Act,
    ) -> Result<StartedJob, StoreError> {
        let now = self.now();
        self.contents().start_job(id, redelivery, act, now)
    }

    async fn jobs(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        Ok(self.contents().jobs.latest(limit))
    }

    async fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        Ok(self.contents().jobs.by_id(id))
    }

    async fn set_job(
        &self,
        id: Uuid,
        state: JobState,
        act: &Act,
    ) -> Result<Option<Job>, StoreError> {
        let now = self.now();
        Ok(self.contents().set_job(id, state, act, now))
    }

    async fn advance(&self, id: Uuid, limit: u32) -> Result<Option<Job>, StoreError> {
        let now = self.now();
        Ok(self.contents().advance(id, limit, now))
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let lasting = Finding::good("memory", "nothing survives the process");
        Ok(vec![lasting.doubtful("use it for tests only")])
    }
}
