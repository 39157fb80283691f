//! A thread with a connection of its own, as SQLite blocks and async callers must not.
//!
//! The one that writes also watches whether others have: the pragma that tells leaves out what its own
//! connection did.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::link::Link;
use crate::store::StoreError;

/// The shortest and the longest pause between two looks at the file.
const BRISK: Duration = Duration::from_millis(1);
const CALM: Duration = Duration::from_millis(20);
/// A pause is this part of how long nothing has changed.
const IDLE_SHARE: u32 = 50;

type Job = Box<dyn FnOnce(&mut Link) + Send>;

/// Ends when it is dropped, after what it was given to do.
pub(super) struct Worker(Sender<Job>);

/// What a thread is about to do, or has done.
pub(super) struct Begun<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Begun<T> {
    pub(super) async fn wait(self) -> Result<T, StoreError> {
        let gone = |_| StoreError::Unavailable("the thread of the connection has ended".into());
        self.0.await.map_err(gone)?
    }
}

/// Who is to be told when somebody else has changed the file.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Weak<Notify>>>);

impl Listeners {
    pub(super) fn add(&self, listener: &Arc<Notify>) {
        let mut listeners = self.0.lock().expect("not poisoned");
        listeners.push(Arc::downgrade(listener));
    }

    pub(super) fn wake(&self) {
        let listeners = self.0.lock().expect("not poisoned");
        for listener in listeners.iter().filter_map(Weak::upgrade) {
            listener.notify_one();
        }
    }

    fn is_empty(&self) -> bool {
        let mut listeners = self.0.lock().expect("not poisoned");
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.is_empty()
    }
}

impl Worker {
    /// Starts one that does what it is given, and nothing else.
    pub(super) fn start(link: Link) -> Result<Self, StoreError> {
        Self::spawn(move |jobs| {
            let mut link = link;
            for job in jobs {
                job(&mut link);
            }
        })
    }

    /// Starts one that also tells listeners when others have changed the file.
    pub(super) fn start_watching(
        link: Link,
        listeners: Arc<Listeners>,
    ) -> Result<Self, StoreError> {
        Self::spawn(move |jobs| watch(link, &jobs, &listeners))
    }

    fn spawn(body: impl FnOnce(Receiver<Job>) + Send + 'static) -> Result<Self, StoreError> {
        let (sender, receiver) = channel();
        std::thread::Builder::new()
            .name("posthaste-sqlite".to_owned())
            .spawn(move || body(receiver))
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        Ok(Self(sender))
    }

    /// Does something on the thread. It is done even if nobody waits for it any more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Link) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.begin(work).wait().await
    }

    /// The same without waiting.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Link) -> Result<T, StoreError> + Send + 'static,
    ) -> Begun<T> {
        let (answer, answered) = oneshot::channel();
        let job = move |link: &mut Link| drop(answer.send(survived(link, work)));
        // Of a thread that has ended, whoever waits is told.
        let _ = self.0.send(Box::new(job));
        Begun(answered)
    }

    /// Has it look whether there is anybody to tell.
    pub(super) fn rouse(&self) {
        let _ = self.0.send(Box::new(|_| {}));
    }
}

/// Does something without taking the thread along, should it panic.
fn survived<T>(
    link: &mut Link,
    work: impl FnOnce(&mut Link) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut *link)));
    done.unwrap_or_else(|_| {
        link.close();
        Err(StoreError::Unavailable(
            "a panic on the thread of the connection, which is told where this process writes its errors: please report it"
                .into(),
        ))
    })
}

fn watch(mut link: Link, jobs: &Receiver<Job>, listeners: &Listeners) {
    let mut changed = Instant::now();
    loop {
        let job = match listeners.is_empty() {
            true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => jobs.recv_timeout((changed.elapsed() / IDLE_SHARE).clamp(BRISK, CALM)),
        };
        match job {
            Ok(job) => job(&mut link),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if link.is_changed_by_others() {
            changed = Instant::now();
            listeners.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Role;
    use super::*;

    #[tokio::test]
    async fn a_panic_costs_neither_the_thread_nor_what_comes_after() {
        let link = |role| Link::new("/nowhere.db".into(), role);
        for worker in [
            Worker::start(link(Role::Reads)).unwrap(),
            Worker::start_watching(link(Role::Writes), Arc::default()).unwrap(),
        ] {
            let begun = worker.begin::<()>(|_| panic!("a defect of a test"));
            let after = worker.run(|_| Ok(42)).await;
            assert_eq!(begun.wait().await.unwrap_err().code(), "store.unavailable");
            assert_eq!(after.unwrap(), 42);
        }
    }
}
