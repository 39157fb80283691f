//! When to try again: pure policies, with the random number as an input.

use std::time::Duration;

use crate::settings::Problem;

/// How long to wait after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Between half of `d` and `d`, where `d = min(base · 2^(attempts − 1), max)`. The default.
    EqualJitter {
        /// The first delay, before jitter.
        base: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// `min(base · 2^(attempts − 1), max)`, and up to `jitter` more.
    AdditiveJitter {
        /// The first delay.
        base: Duration,
        /// The longest delay, before jitter.
        max: Duration,
        /// What is added at most.
        jitter: Duration,
    },
    /// `min(base · 2^(attempts − 1), max)`.
    Exponential {
        /// The first delay.
        base: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// Always the same.
    Fixed {
        /// The delay.
        delay: Duration,
    },
}

impl Default for Retry {
    fn default() -> Self {
        Self::EqualJitter {
            base: Duration::from_secs(1),
            max: Duration::from_secs(300),
        }
    }
}

impl Retry {
    /// The delay after this many attempts, given a random number in `0.0..1.0`.
    pub fn delay(&self, attempts: u32, random: f64) -> Duration {
        let random = random.clamp(0.0, 1.0);
        match *self {
            Self::EqualJitter { base, max } => {
                scaled(doubled(base, max, attempts), 0.5 + random / 2.0)
            }
            Self::AdditiveJitter { base, max, jitter } => {
                doubled(base, max, attempts).saturating_add(scaled(jitter, random))
            }
            Self::Exponential { base, max } => doubled(base, max, attempts),
            Self::Fixed { delay } => delay,
        }
    }

    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let (base, max) = match *self {
            Self::EqualJitter { base, max }
            | Self::AdditiveJitter { base, max, .. }
            | Self::Exponential { base, max } => (base, max),
            Self::Fixed { .. } => return None,
        };
        let (settings, why): (&[_], _) = if base.is_zero() {
            (&["retry.base"], "retry base must be longer than zero")
        } else if max < base {
            (
                &["retry.max", "retry.base"],
                "retry max must not be shorter than retry base",
            )
        } else {
            return None;
        };
        Some(Problem {
            settings,
            why: why.to_owned(),
        })
    }
}

fn scaled(duration: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * share).unwrap_or(duration)
}

fn doubled(base: Duration, max: Duration, attempts: u32) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let factor = 1_u128 << attempts.saturating_sub(1).min(127);
    let nanos = base.as_nanos().saturating_mul(factor).min(max.as_nanos());
    let seconds = u64::try_from(nanos / SECOND).expect("no longer than max");
    Duration::new(seconds, (nanos % SECOND) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    // M10
    #[test]
    fn equal_jitter_lies_between_half_and_whole() {
        let retry = Retry::default();
        assert_eq!(retry.delay(1, 0.0), MS(500));
        assert_eq!(retry.delay(1, 1.0), S(1));
        assert_eq!(retry.delay(4, 0.0), S(4));
        assert_eq!(retry.delay(4, 1.0), S(8));
        assert_eq!(retry.delay(25, 1.0), S(300));
        assert_eq!(retry.delay(25, 0.0), S(150));
    }

    // B9
    #[test]
    fn additive_jitter_comes_on_top_of_the_cap() {
        let retry = Retry::AdditiveJitter {
            base: S(1),
            max: S(60),
            jitter: MS(200),
        };
        assert_eq!(retry.delay(1, 0.0), S(1));
        assert_eq!(retry.delay(7, 1.0), MS(60_200));
    }

    // K4
    #[test]
    fn a_short_ladder_doubles_from_a_tenth_of_a_second() {
        let retry = Retry::Exponential {
            base: MS(100),
            max: MS(1600),
        };
        let ladder: Vec<_> = (1..=5).map(|n| retry.delay(n, 0.7)).collect();
        assert_eq!(ladder, [MS(100), MS(200), MS(400), MS(800), MS(1600)]);
    }

    // N5
    #[test]
    fn powers_of_two_in_seconds() {
        let retry = Retry::Exponential {
            base: S(1),
            max: S(3600),
        };
        assert_eq!((retry.delay(1, 0.0), retry.delay(5, 0.0)), (S(1), S(16)));
    }

    // F3
    #[test]
    fn a_fixed_delay_stays() {
        let retry = Retry::Fixed { delay: S(10) };
        assert_eq!((retry.delay(1, 0.3), retry.delay(9, 0.9)), (S(10), S(10)));
    }

    // M10
    #[test]
    fn doubling_goes_on_until_the_maximum_is_reached() {
        let max = S(10 * 365 * 86_400);
        let retry = Retry::Exponential { base: MS(1), max };
        assert_eq!(retry.delay(35, 0.0), MS(1 << 34));
        assert_eq!(retry.delay(40, 0.0), max);
    }

    // M10
    #[test]
    fn the_longest_of_all_delays_does_not_overflow() {
        let (base, max) = (Duration::MAX, Duration::MAX);
        let jitter = Duration::MAX;
        for retry in [
            Retry::EqualJitter { base, max },
            Retry::AdditiveJitter { base, max, jitter },
            Retry::Exponential { base, max },
        ] {
            assert!(retry.delay(u32::MAX, 1.0) > S(u64::MAX / 2));
        }
    }

    proptest! {
        // M10
        #[test]
        fn no_attempt_count_overflows_or_leaves_the_bounds(
            attempts in any::<u32>(),
            random in 0.0..1.0_f64,
            base in 1..u64::from(u32::MAX),
            extra in 0..u64::from(u32::MAX),
            jitter in 0..u64::from(u32::MAX),
        ) {
            let (base, max) = (MS(base), MS(base + extra));
            let plain = Retry::Exponential { base, max }.delay(attempts, random);
            prop_assert!(plain >= base && plain <= max);
            let equal = Retry::EqualJitter { base, max }.delay(attempts, random);
            prop_assert!(equal >= plain / 2 && equal <= plain);
            let jitter = MS(jitter);
            let additive = Retry::AdditiveJitter { base, max, jitter }.delay(attempts, random);
            prop_assert!(additive >= plain && additive <= plain + jitter);
        }
    }
}
