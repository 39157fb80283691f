//! Three outboxes, in PostgreSQL, in SQLite and in memory, to which the same is done.

use std::collections::HashMap;
use std::time::Duration;

use posthaste::store::{Act, Claim, Claimed, Clean, Ending, Filter, Ordering, Settlement, Verdict};
use posthaste::{DeadReason, Lease, Message, Record, Status, Store, header};
use posthaste_testkit::bed::{Bed, InMemory, OnPostgres, OnSqlite};
use proptest::prelude::*;
use proptest::sample::Index;
use uuid::Uuid;

pub(crate) const LETTERS: &str = "shop.dead-letters.v1";
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// With no more than this, the smallest claim by key looks at every event.
const MOST: usize = 20;

/// What is done to all.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Enqueue(Vec<Mail>),
    Claim(usize, Claim),
    /// Leases of now and of then, the lost ones too.
    Settle(Vec<(Index, Verdict)>),
    Extend(Index, u32),
    /// Hours.
    Pass(u32),
    Kill(usize),
    Leave(usize),
    TakeOver(usize),
    Lead(usize),
    Redeliver(Index),
    Discard(Index),
    Clean(Clean),
}

/// A message to enqueue.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub(crate) key: Option<&'static str>,
    pub(crate) topic: usize,
    pub(crate) dedupe: Option<usize>,
}

pub(crate) fn topic(n: usize) -> String {
    format!("shop.order.placed.v{n}")
}

/// One outbox, its relays, and the names that its events have in all.
struct Side<B: Bed> {
    bed: B,
    relays: Vec<B::Store>,
    names: HashMap<Uuid, usize>,
    ids: Vec<Uuid>,
    leases: Vec<Lease>,
}

/// What can be compared of an event.
#[derive(Debug, PartialEq)]
struct Seen {
    name: usize,
    status: Status,
    attempts: u32,
    epoch: i64,
    dead_reason: Option<DeadReason>,
    last_error: Option<String>,
    leased_by: Option<Option<usize>>,
    /// Number, epoch and ending of each attempt.
    history: Vec<(u32, i64, Ending)>,
    letter: Option<Letter>,
}

/// What can be compared of a dead letter: the event that died, and what else is told of it.
#[derive(Debug, PartialEq)]
struct Letter {
    of: usize,
    told: Vec<(String, String)>,
}

impl<B: Bed> Side<B> {
    async fn new(bed: B) -> Self {
        let relays = vec![bed.relay().await, bed.relay().await];
        Self {
            bed,
            relays,
            names: HashMap::new(),
            ids: Vec::new(),
            leases: Vec::new(),
        }
    }

    fn name(&mut self, id: Uuid) -> usize {
        let next = self.ids.len();
        *self.names.entry(id).or_insert_with(|| {
            self.ids.push(id);
            next
        })
    }

    async fn enqueue(&mut self, messages: &[Message]) -> Vec<(usize, bool)> {
        let receipts = self.bed.enqueue(messages).await.expect("valid messages");
        let named = receipts.iter().map(|r| (self.name(r.id), r.new));
        named.collect()
    }

    async fn claim(&mut self, relay: usize, claim: &Claim) -> (Vec<String>, Vec<String>, bool) {
        let claimed = self.relays[relay].claim(claim).await.expect("a claim");
        let Claimed {
            events, died, more, ..
        } = claimed;
        self.leases.extend(events.iter().map(|event| event.lease));
        let events = events
            .iter()
            .map(|event| (self.name(event.id), event.attempts, event.lease.epoch))
            .map(|event| format!("{event:?}"))
            .collect();
        // Letters have ids of their own in each store.
        let mut died: Vec<String> = died
            .iter()
            .map(|it| format!("{} {} {}", it.topic, it.attempts, it.reason))
            .collect();
        died.sort();
        // By key it is about how far a store looked, too.
        (events, died, more && claim.ordering == Ordering::None)
    }

    async fn settle(&self, settlements: &[(usize, Verdict)]) -> (usize, Vec<usize>) {
        let settlements: Vec<Settlement> = settlements
            .iter()
            .map(|(lease, verdict)| Settlement {
                lease: self.leases[*lease],
                tried: None,
                verdict: verdict.clone(),
            })
            .collect();
        let settled = self.relays[0].settle(&settlements).await.expect("settled");
        let place = |lease| self.leases.iter().position(|l| l == lease).expect("ours");
        let mut lost: Vec<usize> = settled.lost.iter().map(place).collect();
        lost.sort_unstable();
        (settled.applied, lost)
    }

