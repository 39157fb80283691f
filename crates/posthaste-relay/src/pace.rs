//! The pace of the loop: how long to pause, where to look, how much to ask for. Pure.

use std::time::{Duration, Instant};

use posthaste::Lease;
use posthaste::store::Reach;

use crate::keys::Keys;

use crate::claim::Taken;

/// The shortest pause between two looks.
const BRISK: Duration = Duration::from_millis(1);
/// A pause is this many times what a claim takes longer than at best.
const STRAIN_SHARE: u32 = 5;
const LONGEST_STRAIN: Duration = Duration::from_millis(25);
/// A claim of fewer events than this tells of the database, not of its own size.
const FEW: usize = 100;
/// A pause is this part of how long nothing has come: what comes late is found late in proportion.
const IDLE_SHARE: u32 = 50;
/// Looking from the oldest on, and onward through events that wait in their keys, may take this part of
/// the time each.
pub(crate) const LOOKING_SHARE: u32 = 20;
/// And looking at the latest, where new events are found while others wait, this part.
pub(crate) const LATEST_SHARE: u32 = 5;
/// A look that took long may have waited for a lock. So the next one comes after this long at the latest, unless it then
/// took more than this part of the time.
const LONGEST_REST: Duration = Duration::from_secs(60);
const LARGEST_SHARE: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What an event is taken to weigh before any was seen.
const FIRST_GUESS: usize = 64 * 1024;

pub(crate) struct Pace {
    poll_interval: Duration,
    last_event: Instant,
    /// When to look from the oldest on again.
    oldest_at: Option<Instant>,
    /// And onward, and at the latest, if the last look there failed or went past events none of which could be claimed.
    onward_at: Option<Instant>,
    latest_at: Option<Instant>,
    /// Where the last look was, if it was in vain: further on there may be more.
    passed: Option<Reach>,
    keys: Keys,
    /// Whether the last claim was for some keys.
    of_keys: bool,
    /// How long a claim takes at best, and how much longer it takes at present.
    best: Duration,
    strain: Duration,
    failures: u32,
    event_bytes: usize,
}

/// When to look again after a look that took so long, if it may take this part of the time.
pub(crate) fn rested(took: Duration, share: u32) -> Instant {
    Instant::now() + (took * share).min(LONGEST_REST.max(took * LARGEST_SHARE))
}

/// When to look again after a look that failed: it may have been the database, or that it takes too long.
pub(crate) fn recovered(started: Instant) -> Instant {
    let now = Instant::now();
    now + (now - started)
}

impl Pace {
    pub(crate) fn new(poll_interval: Duration) -> Self {
        Self {
            poll_interval,
            last_event: Instant::now(),
            oldest_at: None,
            onward_at: None,
            latest_at: None,
            passed: None,
            keys: Keys::new(Instant::now()),
            of_keys: false,
            best: Duration::MAX,
            strain: Duration::ZERO,
            failures: 0,
            event_bytes: FIRST_GUESS,
        }
    }

