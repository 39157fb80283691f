//! How often one caller is answered: a bucket for each, which fills at a steady rate.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// More callers than this are not told apart from new ones.
const CALLERS: usize = 10_000;

pub(super) struct Limit {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Limit {
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst),
            buckets: Mutex::default(),
        }
    }

    /// Whether this caller may go on now. If so, it counts.
    pub(super) fn admits(&self, caller: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().expect("not poisoned");
        if buckets.len() >= CALLERS && !buckets.contains_key(caller) {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= CALLERS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(caller.to_owned()).or_insert(Bucket {
            left: self.burst,
            at: now,
        });
        bucket.left = self.filled(bucket, now);
        bucket.at = now;
        let admits = bucket.left >= 1.0;
        if admits {
            bucket.left -= 1.0;
        }
        admits
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + since * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_caller_gets_its_burst_and_then_its_rate_whatever_others_do() {
        let limit = Limit::new(10, 3);
        let start = Instant::now();
        let answered =
            |caller: &str, now: Instant| (0..100).take_while(|_| limit.admits(caller, now)).count();
        assert_eq!(answered("ada", start), 3);
        assert_eq!(answered("bob", start), 3);
        assert_eq!(answered("ada", start + Duration::from_millis(200)), 2);
        assert_eq!(answered("ada", start + Duration::from_secs(60)), 3);
    }

    #[test]
    fn what_is_remembered_of_callers_is_bounded() {
        let limit = Limit::new(1, 1);
        let now = Instant::now();
        for caller in 0..CALLERS * 2 {
            limit.admits(&caller.to_string(), now);
        }
        assert!(limit.buckets.lock().unwrap().len() <= CALLERS);
    }
}
