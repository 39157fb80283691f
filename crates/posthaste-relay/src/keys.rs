//! Which keys to ask for: those in which events waited for what was settled since. Pure.
//!
//! What it forgets, or never knew, is found by looks.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use posthaste::Lease;

/// For so long, and up to twice as long, events are taken to wait in a key after they were last seen to.
const WAITING: Duration = Duration::from_secs(10);
/// So many keys are known in which events wait, and as many are to be asked for.
const MOST: usize = 10_000;

pub(crate) struct Keys {
    /// In which events wait: seen in this span of time, and in the one before.
    waiting: HashSet<String>,
    waited: HashSet<String>,
    since: Instant,
    /// In turn, each once.
    due: VecDeque<String>,
    are_due: HashSet<String>,
}

impl Keys {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            waiting: HashSet::new(),
            waited: HashSet::new(),
            since: now,
            due: VecDeque::new(),
            are_due: HashSet::new(),
        }
    }

    /// Events wait in these keys for others to be settled.
    pub(crate) fn wait(&mut self, keys: impl IntoIterator<Item = String>, now: Instant) {
        self.forget(now);
        for key in keys {
            if self.waiting.len() < MOST {
                self.waiting.insert(key);
            }
        }
    }

    /// Whether events wait in any key.
    pub(crate) fn are_waiting(&mut self, now: Instant) -> bool {
        self.forget(now);
        !(self.waiting.is_empty() && self.waited.is_empty())
    }

    /// An event of this key was settled.
    pub(crate) fn settled(&mut self, key: String, lease: &Lease) {
        // What waits for one that comes back may lie behind all looks, and was perhaps not seen by the one that found it.
        let came_back = lease.epoch > 1;
        if came_back || self.waiting.contains(&key) || self.waited.contains(&key) {
            self.ask(key);
        }
    }

    /// To be asked for, after those that are due already.
    pub(crate) fn ask(&mut self, key: String) {
        if self.due.len() < MOST && self.are_due.insert(key.clone()) {
            self.due.push_back(key);
        }
    }

    /// Those to ask for next.
    pub(crate) fn next(&mut self, limit: u32) -> Vec<String> {
        let count = self.due.len().min(limit as usize);
        let next: Vec<String> = self.due.drain(..count).collect();
        next.iter().for_each(|key| {
            self.are_due.remove(key);
        });
        next
    }

    pub(crate) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn forget(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= WAITING {
            self.waited = std::mem::take(&mut self.waiting);
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn lease(epoch: i64) -> Lease {
        Lease {
            id: Uuid::nil(),
            owner: Uuid::nil(),
            epoch,
        }
    }

    fn settle(keys: &mut Keys, settled: &[&str]) {
        for key in settled {
            keys.settled((*key).to_owned(), &lease(1));
        }
    }

    #[test]
    fn keys_are_asked_for_in_which_something_waits() {
        let now = Instant::now();
        let mut keys = Keys::new(now);
        settle(&mut keys, &["a", "b"]);
        assert!(!keys.are_due() && !keys.are_waiting(now));
        keys.wait(["b".to_owned()], now);
        settle(&mut keys, &["a", "b", "b"]);
        assert_eq!(keys.next(10), ["b"]);
        assert!(!keys.are_due() && keys.are_waiting(now));
        let still = now + WAITING + WAITING / 2;
        assert!(keys.are_waiting(still));
        settle(&mut keys, &["b"]);
        assert_eq!(keys.next(10), ["b"]);
        assert!(!keys.are_waiting(still + WAITING), "nobody saw it since");
        settle(&mut keys, &["b"]);
        assert!(!keys.are_due());
    }

    #[test]
    fn a_key_is_asked_for_whose_settled_event_had_come_back() {
        let mut keys = Keys::new(Instant::now());
        keys.settled("a".to_owned(), &lease(2));
        assert_eq!(keys.next(10), ["a"]);
    }

    #[test]
    fn every_key_has_its_turn_however_many_there_are() {
        let now = Instant::now();
        let mut keys = Keys::new(now);
        let names: Vec<String> = (0..3000).map(|n| format!("key-{n}")).collect();
        keys.wait(names.clone(), now);
        names.iter().for_each(|key| keys.ask(key.clone()));
        let mut asked = Vec::new();
        for _ in 0..6 {
            let next = keys.next(500);
            asked.extend(next.clone());
            next.into_iter().for_each(|key| keys.ask(key));
        }
        assert_eq!(asked, names);
    }

    #[test]
    fn what_is_known_of_keys_is_bounded() {
        let now = Instant::now();
        let mut keys = Keys::new(now);
        let names = (0..2 * MOST).map(|n| format!("key-{n}"));
        keys.wait(names.clone(), now);
        names.for_each(|key| keys.settled(key, &lease(2)));
        assert_eq!((keys.waiting.len(), keys.due.len()), (MOST, MOST));
    }
}
