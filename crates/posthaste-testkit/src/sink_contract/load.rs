//! Load: deliveries that go on while a server or its network breaks, and the books about them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use posthaste::Event;
use posthaste_relay::sink::{Outcome, Sink};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Arrived, PATIENCE, deliver, events, message};

const PRODUCERS: usize = 32;

/// Deliveries at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    delivered: Arc<AtomicUsize>,
    producers: JoinSet<Books>,
}

/// What became of them.
#[derive(Debug, Default)]
pub struct Books {
    /// The events that the sink says are delivered.
    pub acknowledged: HashSet<Uuid>,
    /// What went wrong, as a relay would see it.
    pub failures: Vec<Outcome>,
}

impl Load {
    /// Delivers without pause, each event until it is delivered, as a relay would.
    pub fn start(sink: Arc<impl Sink>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let delivered = Arc::new(AtomicUsize::new(0));
        let mut producers = JoinSet::new();
        for _ in 0..PRODUCERS {
            producers.spawn(produce(sink.clone(), stop.clone(), delivered.clone()));
        }
        Self {
            stop,
            delivered,
            producers,
        }
    }

    /// Waits until so many more are delivered.
    pub async fn goes_on(&self, more: usize) {
        let wanted = self.delivered.load(Ordering::SeqCst) + more;
        let deadline = Instant::now() + PATIENCE;
        while self.delivered.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < deadline, "nothing is delivered any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it, once every event is delivered.
    pub async fn end(mut self) -> Books {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Books::default();
        while let Some(books) = self.producers.join_next().await {
            let books = books.unwrap();
            all.acknowledged.extend(books.acknowledged);
            all.failures.extend(books.failures);
        }
        all
    }
}

impl Books {
    /// All that was acknowledged has arrived, and no failure was called the fault of an event.
    pub fn balance(&self, arrived: &[Arrived]) {
        let ids: HashSet<Uuid> = arrived.iter().filter_map(Arrived::id).collect();
        let lost = self.acknowledged.iter().filter(|id| !ids.contains(id));
        assert_eq!(lost.count(), 0, "of {}", self.acknowledged.len());
        let blamed = |outcome: &&Outcome| !matches!(outcome, Outcome::Unavailable(_));
        let blamed: Vec<&Outcome> = self.failures.iter().filter(blamed).collect();
        assert!(blamed.is_empty(), "{} {:?}", blamed.len(), blamed.first());
    }
}

async fn produce(
    sink: Arc<impl Sink>,
    stop: Arc<AtomicBool>,
    delivered: Arc<AtomicUsize>,
) -> Books {
    let mut books = Books::default();
    while !stop.load(Ordering::SeqCst) {
        let event = events(&[message()]).await.remove(0);
        until_delivered(&*sink, &event, &mut books.failures).await;
        books.acknowledged.insert(event.id);
        delivered.fetch_add(1, Ordering::SeqCst);
    }
    books
}

/// Tries until it is delivered, and notes what came before.
pub async fn until_delivered(sink: &impl Sink, event: &Arc<Event>, failures: &mut Vec<Outcome>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match deliver(sink, event).await {
            Outcome::Delivered => return,
            other => {
                assert!(Instant::now() < deadline, "{other:?}");
                failures.push(other);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
