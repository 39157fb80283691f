//! A destination: a sink by its name, with what it can take right now.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::circuit::{Admission, Circuit};
use crate::claim::Taken;
use crate::pace::{LATEST_SHARE, LOOKING_SHARE, recovered, rested};
use crate::route::REMEMBERED;
use crate::sink::Sink;
use crate::tally::Tally;
use crate::view::Outage;

/// How long to put an event off, at least, whose destination is full.
const FULL: Duration = Duration::from_millis(100);
/// Events that are put off come back one by one, this far apart: a long line of them must not
/// keep the database busy.
const APART: Duration = Duration::from_millis(2);
/// Those of a destination that is only full come back more often: it takes what it can.
const FULL_APART: Duration = Duration::from_micros(200);
/// How long what a paused destination would take is put off, at least, before it is looked at again.
const PAUSED: Duration = Duration::from_secs(1);

pub(crate) struct Destination {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) tally: Tally,
    circuit: Mutex<Circuit>,
    outage: Mutex<Option<Outage>>,
    /// Claimed for it and not yet decided on, and the bytes of their payloads.
    in_hand: AtomicUsize,
    in_hand_bytes: AtomicUsize,
    /// What goes there, as far as it was seen.
    topics: Mutex<HashSet<String>>,
    /// When the last event that was put off comes back.
    put_off: Mutex<Option<Instant>>,
    /// Before this there is no claim for it alone: the last one took its share of the time, and found nothing.
    looked_for: Mutex<Option<Instant>>,
    /// An operator paused it.
    paused: AtomicBool,
}

/// What one destination may have in hand when more is claimed: a slow one must not take what others need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

impl Share {
    /// All that there is.
    pub(crate) const WHOLE: Self = Self {
        events: usize::MAX,
        bytes: usize::MAX,
    };
}

impl Destination {
    pub(crate) fn new(name: String, sink: Arc<dyn Sink>) -> Self {
        Self {
            name,
            sink,
            slots: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            tally: Tally::default(),
            circuit: Mutex::new(Circuit::new()),
            outage: Mutex::default(),
            in_hand: AtomicUsize::new(0),
            in_hand_bytes: AtomicUsize::new(0),
            topics: Mutex::default(),
            put_off: Mutex::default(),
            looked_for: Mutex::default(),
            paused: AtomicBool::new(false),
        }
    }

    /// Pauses or resumes it. Gives back whether that is new.
    pub(crate) fn pause(&self, paused: bool) -> bool {
        self.paused.swap(paused, Memory::Relaxed) != paused
    }

    pub(crate) fn limit(&mut self, deliveries: usize) {
        self.slots = Arc::new(Semaphore::new(deliveries.clamp(1, Semaphore::MAX_PERMITS)));
    }

    pub(crate) fn admission(&self, now: Instant) -> Admission {
        if self.paused.load(Memory::Relaxed) {
            return Admission::Nothing(now + PAUSED);
        }
        self.circuit().admission(now)
    }

    /// Whether it was down until now: it has answered since, and there is nothing more for it.
    pub(crate) fn has_recovered(&self, now: Instant) -> bool {
        self.in_hand() == 0 && self.circuit().rests(now)
    }

    /// Whether it is time for a claim for it alone.
    pub(crate) fn may_be_looked_for(&self, now: Instant) -> bool {
        let until = *self.looked_for.lock().expect("not poisoned");
        until.is_none_or(|until| now >= until)
    }

    /// Takes note of such a claim.
    pub(crate) fn was_looked_for(&self, taken: &Taken) {
        let share = match taken.more {
            true => LATEST_SHARE,
            false => LOOKING_SHARE,
        };
        let at = (taken.events == 0).then(|| rested(taken.took, share));
        *self.looked_for.lock().expect("not poisoned") = at;
    }

    /// Such a claim began then and failed.
    pub(crate) fn failed_to_look_for(&self, started: Instant) {
        *self.looked_for.lock().expect("not poisoned") = Some(recovered(started));
    }

    pub(crate) fn in_hand(&self) -> usize {
        self.in_hand.load(Memory::Relaxed)
    }

    pub(crate) fn topics(&self) -> Vec<String> {
        let topics = self.topics.lock().expect("not poisoned");
        topics.iter().cloned().collect()
    }

    /// Events of this topic go here.
    pub(crate) fn learn(&self, topic: &str) {
        let mut topics = self.topics.lock().expect("not poisoned");
        if topics.len() < REMEMBERED && !topics.contains(topic) {
            topics.insert(topic.to_owned());
        }
    }