    async fn act(&mut self, event: usize, discard: bool) -> Vec<usize> {
        let act = Act {
            actor: "ops".to_owned(),
            why: "a test".to_owned(),
        };
        let (id, store) = (self.ids[event], &self.relays[0]);
        let acted = match discard {
            true => store.discard(&[id], &act).await,
            false => store.redeliver(&[id], &act).await,
        };
        let acted = acted.expect("an act");
        acted.into_iter().map(|id| self.name(id)).collect()
    }

    async fn replace(&mut self, relay: usize) -> Uuid {
        let new = self.bed.relay().await;
        let old = std::mem::replace(&mut self.relays[relay], new);
        let owner = old.owner();
        self.bed.kill(old);
        owner
    }

    async fn letter(&mut self, id: Uuid) -> Letter {
        let content = self.relays[0].content(id).await.expect("a look");
        let mut headers = content.expect("an event").headers;
        let of = headers.remove(header::DEAD_LETTER_OF).expect("a letter");
        // Ids and times differ.
        headers.remove(header::REDELIVERY_OF);
        headers.remove(header::DEAD_CREATED_AT).expect("a time");
        if let Some(history) = headers.get_mut(header::DEAD_HISTORY) {
            *history = without_times(history);
        }
        Letter {
            of: self.name(of.parse().expect("an id")),
            told: headers.into_iter().collect(),
        }
    }

    async fn seen(&mut self) -> (Vec<Seen>, usize, usize) {
        let records: Vec<Record> = self.relays[0]
            .list(&Filter::default(), 1000)
            .await
            .expect("a list");
        let owners: Vec<Uuid> = self.relays.iter().map(|relay| relay.owner()).collect();
        let mut seen = Vec::new();
        for record in records {
            seen.push(Seen {
                name: self.name(record.id),
                status: record.status,
                attempts: record.attempts,
                epoch: record.lease_epoch,
                dead_reason: record.dead_reason,
                last_error: record.last_error,
                leased_by: record
                    .lease_owner
                    .map(|owner| owners.iter().position(|known| *known == owner)),
                history: self.relays[0]
                    .history(record.id)
                    .await
                    .expect("a history")
                    .iter()
                    .map(|attempt| (attempt.number, attempt.epoch, attempt.ending))
                    .collect(),
                letter: match record.topic == LETTERS {
                    true => Some(self.letter(record.id).await),
                    false => None,
                },
            });
        }
        let audit = self.relays[0].audit(None, 1000).await;
        (
            seen,
            self.bed.archive().await.len(),
            audit.expect("the audit log").len(),
        )
    }
}

/// What a letter tells of attempts, but for when they were and whose: not every store knows the name of a relay
/// that is gone.
fn without_times(history: &str) -> String {
    let mut history: Vec<serde_json::Map<_, serde_json::Value>> =
        serde_json::from_str(history).expect("JSON");
    for entry in &mut history {
        entry.remove("at").expect("a time");
        entry.remove("relay");
    }
    serde_json::to_string(&history).expect("JSON")
}

/// Does something to all sides, and compares what they answer.
macro_rules! all {
    ($world:ident, $side:ident => $do:expr) => {{
        let left = {
            let $side = &mut $world.postgres;
            $do
        };
        let middle = {
            let $side = &mut $world.sqlite;
            $do
        };
        let right = {
            let $side = &mut $world.memory;
            $do
        };
        prop_assert_eq!(&left, &right, "PostgreSQL and memory");
        prop_assert_eq!(&middle, &right, "SQLite and memory");
    }};
}

