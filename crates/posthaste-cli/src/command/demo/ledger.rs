//! The ledger: what the shop committed and what the courier got, written down by each on its own,
//! and compared at the end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use posthaste::store::Stats;
use posthaste::{Event, Status, Store};
use posthaste_relay::sink::Outcome;
use uuid::Uuid;

use super::screen::say;
use crate::failure::Failure;

pub(super) struct Ledger {
    started: Instant,
    pages: Mutex<Pages>,
}

#[derive(Default)]
pub(super) struct Pages {
    pub(super) committed: HashSet<Uuid>,
    pub(super) rolled_back: HashSet<Uuid>,
    /// How often each event came.
    pub(super) delivered: HashMap<Uuid, u32>,
    pub(super) rejected: HashSet<Uuid>,
    pub(super) retries: u64,
    pub(super) outbox: Stats,
    /// What people should see, not yet shown.
    pub(super) news: VecDeque<String>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            pages: Mutex::default(),
        }
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("not poisoned")
    }

    pub(super) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub(super) fn committed(&self, event: Uuid) {
        self.pages().committed.insert(event);
    }

    pub(super) fn rolled_back(&self, event: Uuid, item: &str) {
        self.pages().rolled_back.insert(event);
        self.note(&format!(
            "a card is declined: an order ({item}) is rolled back, and its event with it"
        ));
    }

    /// The courier tried to deliver.
    pub(super) fn tried(&self, event: &Event, outcome: &Outcome) {
        let mut pages = self.pages();
        let order = event.aggregate_id.as_deref().unwrap_or("?");
        let item = event.headers.get("item").map_or("", String::as_str);
        let news = match outcome {
            Outcome::Delivered => {
                let times = pages.delivered.entry(event.id).or_default();
                *times += 1;
                match (*times, event.attempts) {
                    (1, 1) => None,
                    (1, attempts) => Some(format!(
                        "order {order} ({item}) is delivered at attempt {attempts}"
                    )),
                    _ => Some(format!(
                        "order {order} ({item}) comes again, with the same id: a relay was killed before it could settle"
                    )),
                }
            }
            Outcome::Reject(why) => {
                pages.rejected.insert(event.id);
                Some(format!("order {order} ({item}) is dead: {why}"))
            }
            _ => {
                pages.retries += 1;
                None
            }
        };
        drop(pages);
        if let Some(news) = news {
            self.note(&news);
        }
    }

    pub(super) fn saw(&self, stats: Stats) {
        self.pages().outbox = stats;
    }

    /// Something for people to see.
    pub(super) fn note(&self, news: &str) {
        let line = format!("{:6.1} s  {news}", self.seconds());
        self.pages().news.push_back(line);
    }
}

/// What became of everything, by both ledgers and the database.
pub(super) struct Totals {
    committed: usize,
    rolled_back: usize,
    delivered: usize,
    again: usize,
    retries: u64,
    dead: usize,
    pending: usize,
    /// Committed, and neither delivered nor dead nor in the outbox.
    lost: usize,
    /// Delivered, and never committed.
    made_up: usize,
}

impl Totals {
    /// Looks every event up, and compares.
    pub(super) async fn count(store: &dyn Store, ledger: &Ledger) -> Result<Self, Failure> {
        let (committed, rolled_back, delivered, retries) = {
            let pages = ledger.pages();
            (
                pages.committed.clone(),
                pages.rolled_back.clone(),
                pages.delivered.clone(),
                pages.retries,
            )
        };
        let mut totals = Self {
            committed: committed.len(),
            rolled_back: rolled_back.len(),
            delivered: 0,
            again: delivered.values().filter(|times| **times > 1).count(),
            retries,
            dead: 0,
            pending: 0,
            lost: 0,
            made_up: 0,
        };
        for event in &committed {
            let status = store.show(*event).await?.map(|record| record.status);
            match status {
                Some(Status::Delivered) if delivered.contains_key(event) => totals.delivered += 1,
                Some(Status::Dead) => totals.dead += 1,
                Some(Status::Pending | Status::Processing) => totals.pending += 1,
                _ => totals.lost += 1,
            }
        }
        for event in &rolled_back {
            if store.show(*event).await?.is_some() {
                totals.made_up += 1;
            }
        }
        // Others may have committed some: an operator, or an earlier shop on this file.
        for event in delivered.keys().filter(|event| !committed.contains(event)) {
            if rolled_back.contains(event) || store.show(*event).await?.is_none() {
                totals.made_up += 1;
            }
        }
        Ok(totals)
    }

    /// What does not add up.
    pub(super) fn problem(&self) -> Option<String> {
        let accounted = self.delivered + self.dead + self.pending;
        if self.lost > 0 || accounted != self.committed {
            return Some(format!("{} committed events are lost", self.lost));
        }
        (self.made_up > 0)
            .then(|| format!("{} events came that were never committed", self.made_up))
    }

    pub(super) fn print(&self, json: bool, file: Option<&Path>) {
        if json {
            let Self {
                committed,
                rolled_back,
                delivered,
                again,
                retries,
                dead,
                pending,
                lost,
                made_up,
            } = self;
            let totals = serde_json::json!({
                "committed": committed, "rolled_back": rolled_back, "delivered": delivered,
                "delivered_again": again, "retries": retries, "dead": dead, "pending": pending,
                "lost": lost, "made_up": made_up,
            });
            say(&totals.to_string());
            return;
        }
        say(&format!(
            "committed    {:>6}  orders, each with its event",
            self.committed
        ));
        say(&format!(
            "rolled back  {:>6}  orders, and no event of theirs was ever there",
            self.rolled_back
        ));
        let again = match self.again {
            0 => String::new(),
            again => format!(", and {again} came twice, as relays were killed"),
        };
        say(&format!(
            "delivered    {:>6}  after {} failed attempts{again}",
            self.delivered, self.retries
        ));
        say(&format!(
            "dead         {:>6}  each with its reason",
            self.dead
        ));
        say(&format!("pending      {:>6}", self.pending));
        if self.problem().is_none() {
            say(&format!(
                "\nNothing was lost and nothing was made up: {} = {} + {} + {}.",
                self.committed, self.delivered, self.dead, self.pending
            ));
        }
        if let Some(file) = file {
            say(&format!(
                "Look at it with: posthaste --database '{}' --table {} dead",
                format!("sqlite:{}", file.display()).replace('\'', r"'\''"),
                super::OUTBOX
            ));
        }
    }
}
