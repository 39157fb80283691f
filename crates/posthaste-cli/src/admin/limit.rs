//! How often one caller is answered: a bucket for each, which fills at a steady rate. And how much
//! of what there is only so much of one of them may hold.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
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

/// Places that last for a while, such as connections: each holder gets so many at the same time.
pub(super) struct Places<K> {
    each: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

/// One of them, until it is dropped.
pub(super) struct Place<K: Hash + Eq> {
    holder: K,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Clone> Places<K> {
    pub(super) fn new(each: usize) -> Self {
        let held = Arc::default();
        Self { each, held }
    }

    /// A place, unless this holder has all that it gets.
    pub(super) fn take(&self, holder: K) -> Option<Place<K>> {
        let mut held = self.held.lock().expect("not poisoned");
        let has = held.get(&holder).copied().unwrap_or(0);
        if has >= self.each {
            return None;
        }
        held.insert(holder.clone(), has + 1);
        let held = self.held.clone();
        Some(Place { holder, held })
    }
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut held = self.held.lock().expect("not poisoned");
        if let Some(has) = held.get_mut(&self.holder) {
            *has -= 1;
            if *has == 0 {
                held.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_holder_gets_its_places_back_and_takes_none_of_others() {
        let places = Places::new(2);
        let held: Vec<_> = (0..3).map(|_| places.take("ada")).collect();
        assert_eq!(held.iter().flatten().count(), 2);
        assert!(places.take("bob").is_some());
        drop(held);
        assert!(places.held.lock().unwrap().is_empty());
        assert!(places.take("ada").is_some());
    }

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