/// All outboxes.
pub(crate) struct World {
    postgres: Side<OnPostgres>,
    sqlite: Side<OnSqlite>,
    memory: Side<InMemory>,
    events: usize,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self {
            postgres: Side::new(OnPostgres::new().await).await,
            sqlite: Side::new(OnSqlite::new().await).await,
            memory: Side::new(InMemory::new().await).await,
            events: 0,
        }
    }

    /// Empties all, and gives them new relays.
    pub(crate) async fn start_over(&mut self) {
        for relay in 0..2 {
            let owner = self.postgres.replace(relay).await;
            self.postgres.bed.is_over(owner).await;
        }
        let fresh = self.postgres.bed.fresh();
        let empty =
            fresh.sql("truncate {outbox}, {outbox:relay}, {outbox:audit}, {outbox:archive}, {outbox:attempts}");
        fresh
            .client
            .batch_execute(&empty)
            .await
            .expect("empty tables");
        self.postgres.names.clear();
        self.postgres.ids.clear();
        self.postgres.leases.clear();
        self.sqlite = Side::new(OnSqlite::new().await).await;
        self.memory = Side::new(InMemory::new().await).await;
        self.events = 0;
    }

    pub(crate) async fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Enqueue(mail) => {
                let mail = &mail[..mail.len().min(MOST.saturating_sub(self.events))];
                let messages: Vec<Message> = mail.iter().map(message).collect();
                self.events += mail.len();
                all!(self, side => side.enqueue(&messages).await);
            }
            Step::Claim(relay, claim) => {
                let mut claim = claim.clone();
                claim.dead_letters.take_if(|_| !self.has_room_for_letters());
                all!(self, side => side.claim(*relay, &claim).await);
            }
            Step::Settle(picks) => {
                let mut settlements = Vec::new();
                for (pick, verdict) in picks {
                    let leases = self.memory.leases.len();
                    let mut verdict = verdict.clone();
                    if let Verdict::Dead { letter, .. } = &mut verdict {
                        letter.take_if(|_| !self.has_room_for_letters());
                    }
                    if leases > 0 {
                        settlements.push((pick.index(leases), verdict));
                    }
                }
                // Each lease once, and in sequence: within one call nothing else says which was first.
                let memory = &self.memory;
                settlements
                    .sort_by_key(|(lease, _)| (memory.names[&memory.leases[*lease].id], *lease));
                settlements.dedup_by_key(|(lease, _)| *lease);
                all!(self, side => side.settle(&settlements).await);
            }
            Step::Extend(pick, hours) => {
                if !self.memory.leases.is_empty() {
                    let place = pick.index(self.memory.leases.len());
                    all!(self, side => {
                        let lease = side.leases[place];
                        let lost = side.relays[0].extend(&[lease], *hours * HOUR).await;
                        lost.expect("an answer").len()
                    });
                }
            }
            Step::Pass(hours) => all!(self, side => side.bed.pass(*hours * HOUR).await),
            Step::Kill(relay) => {
                let owner = self.postgres.replace(*relay).await;
                self.postgres.bed.is_over(owner).await;
                self.sqlite.replace(*relay).await;
                self.memory.replace(*relay).await;
            }
            Step::Leave(relay) => {
                all!(self, side => side.relays[*relay].leave().await.is_ok());
            }
            Step::TakeOver(relay) => {
                all!(self, side => side.relays[*relay].take_over().await.expect("a look"));
            }
            Step::Lead(relay) => {
                all!(self, side => side.relays[*relay].lead().await.expect("an answer"));
            }
            Step::Redeliver(pick) if self.events > 0 => {
                let event = pick.index(self.memory.ids.len());
                let count = self.memory.ids.len();
                if count < MOST {
                    all!(self, side => side.act(event, false).await);
                    self.events += self.memory.ids.len() - count;
                }
            }
            Step::Discard(pick) if self.events > 0 => {
                let event = pick.index(self.memory.ids.len());
                all!(self, side => side.act(event, true).await);
            }
            Step::Redeliver(_) | Step::Discard(_) => {}
            Step::Clean(clean) => {
                all!(self, side => side.relays[0].clean(clean).await.expect("a count"));
            }
        }
        Ok(())
    }

    pub(crate) async fn compare(&mut self) -> Result<(), TestCaseError> {
        all!(self, side => side.seen().await);
        self.events = self.events.max(self.memory.ids.len());
        Ok(())
    }

    /// Should all of them die.
    fn has_room_for_letters(&self) -> bool {
        2 * self.events <= MOST
    }
}

fn message(mail: &Mail) -> Message {
    let mut message = Message::bytes(topic(mail.topic), "text/plain", "x").id(Uuid::new_v4());
    if let Some(key) = mail.key {
        message = message.ordering_key(key);
    }
    if let Some(dedupe) = mail.dedupe {
        message = message.dedupe_key(dedupe.to_string());
    }
    message
}
