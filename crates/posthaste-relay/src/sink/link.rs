//! One connection that all deliveries of a sink share: made when one is needed, and made anew once it
//! broke. Knows no protocol.

use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A connection of some protocol.
pub(crate) trait Link {
    /// Whether it is still there, as far as is known.
    fn is_alive(&self) -> bool;
}

/// Holds the connection, if there is one.
#[derive(Debug)]
pub(crate) struct Shared<L> {
    link: Mutex<Option<Arc<L>>>,
    /// Held by whoever connects. When the last try failed, and why.
    failed: tokio::sync::Mutex<Option<(Instant, String)>>,
}

impl<L> Default for Shared<L> {
    fn default() -> Self {
        Self {
            link: Mutex::new(None),
            failed: tokio::sync::Mutex::new(None),
        }
    }
}

impl<L: Link> Shared<L> {
    /// With a connection that is there already.
    #[cfg(feature = "http")]
    pub(crate) fn holding(link: L) -> Self {
        Self {
            link: Mutex::new(Some(Arc::new(link))),
            ..Self::default()
        }
    }

    /// The connection, which is made by `connect` if there is none. Of many that ask at the same time,
    /// one connects, and the others wait for what becomes of it.
    pub(crate) async fn get<F>(&self, connect: impl FnOnce() -> F) -> Result<Arc<L>, String>
    where
        F: Future<Output = Result<L, String>>,
    {
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let asked = Instant::now();
        let mut failed = self.failed.lock().await;
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        // Whoever waited for a try that failed starts no other, else thousands would, one by one.
        if let Some((_, why)) = failed.as_ref().filter(|(when, _)| *when >= asked) {
            return Err(why.clone());
        }
        match connect().await {
            Ok(link) => {
                let link = Arc::new(link);
                *self.link.lock().expect("not poisoned") = Some(link.clone());
                Ok(link)
            }
            Err(why) => {
                *failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// Lets go of this connection: the next delivery makes another.
    pub(crate) fn forget(&self, link: &Arc<L>) {
        let mut held = self.link.lock().expect("not poisoned");
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, link)) {
            *held = None;
        }
    }

    fn alive(&self) -> Option<Arc<L>> {
        let held = self.link.lock().expect("not poisoned");
        held.as_ref().filter(|link| link.is_alive()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    struct Wire(AtomicBool);

    impl Link for Wire {
        fn is_alive(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }

    async fn dial(tries: &AtomicUsize, works: bool) -> Result<Wire, String> {
        tries.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        match works {
            true => Ok(Wire(AtomicBool::new(true))),
            false => Err("refused".to_owned()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_that_ask_at_once_connect_once_whether_it_works_or_not() {
        for works in [false, true] {
            let (shared, tries) = (Shared::default(), AtomicUsize::new(0));
            let all = (0..1000).map(|_| shared.get(|| dial(&tries, works)));
            let all = futures_util::future::join_all(all).await;
            assert!(all.iter().all(|one| one.is_ok() == works));
            assert_eq!(tries.load(Ordering::SeqCst), 1);
            // What failed is tried again by whoever asks later; what is there is used.
            assert!(shared.get(|| dial(&tries, true)).await.is_ok());
            assert_eq!(tries.load(Ordering::SeqCst), if works { 1 } else { 2 });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_broke_or_is_let_go_is_replaced() {
        let (shared, tries) = (Shared::default(), AtomicUsize::new(0));
        let first = shared.get(|| dial(&tries, true)).await.ok().unwrap();
        first.0.store(false, Ordering::SeqCst);
        let second = shared.get(|| dial(&tries, true)).await.ok().unwrap();
        shared.forget(&first);
        let same = shared.get(|| dial(&tries, true)).await.ok().unwrap();
        assert!(Arc::ptr_eq(&second, &same));
        shared.forget(&second);
        let third = shared.get(|| dial(&tries, true)).await.ok().unwrap();
        assert!(!Arc::ptr_eq(&second, &third));
        assert_eq!(tries.load(Ordering::SeqCst), 3);
    }

    // M11: whoever connects may be given up at its deadline.
    #[tokio::test(start_paused = true)]
    async fn one_that_is_given_up_while_it_connects_leaves_the_others_to_connect() {
        let (shared, tries) = (Shared::default(), AtomicUsize::new(0));
        let short = tokio::time::timeout(Duration::from_secs(1), shared.get(|| dial(&tries, true)));
        let (given_up, other) = tokio::join!(short, shared.get(|| dial(&tries, true)));
        assert!(given_up.is_err() && other.is_ok());
    }
}
