//! The pace of the loop: how long to pause, where to look, how much to ask for. Pure.

use std::time::{Duration, Instant};

use posthaste::store::Reach;

use crate::relay::Taken;

/// The shortest pause between two looks.
const BRISK: Duration = Duration::from_millis(1);
/// A pause is this many times what a claim takes longer than at best.
const STRAIN_SHARE: u32 = 5;
const LONGEST_STRAIN: Duration = Duration::from_millis(25);
/// A claim of fewer events than this tells of the database, not of its own size.
const FEW: usize = 100;
/// A pause is this part of how long nothing has come: what comes late is found late in proportion.
const IDLE_SHARE: u32 = 50;
/// Looking from the oldest on, and through events that wait in their keys, may take this part of
/// the time.
const LOOKING_SHARE: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What an event is taken to weigh before any was seen.
const FIRST_GUESS: usize = 64 * 1024;

pub(crate) struct Pace {
    poll_interval: Duration,
    /// Whether events wait for the ones before them in their keys.
    by_key: bool,
    last_event: Instant,
    last_oldest: Option<Look>,
    /// The last look onward, if it went past events none of which could be claimed.
    in_vain: Option<Look>,
    /// Where the last look was, if it was in vain: further on there may be more.
    passed: Option<Reach>,
    /// Events were settled since the last look from the oldest on: those after them may go now.
    settled: bool,
    /// How long a claim takes at best, and how much longer it takes at present.
    best: Duration,
    strain: Duration,
    failures: u32,
    event_bytes: usize,
}

/// When a look ended, and how long it took.
#[derive(Clone, Copy)]
struct Look {
    ended: Instant,
    took: Duration,
}

impl Look {
    /// Whether so much time has passed that another one takes at most this part of it.
    fn is_over(self, share: u32, now: Instant) -> bool {
        now >= self.ended + self.took * share
    }
}