    /// One more is in hand for it, with so many bytes.
    pub(crate) fn expect(&self, bytes: usize) {
        self.in_hand.fetch_add(1, Memory::Relaxed);
        self.in_hand_bytes.fetch_add(bytes, Memory::Relaxed);
    }

    /// One of those is decided on.
    pub(crate) fn done(&self, bytes: usize) {
        self.in_hand.fetch_sub(1, Memory::Relaxed);
        self.in_hand_bytes.fetch_sub(bytes, Memory::Relaxed);
    }

    /// Whether it has less in hand than its share.
    pub(crate) fn has_room(&self, share: Share) -> bool {
        self.in_hand() < share.events && self.in_hand_bytes.load(Memory::Relaxed) < share.bytes
    }

    /// For how long to put an event off, if it cannot be taken now.
    pub(crate) fn put_off(&self, now: Instant, share: Share) -> Option<Duration> {
        let has_room = self.has_room(share);
        let (until, apart) = match self.admission(now) {
            Admission::Freely if has_room => return None,
            Admission::AtMost(window) if has_room && self.in_hand() < window => return None,
            Admission::Freely | Admission::AtMost(_) => (now + FULL, FULL_APART),
            Admission::Nothing(until) => (until, APART),
        };
        let mut last = self.put_off.lock().expect("not poisoned");
        let at = last.map_or(until, |last| until.max(last + apart));
        *last = Some(at);
        Some(at.saturating_duration_since(now))
    }

    /// It is down for this reason.
    pub(crate) fn is_down(&self, now: Instant, why: String) {
        let mut outage = self.outage.lock().expect("not poisoned");
        let since = outage.as_ref().map_or(now, |outage| outage.since);
        *outage = Some(Outage::new(since, why));
    }

    /// It is back.
    pub(crate) fn is_back(&self) {
        *self.outage.lock().expect("not poisoned") = None;
    }

    pub(crate) fn outage(&self) -> Option<Outage> {
        self.outage.lock().expect("not poisoned").clone()
    }

    pub(crate) fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().expect("not poisoned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink;

    #[test]
    fn claims_for_one_alone_take_a_bounded_share_of_the_time() {
        let destination = Destination::new("d".to_owned(), Arc::new(sink::stdout()));
        let after =
            |seconds| destination.may_be_looked_for(Instant::now() + Duration::from_secs(seconds));
        assert!(after(0));
        let taken = |events, more| Taken {
            events,
            bytes: 0,
            more,
            took: Duration::from_secs(2),
            waiting: Vec::new(),
            keys: HashSet::new(),
        };
        for (more, rest) in [(false, 40), (true, 10)] {
            destination.was_looked_for(&taken(0, more));
            assert!(!after(rest / 2) && after(rest));
        }
        destination.was_looked_for(&taken(1, false));
        assert!(after(0));
        destination.failed_to_look_for(Instant::now() - Duration::from_secs(60));
        assert!(!after(30) && after(70));
    }

    #[test]
    fn one_that_is_back_and_has_nothing_to_do_is_down_no_more() {
        let destination = Destination::new("d".to_owned(), Arc::new(sink::stdout()));
        let now = Instant::now();
        destination.circuit().unavailable(now, 1.0);
        let back = now + Duration::from_secs(1);
        destination.circuit().answered(back);
        assert_eq!(destination.admission(back), Admission::AtMost(2));
        assert!(!destination.has_recovered(back));
        let later = back + Duration::from_secs(5);
        destination.expect(1);
        assert!(!destination.has_recovered(later));
        destination.done(1);
        assert!(destination.has_recovered(later) && !destination.has_recovered(later));
        assert_eq!(destination.admission(later), Admission::Freely);
    }

    #[test]
    fn what_cannot_be_taken_comes_back_one_by_one() {
        let destination = Destination::new("d".to_owned(), Arc::new(sink::stdout()));
        let now = Instant::now();
        let share = |events| Share {
            events,
            bytes: 1000,
        };
        assert_eq!(destination.put_off(now, share(1)), None);
        destination.expect(10);
        assert_eq!(destination.put_off(now, share(1)), Some(FULL));
        assert_eq!(destination.put_off(now, share(1)), Some(FULL + FULL_APART));
        assert_eq!(destination.put_off(now, share(2)), None);
        destination.expect(990);
        assert!(!destination.has_room(share(9)), "as many bytes as it may");
        destination.done(990);
        destination.done(10);
        assert_eq!(destination.put_off(now, share(1)), None);
        destination.circuit().unavailable(now, 1.0);
        let Admission::Nothing(until) = destination.admission(now) else {
            panic!("open");
        };
        assert_eq!(destination.put_off(now, Share::WHOLE), Some(until - now));
        assert_eq!(destination.put_off(until, Share::WHOLE), None, "the probe");
    }
}
