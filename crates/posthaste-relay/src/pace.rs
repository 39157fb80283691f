//! The pace of the loop: how long to pause, where to look, how much to ask for. Pure.

use std::time::{Duration, Instant};

use posthaste::store::Reach;

use crate::relay::Taken;

/// The shortest pause between two looks.
const BRISK: Duration = Duration::from_millis(1);
/// A pause is this part of how long nothing has come: what comes late is found late in proportion.
const IDLE_SHARE: u32 = 50;
/// Looking from the oldest on may take this part of the time.
const OLDEST_SHARE: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What an event is taken to weigh before any was seen.
const FIRST_GUESS: usize = 64 * 1024;

pub(crate) struct Pace {
    poll_interval: Duration,
    last_event: Instant,
    /// When the last look from the oldest on ended, and how long it took.
    last_oldest: Option<(Instant, Duration)>,
    failures: u32,
    event_bytes: usize,
}

impl Pace {
    pub(crate) fn new(poll_interval: Duration) -> Self {
        Self {
            poll_interval,
            last_event: Instant::now(),
            last_oldest: None,
            failures: 0,
            event_bytes: FIRST_GUESS,
        }
    }

    /// How long to wait before looking again, having found nothing more.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let idle = now.saturating_duration_since(self.last_event);
        (idle / IDLE_SHARE).clamp(BRISK.min(self.poll_interval), self.poll_interval)
    }

    /// How long to wait after the store failed.
    pub(crate) fn failed(&mut self) -> Duration {
        self.failures += 1;
        Duration::from_millis(50)
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST_PAUSE)
    }

    pub(crate) fn reach(&self, now: Instant) -> Reach {
        match self.last_oldest {
            Some((ended, took)) if now < ended + took * OLDEST_SHARE => Reach::Onward,
            _ => Reach::Oldest,
        }
    }

    pub(crate) fn look_from_oldest(&mut self) {
        self.last_oldest = None;
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

    pub(crate) fn claimed(&mut self, reach: Reach, started: Instant, taken: &Taken) {
        let now = Instant::now();
        self.failures = 0;
        if reach == Reach::Oldest {
            self.last_oldest = Some((now, now - started));
        }
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
        let pace = Pace::new(MS(1000));
        let start = pace.last_event;
        assert_eq!(pace.pause(start), MS(1));
        assert_eq!(pace.pause(start + MS(10_000)), MS(200));
        assert_eq!(pace.pause(start + MS(3_600_000)), MS(1000));
    }

    #[test]
    fn looks_from_the_oldest_on_take_a_bounded_share_of_the_time() {
        let mut pace = Pace::new(MS(1000));
        let now = Instant::now();
        assert_eq!(pace.reach(now), Reach::Oldest);
        pace.last_oldest = Some((now, MS(10)));
        assert_eq!(pace.reach(now + MS(199)), Reach::Onward);
        assert_eq!(pace.reach(now + MS(200)), Reach::Oldest);
        pace.look_from_oldest();
        assert_eq!(pace.reach(now), Reach::Oldest);
    }

    #[test]
    fn large_events_are_asked_for_in_small_numbers() {
        let mut pace = Pace::new(MS(1000));
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
        let mut pace = Pace::new(MS(1000));
        assert_eq!((pace.failed(), pace.failed()), (MS(100), MS(200)));
        for _ in 0..20 {
            pace.failed();
        }
        assert_eq!(pace.failed(), LONGEST_PAUSE);
    }
}