impl Pace {
    pub(crate) fn new(poll_interval: Duration, by_key: bool) -> Self {
        Self {
            poll_interval,
            by_key,
            last_event: Instant::now(),
            last_oldest: None,
            in_vain: None,
            passed: None,
            settled: false,
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
        (idle / IDLE_SHARE).max(least).min(self.poll_interval)
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

    pub(crate) fn reach(&self, now: Instant) -> Reach {
        let share = match self.by_key && self.settled {
            true => 1,
            false => LOOKING_SHARE,
        };
        let onward = match self.in_vain {
            Some(look) if !look.is_over(LOOKING_SHARE, now) => Reach::Latest,
            _ => Reach::Onward,
        };
        match (self.passed, self.last_oldest) {
            (Some(Reach::Oldest), Some(_)) => onward,
            (Some(Reach::Onward), Some(_)) => Reach::Latest,
            (_, Some(oldest)) if !oldest.is_over(share, now) => onward,
            _ => Reach::Oldest,
        }
    }

    pub(crate) fn look_from_oldest(&mut self) {
        self.last_oldest = None;
    }

    /// Events were settled.
    pub(crate) fn settled(&mut self) {
        self.settled = true;
    }

    /// A standby becomes active brisk, and looks at everything.
    pub(crate) fn stand_by(&mut self) {
        self.last_event = Instant::now();
        self.last_oldest = None;
    }

    /// How many events of the usual size fit into this many bytes: at least one.
    pub(crate) fn fitting(&self, bytes: usize) -> usize {
        (bytes / self.event_bytes.max(1)).max(1)
    }

    /// Takes note of a claim. Gives back whether to look again at once.
    pub(crate) fn claimed(&mut self, reach: Reach, started: Instant, taken: &Taken) -> bool {
        let ended = Instant::now();
        let look = Look {
            ended,
            took: ended - started,
        };
        self.failures = 0;
        if reach != Reach::Oldest && taken.events < FEW {
            self.feel(look.took);
        }
        let in_vain = taken.events == 0 && taken.more;
        self.passed = in_vain.then_some(reach);
        match reach {
            Reach::Oldest => {
                self.last_oldest = Some(look);
                self.settled = false;
            }
            Reach::Onward => self.in_vain = in_vain.then_some(look),
            Reach::Latest | Reach::Aside => {}
        }
        if taken.events > 0 {
            self.last_event = ended;
            let mean = taken.bytes.div_ceil(taken.events);
            // Quick to grow, slow to shrink.
            self.event_bytes = mean.max(self.event_bytes - self.event_bytes / 4);
        }
        // Past events that wait, it looks further on: onward, then at the latest, then it pauses.
        taken.more && (taken.events > 0 || reach != Reach::Latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn taken(events: usize, bytes: usize) -> Taken {
        Taken {
            events,
            bytes,
            more: false,
        }
    }

    // M16
    #[test]
    fn it_is_brisk_while_busy_and_slows_down_to_the_poll_interval() {
        let pace = Pace::new(MS(1000), false);
        let start = pace.last_event;
        assert_eq!(pace.pause(start), MS(1));
        assert_eq!(pace.pause(start + MS(10_000)), MS(200));
        assert_eq!(pace.pause(start + MS(3_600_000)), MS(1000));
    }

    #[test]
    fn it_looks_less_often_while_the_database_is_busy() {
        let mut pace = Pace::new(MS(1000), false);
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
        let mut pace = Pace::new(MS(1000), false);
        let now = Instant::now();
        assert_eq!(pace.reach(now), Reach::Oldest);
        pace.last_oldest = Some(Look {
            ended: now,
            took: MS(10),
        });
        assert_eq!(pace.reach(now + MS(199)), Reach::Onward);
        assert_eq!(pace.reach(now + MS(200)), Reach::Oldest);
        pace.look_from_oldest();
        assert_eq!(pace.reach(now), Reach::Oldest);
    }

    #[test]
    fn a_settled_event_makes_it_look_for_those_after_it_in_the_key() {
        let mut pace = Pace::new(MS(1000), true);
        let now = Instant::now();
        pace.last_oldest = Some(Look {
            ended: now,
            took: MS(10),
        });
        pace.settled();
        assert_eq!(pace.reach(now + MS(9)), Reach::Onward);
        assert_eq!(pace.reach(now + MS(10)), Reach::Oldest);
    }

    #[test]
    fn a_long_line_of_waiting_events_does_not_hide_new_ones_nor_take_all_the_time() {
        let mut pace = Pace::new(MS(1000), true);
        let now = Instant::now();
        let look = Look {
            ended: now,
            took: MS(10),
        };
        (pace.last_oldest, pace.in_vain) = (Some(look), Some(look));
        assert_eq!(pace.reach(now + MS(199)), Reach::Latest);
        pace.last_oldest = Some(Look {
            ended: now + MS(100),
            ..look
        });
        assert_eq!(pace.reach(now + MS(200)), Reach::Onward);
        let blocked = Taken {
            events: 0,
            bytes: 0,
            more: true,
        };
        assert!(pace.claimed(Reach::Onward, now, &blocked));
        assert_eq!(pace.reach(now), Reach::Latest);
        assert!(!pace.claimed(Reach::Latest, now, &blocked));
    }

    #[test]
    fn looks_onward_have_their_turn_however_often_those_from_the_oldest_on_are_in_vain() {
        let mut pace = Pace::new(MS(1000), true);
        let blocked = Taken {
            events: 0,
            bytes: 0,
            more: true,
        };
        let mut now = Instant::now();
        for _ in 0..3 {
            for reach in [Reach::Oldest, Reach::Onward, Reach::Latest] {
                assert_eq!(pace.reach(now), reach);
                let again = pace.claimed(reach, Instant::now() - MS(1), &blocked);
                assert_eq!(again, reach != Reach::Latest);
            }
            // Long enough for any look to be due again.
            now = Instant::now() + MS(100);
        }
    }

    #[test]
    fn large_events_are_asked_for_in_small_numbers() {
        let mut pace = Pace::new(MS(1000), false);
        pace.claimed(Reach::Onward, Instant::now(), &taken(10, 10 << 20));
        assert_eq!(pace.fitting(16 << 20), 16);
        assert_eq!(pace.fitting(0), 1);
        for _ in 0..60 {
            pace.claimed(Reach::Onward, Instant::now(), &taken(100, 25_000));
        }
        assert!(pace.fitting(16 << 20) > 10_000);
    }

    #[test]
    fn failures_slow_it_down_up_to_a_limit() {
        let mut pace = Pace::new(MS(1000), false);
        assert_eq!((pace.failed(), pace.failed()), (MS(100), MS(200)));
        for _ in 0..20 {
            pace.failed();
        }
        assert_eq!(pace.failed(), LONGEST_PAUSE);
    }
}