    /// How long to wait before looking again, having found nothing more. A database that is busy
    /// is better served by fewer and larger batches.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let idle = now.saturating_duration_since(self.last_event);
        let least = (self.strain * STRAIN_SHARE).clamp(BRISK, LONGEST_STRAIN);
        let pause = (idle / IDLE_SHARE).max(least).min(self.poll_interval);
        match self.latest_at {
            // There is more that nobody has looked at yet, after a long line that waits. If it is time and nobody looks,
            // nobody may.
            Some(at) if at > now => pause.min((at - now).max(BRISK)),
            _ => pause,
        }
    }

    /// Learns how strained the database is from how long a claim of a few events took.
    fn feel(&mut self, took: Duration) {
        // What was best long ago may not be possible any more.
        self.best = took.min(self.best.saturating_add(self.best / 8192));
        self.strain = (self.strain * 7 + took.saturating_sub(self.best)) / 8;
    }

    /// How long to wait after the store failed.
    pub(crate) fn failed(&mut self) -> Duration {
        self.failures += 1;
        Duration::from_millis(50)
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE)
    }

    /// Where to look now, if anywhere.
    pub(crate) fn reach(&self, now: Instant) -> Option<Reach> {
        let is_over = |at: Option<Instant>| at.is_none_or(|at| now >= at);
        let may = |reach: &Reach| match reach {
            Reach::Oldest => is_over(self.oldest_at),
            Reach::Onward => is_over(self.onward_at),
            Reach::Latest => is_over(self.latest_at),
            Reach::Aside => false,
        };
        // After one that was in vain, those further on have their turn.
        let turns = match self.passed {
            Some(Reach::Oldest) => [Reach::Onward, Reach::Latest, Reach::Oldest],
            Some(Reach::Onward) => [Reach::Latest, Reach::Oldest, Reach::Onward],
            _ => [Reach::Oldest, Reach::Onward, Reach::Latest],
        };
        turns.into_iter().find(may)
    }

    pub(crate) fn look_from_oldest(&mut self) {
        (self.oldest_at, self.passed) = (None, None);
    }

    /// The last event of each key that was settled.
    pub(crate) fn settled(&mut self, settled: impl IntoIterator<Item = (String, Lease)>) {
        for (key, lease) in settled {
            self.keys.settled(key, &lease);
        }
    }

    /// Up to so many keys to ask for, as events may go in them that waited.
    pub(crate) fn keys(&mut self, limit: u32, now: Instant) -> Vec<String> {
        // In turns with looks: keys of which there is always more must not hold up all others.
        match self.of_keys && self.reach(now).is_some() {
            true => Vec::new(),
            false => self.keys.next(limit),
        }
    }

    /// Whether events wait in their keys for others to be settled.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.keys.are_waiting(Instant::now())
    }

    /// Takes note of a claim for these keys.
    pub(crate) fn claimed_of_keys(&mut self, keys: Vec<String>, taken: Taken) {
        self.failures = 0;
        self.of_keys = true;
        let now = Instant::now();
        for key in keys {
            match taken.keys.contains(&key) {
                // There may be more of it, once this is settled.
                true => self.keys.wait([key], now),
                false if taken.more => self.keys.ask(key),
                false => {}
            }
        }
        self.took(taken);
    }

    /// The store failed to claim for these keys.
    pub(crate) fn failed_of_keys(&mut self, keys: Vec<String>) {
        // Looks have their turn all the same: it may be these keys alone that fail.
        self.of_keys = true;
        keys.into_iter().for_each(|key| self.keys.ask(key));
    }

    /// A standby becomes active brisk, and looks at everything.
    pub(crate) fn stand_by(&mut self) {
        self.last_event = Instant::now();
        self.look_from_oldest();
    }

    /// How many events of the usual size fit into this many bytes: at least one.
    pub(crate) fn fitting(&self, bytes: usize) -> usize {
        (bytes / self.event_bytes.max(1)).max(1)
    }

    /// The store failed to look there. It may be that look alone which fails: others have their turn.
    pub(crate) fn failed_to_look(&mut self, reach: Reach, started: Instant) {
        (self.of_keys, self.passed) = (false, Some(reach));
        let at = Some(recovered(started));
        match reach {
            Reach::Oldest => self.oldest_at = at,
            Reach::Onward => self.onward_at = at,
            Reach::Latest => self.latest_at = at,
            Reach::Aside => {}
        }
    }

    /// Takes note of a claim. Gives back whether to look again at once.
    pub(crate) fn claimed(&mut self, reach: Reach, taken: Taken) -> bool {
        self.failures = 0;
        if reach != Reach::Oldest && taken.events < FEW {
            self.feel(taken.took);
        }
        self.of_keys = false;
        if !taken.more {
            // It came to the end, past the latest.
            self.latest_at = None;
        }
        let in_vain = taken.events == 0 && taken.more;
        self.passed = in_vain.then_some(reach);
        let after = |share| in_vain.then(|| rested(taken.took, share));
        match reach {
            Reach::Oldest => self.oldest_at = Some(rested(taken.took, LOOKING_SHARE)),
            Reach::Onward => self.onward_at = after(LOOKING_SHARE),
            Reach::Latest => self.latest_at = after(LATEST_SHARE),
            Reach::Aside => {}
        }
        // Past events that wait, it looks further on: onward, then at the latest, then it pauses.
        let goes_on = taken.more && (taken.events > 0 || reach != Reach::Latest);
        self.took(taken);
        goes_on || self.keys.are_due()
    }

    fn took(&mut self, taken: Taken) {
        let now = Instant::now();
        self.keys.wait(taken.waiting, now);
        if taken.events > 0 {
            self.last_event = now;
            let mean = taken.bytes.div_ceil(taken.events);
            // Quick to grow, slow to shrink.
            self.event_bytes = mean.max(self.event_bytes - self.event_bytes / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn taken(events: usize, bytes: usize) -> Taken {
        Taken {
            events,
            bytes,
            more: false,
            took: MS(1),
            waiting: Vec::new(),
            keys: HashSet::new(),
        }
    }

    fn blocked() -> Taken {
        Taken {
            more: true,
            ..taken(0, 0)
        }
    }

    // M16
    #[test]
    fn it_is_brisk_while_busy_and_slows_down_to_the_poll_interval() {
        let pace = Pace::new(MS(1000));
        let start = pace.last_event;
        assert_eq!(pace.pause(start), MS(1));
        assert_eq!(pace.pause(start + MS(10_000)), MS(200));
        assert_eq!(pace.pause(start + MS(3_600_000)), MS(1000));
    }

    #[test]
    fn it_looks_less_often_while_the_database_is_busy() {
        let mut pace = Pace::new(MS(1000));
        let start = pace.last_event;
        pace.feel(MS(1));
        assert_eq!(pace.pause(start), MS(1));
        pace.feel(MS(3));
        assert!(pace.pause(start) < MS(3), "one slow claim is no strain");
        for _ in 0..40 {
            pace.feel(MS(3));
        }
        assert!(pace.pause(start) > MS(5) && pace.pause(start) <= MS(10));
        for _ in 0..40 {
            pace.feel(MS(60));
        }
        assert_eq!(pace.pause(start), LONGEST_STRAIN);
    }

    #[test]
    fn looks_from_the_oldest_on_take_a_bounded_share_of_the_time() {
        let mut pace = Pace::new(MS(1000));
        let now = Instant::now();
        assert_eq!(pace.reach(now), Some(Reach::Oldest));
        let after = |pace: &Pace, time| pace.reach(Instant::now() + time);
        for (took, rest) in [
            (MS(1000), MS(20_000)),
            // It may have waited for a lock.
            (MS(10_000), MS(60_000)),
            (MS(100_000), MS(400_000)),
        ] {
            pace.claimed(
                Reach::Oldest,
                Taken {
                    took,
                    ..taken(1, 1)
                },
            );
            assert_eq!(after(&pace, rest / 2), Some(Reach::Onward));
            assert_eq!(after(&pace, rest), Some(Reach::Oldest));
        }
        pace.look_from_oldest();
        assert_eq!(pace.reach(now), Some(Reach::Oldest));
    }

    #[test]
    fn claims_by_key_and_looks_take_turns() {
        let mut pace = Pace::new(MS(1000));
        let now = Instant::now();
        let lease = Lease {
            id: uuid::Uuid::nil(),
            owner: uuid::Uuid::nil(),
            epoch: 1,
        };
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let all: Vec<String> = keys(&["a", "b", "c"]);
        let settled = all.clone().into_iter().map(|key| (key, lease));
        pace.settled(settled.clone());
        assert!(pace.keys(10, now).is_empty() && !pace.is_waiting());
        let passed = Taken {
            waiting: all.clone(),
            ..taken(0, 0)
        };
        assert!(!pace.claimed(Reach::Onward, passed));
        assert!(pace.keys(10, now).is_empty() && pace.is_waiting());
        pace.settled(settled);
        assert_eq!(pace.keys(2, now), all[..2]);
        let of_one = Taken {
            keys: HashSet::from(["a".to_owned()]),
            more: true,
            ..taken(1, 1)
        };
        pace.claimed_of_keys(all[..2].to_vec(), of_one);
        assert!(pace.keys(9, now).is_empty(), "looks have their turn");
        let again = pace.claimed(Reach::Onward, taken(0, 0));
        assert!(again, "and are followed at once");
        assert_eq!(pace.keys(9, now), keys(&["c", "b"]) as Vec<String>);
        pace.failed_of_keys(all.clone());
        assert!(pace.keys(9, now).is_empty(), "nor may those that fail");
        assert!(pace.claimed(Reach::Onward, taken(0, 0)));
        assert_eq!(pace.keys(9, now), all);
    }

    #[test]
    fn a_long_line_of_waiting_events_does_not_hide_new_ones_nor_take_all_the_time() {
        let mut pace = Pace::new(MS(1000));
        let now = Instant::now();
        let slow = || Taken {
            took: MS(1000),
            ..blocked()
        };
        let rest = |reach: Option<Instant>| reach.unwrap() - Instant::now();
        assert!(pace.claimed(Reach::Oldest, slow()));
        assert!(pace.claimed(Reach::Onward, slow()));
        assert!(rest(pace.onward_at) > MS(10_000));
        assert_eq!(pace.reach(now), Some(Reach::Latest));
        assert!(!pace.claimed(Reach::Latest, slow()));
        assert!(rest(pace.latest_at) <= MS(5000));
        assert_eq!(pace.reach(now), None);
        assert_eq!(pace.reach(now + MS(8000)), Some(Reach::Latest));
        // Until all was looked at, it does not slow down.
        pace.last_event = now - MS(100_000);
        pace.latest_at = Some(now + MS(50));
        assert_eq!(pace.pause(now), MS(50));
        // But if nobody may look, it does.
        assert_eq!(pace.pause(now + MS(60)), MS(1000));
        assert!(pace.reach(now + MS(60_000)).is_some());
        assert!(!pace.claimed(Reach::Onward, taken(0, 0)));
        assert_eq!((pace.latest_at, pace.onward_at), (None, None));
    }

    #[test]
    fn looks_onward_have_their_turn_however_often_those_from_the_oldest_on_are_in_vain() {
        let mut pace = Pace::new(MS(1000));
        let mut now = Instant::now();
        for _ in 0..3 {
            for reach in [Reach::Oldest, Reach::Onward, Reach::Latest] {
                assert_eq!(pace.reach(now), Some(reach));
                let again = pace.claimed(reach, blocked());
                assert_eq!(again, reach != Reach::Latest);
            }
            // Long enough for any look to be due again.
            now = Instant::now() + MS(100);
        }
    }

    #[test]
    fn a_look_that_fails_leaves_the_others_their_turn() {
        let mut pace = Pace::new(MS(1000));
        let now = Instant::now();
        for _ in 0..3 {
            pace.look_from_oldest();
            assert_eq!(pace.reach(now), Some(Reach::Oldest));
            pace.failed_to_look(Reach::Oldest, now - MS(60_000));
            for _ in 0..10 {
                assert_eq!(pace.reach(now), Some(Reach::Onward));
                pace.claimed(Reach::Onward, taken(1, 1));
            }
        }
        // Each rests as long as it took: it may have been the database.
        let now = Instant::now();
        for reach in [Reach::Onward, Reach::Latest] {
            assert_eq!(pace.reach(now), Some(reach));
            pace.failed_to_look(reach, now - MS(60_000));
        }
        assert_eq!(pace.reach(now), None);
        assert!(pace.reach(now + MS(70_000)).is_some());
        // Keys have their turn beside looks that fail.
        pace.of_keys = true;
        pace.failed_to_look(Reach::Oldest, now);
        assert!(!pace.of_keys);
    }

    #[test]
    fn large_events_are_asked_for_in_small_numbers() {
        let mut pace = Pace::new(MS(1000));
        pace.claimed(Reach::Onward, taken(10, 10 << 20));
        assert_eq!(pace.fitting(16 << 20), 16);
        assert_eq!(pace.fitting(0), 1);
        for _ in 0..60 {
            pace.claimed(Reach::Onward, taken(100, 25_000));
        }
        assert!(pace.fitting(16 << 20) > 10_000);
    }

    #[test]
    fn failures_slow_it_down_up_to_a_limit() {
        let mut pace = Pace::new(MS(1000));
        assert_eq!((pace.failed(), pace.failed()), (MS(100), MS(200)));
        for _ in 0..20 {
            pace.failed();
        }
        assert_eq!(pace.failed(), LONGEST_PAUSE);
    }
}
