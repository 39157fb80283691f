//! What became of deliveries, in numbers that cost next to nothing to keep: for whoever watches a
//! relay from its own process. Knows no metrics library.

use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use crate::sink::Outcome;

/// The upper bound of the first class of durations, in seconds.
const FIRST: f64 = 0.000_1;
/// Classes for each doubling: a quantile is told to within a tenth.
const PER_DOUBLING: f64 = 8.0;
/// The last class is without bound, from about nine hours on.
const CLASSES: usize = 228;

/// What became of the deliveries to one destination.
#[derive(Default)]
pub(crate) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    unavailable: AtomicU64,
    dispatch: Classes,
    end_to_end: Classes,
}

struct Classes(Box<[AtomicU64]>);

impl Default for Classes {
    fn default() -> Self {
        Self((0..CLASSES).map(|_| AtomicU64::new(0)).collect())
    }
}

/// Deliveries to a destination since its relay began, by what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Deliveries {
    /// Those that succeeded.
    pub delivered: u64,
    /// Those that are to be tried again.
    pub failed: u64,
    /// Those that the destination refused for good.
    pub rejected: u64,
    /// Those that found it down.
    pub unavailable: u64,
    /// How long each attempt took.
    pub dispatch: Durations,
    /// From enqueue to delivered.
    pub end_to_end: Durations,
}

/// How many durations fell into which class. Told to within a tenth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durations(Vec<u64>);

impl Tally {
    pub(crate) fn tried(&self, outcome: &Outcome, took: Duration) {
        let counter = match outcome {
            Outcome::Delivered => &self.delivered,
            Outcome::Retry(_) | Outcome::RetryAfter(..) | Outcome::Busy(..) => &self.failed,
            Outcome::Reject(_) => &self.rejected,
            Outcome::Unavailable(_) => &self.unavailable,
        };
        counter.fetch_add(1, Memory::Relaxed);
        self.dispatch.note(took);
    }

    pub(crate) fn arrived(&self, age: Duration) {
        self.end_to_end.note(age);
    }

    pub(crate) fn read(&self) -> Deliveries {
        let read = |counter: &AtomicU64| counter.load(Memory::Relaxed);
        Deliveries {
            delivered: read(&self.delivered),
            failed: read(&self.failed),
            rejected: read(&self.rejected),
            unavailable: read(&self.unavailable),
            dispatch: self.dispatch.read(),
            end_to_end: self.end_to_end.read(),
        }
    }
}

impl Classes {
    fn note(&self, duration: Duration) {
        self.0[class(duration)].fetch_add(1, Memory::Relaxed);
    }

    fn read(&self) -> Durations {
        let counts = self.0.iter().map(|count| count.load(Memory::Relaxed));
        Durations(counts.collect())
    }
}

fn class(duration: Duration) -> usize {
    let doublings = (duration.as_secs_f64() / FIRST).log2();
    // Also what is shorter than the first class, whose logarithm is below zero or no number.
    let class = (doublings * PER_DOUBLING).ceil().max(0.0) as usize;
    class.min(CLASSES - 1)
}

impl Deliveries {
    /// What was added since this was read before. Of another relay, all of it is new.
    pub fn since(&self, before: &Self) -> Self {
        let restarted = self.delivered < before.delivered || self.failed < before.failed;
        if restarted {
            return self.clone();
        }
        Self {
            delivered: self.delivered - before.delivered,
            failed: self.failed - before.failed,
            rejected: self.rejected.saturating_sub(before.rejected),
            unavailable: self.unavailable.saturating_sub(before.unavailable),
            dispatch: self.dispatch.since(&before.dispatch),
            end_to_end: self.end_to_end.since(&before.end_to_end),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            failed: self.failed + other.failed,
            rejected: self.rejected + other.rejected,
            unavailable: self.unavailable + other.unavailable,
            dispatch: self.dispatch.plus(&other.dispatch),
            end_to_end: self.end_to_end.plus(&other.end_to_end),
        }
    }
}

impl Durations {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Such that the given part of them is no longer than this: `0.5` is the median. `None`: there
    /// are none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * part.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut passed = 0;
        let class = self.0.iter().position(|count| {
            passed += count;
            passed >= wanted
        })?;
        Some(Duration::from_secs_f64(
            FIRST * (class as f64 / PER_DOUBLING).exp2(),
        ))
    }

    fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        let class = |counts: &[u64], place: usize| counts.get(place).copied().unwrap_or(0);
        let classes = self.0.len().max(other.0.len());
        Self(
            (0..classes)
                .map(|place| join(class(&self.0, place), class(&other.0, place)))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    // N6
    #[test]
    fn a_quantile_is_told_to_within_a_tenth() {
        let tally = Tally::default();
        assert_eq!(tally.read().dispatch.quantile(0.5), None);
        for ms in 1..=1000 {
            tally.tried(&Outcome::Delivered, MS(ms));
        }
        let durations = tally.read().dispatch;
        assert_eq!(durations.count(), 1000);
        for (part, expected) in [(0.0, 0.001), (0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let found = durations.quantile(part).unwrap().as_secs_f64();
            assert!(
                (expected..expected * 1.1).contains(&found),
                "{part}: {found}"
            );
        }
    }

    #[test]
    fn no_duration_is_too_short_or_too_long() {
        let tally = Tally::default();
        for duration in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            tally.arrived(duration);
        }
        assert_eq!(tally.read().end_to_end.count(), 3);
    }

    #[test]
    fn what_was_added_since_is_told_also_after_a_new_beginning() {
        let tally = Tally::default();
        tally.tried(&Outcome::Delivered, MS(5));
        let before = tally.read();
        tally.tried(&Outcome::Delivered, MS(50));
        tally.tried(&Outcome::Retry(String::new()), MS(5));
        let added = tally.read().since(&before);
        assert_eq!((added.delivered, added.failed), (1, 1));
        assert_eq!(added.dispatch.count(), 2);
        let anew = Tally::default();
        anew.tried(&Outcome::Reject(String::new()), MS(5));
        assert_eq!(anew.read().since(&before).rejected, 1);
        let both = added.plus(&anew.read());
        assert_eq!((both.delivered, both.rejected), (1, 1));
    }
}
