//! What the tests of the relay share: a sink that remembers, a relay that runs, and patience.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::store::{Filter, Store};
use posthaste::{Event, Message, Record, Status};
use posthaste_relay::sink::{Outcome, Sink};
use posthaste_relay::{Builder, Relay, Retry};
use posthaste_testkit::outbox::Fresh;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) const TOPIC: &str = "shop.order.placed.v1";
pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;

/// Long enough for a busy machine; a test that works never waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

type Answer = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A sink that remembers what it was given, and answers as the test says.
pub(crate) struct Witness {
    answer: Box<dyn Fn(Arc<Event>) -> Answer + Send + Sync>,
    seen: Mutex<Vec<Arc<Event>>>,
    delivered: Mutex<Vec<Arc<Event>>>,
    now: AtomicUsize,
    /// How many deliveries were under way when each one started, itself included.
    at_once: Mutex<Vec<usize>>,
}

impl Witness {
    /// Answers each event with what the function gives.
    pub(crate) fn new<F, A>(answer: F) -> Arc<Self>
    where
        F: Fn(Arc<Event>) -> A + Send + Sync + 'static,
        A: Future<Output = Outcome> + Send + 'static,
    {
        Arc::new(Self {
            answer: Box::new(move |event| Box::pin(answer(event))),
            seen: Mutex::default(),
            delivered: Mutex::default(),
            now: AtomicUsize::new(0),
            at_once: Mutex::default(),
        })
    }

    /// Takes everything.
    pub(crate) fn willing() -> Arc<Self> {
        Self::new(|_| async { Outcome::Delivered })
    }

    /// Takes everything, once it is told to go on.
    pub(crate) fn held() -> (watch::Sender<bool>, Arc<Self>) {
        let (go, until) = watch::channel(false);
        let witness = Self::new(move |_| {
            let mut until = until.clone();
            async move {
                let _ = until.wait_for(|go| *go).await;
                Outcome::Delivered
            }
        });
        (go, witness)
    }

    /// Every event that it was asked to deliver, in order, as often as it was asked.
    pub(crate) fn seen(&self) -> Vec<Arc<Event>> {
        self.seen.lock().unwrap().clone()
    }

    /// Every event that it said to have delivered, in order.
    pub(crate) fn delivered(&self) -> Vec<Arc<Event>> {
        self.delivered.lock().unwrap().clone()
    }

    pub(crate) fn at_once(&self) -> Vec<usize> {
        self.at_once.lock().unwrap().clone()
    }

    pub(crate) async fn until_delivered(&self, count: usize) {
        eventually(&format!("{count} deliveries"), async || {
            self.delivered.lock().unwrap().len() >= count
        })
        .await;
    }
}

#[async_trait]
impl Sink for Witness {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let leaves = Leaves(&self.now);
        let at_once = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.at_once.lock().unwrap().push(at_once);
        self.seen.lock().unwrap().push(event.clone());
        let outcome = (self.answer)(event.clone()).await;
        if outcome == Outcome::Delivered {
            self.delivered.lock().unwrap().push(event);
        }
        drop(leaves);
        outcome
    }
}

/// Counts a delivery out, also when it panics or is given up.
struct Leaves<'c>(&'c AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A relay at work in this process.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(relay: Relay) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    /// Stops it in order, and waits until it has.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the relay stops in time")
            .expect("the relay does not panic");
    }
}

/// A relay on this outbox that looks often and tries again soon.
pub(crate) async fn brisk(fresh: &Fresh) -> Builder {
    Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
}

/// A brisk relay with one destination, at work.
pub(crate) async fn relay_to(fresh: &Fresh, sink: impl Sink) -> Running {
    let builder = brisk(fresh).await.destination("witness", sink);
    Running::start(builder.build().unwrap())
}

/// Asks until the answer is yes.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(MS(10)).await;
    }
}

/// This many small messages.
pub(crate) fn messages(count: usize) -> Vec<Message> {
    (0..count)
        .map(|n| Message::json_text(TOPIC, format!("{{\"n\":{n}}}")).unwrap())
        .collect()
}

pub(crate) fn message(topic: &str) -> Message {
    Message::json_text(topic, "{\"n\":1}").unwrap()
}

/// The event as an operator sees it.
pub(crate) async fn record(store: &impl Store, id: Uuid) -> Record {
    store.show(id).await.unwrap().expect("the event is there")
}

pub(crate) async fn with_status(store: &impl Store, status: Status) -> Vec<Record> {
    let filter = Filter {
        status: vec![status],
        ..Filter::default()
    };
    store.list(&filter, 100_000).await.unwrap()
}

/// Waits until nothing is live any more.
pub(crate) async fn until_settled(store: &impl Store) {
    eventually("everything is settled", async || {
        let stats = store.stats().await.unwrap();
        stats.pending + stats.processing == 0
    })
    .await;
}
