//! Order: from an outbox in PostgreSQL, through a relay that orders by key, to a server that breaks, or whose network
//! does. The events of a key arrive one after the other all the same, and none is lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::store::{OnFailure, Ordering};
use posthaste::{Event, Message};
use posthaste_relay::sink::{Outcome, Sink};
use posthaste_relay::{Relay, Retry};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::flow::until_settled;
use super::{Arrived, TOPIC};
use crate::outbox::Fresh;
use crate::server::{Fate, Proxy};

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Some servers take long to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// For how long a server or its network says nothing: longer than all that wait for an answer.
const SILENCE: Duration = Duration::from_secs(4);
const KEYS: usize = 20;
/// So many events wait, at most: each key has some.
const WAITING: usize = 400;

/// A destination on a server of its own, behind a network that can break.
#[async_trait]
pub trait Frail: Send + Sync + 'static {
    /// The sink to be tested.
    type Sink: Sink;

    /// A sink that gets there through the network, in the raw envelope, and waits for two seconds at most.
    async fn sink(&self) -> Self::Sink;

    /// All that has arrived, of each key in the order in which it did, read by a client that is not ours.
    async fn arrived(&self) -> Vec<Arrived>;

    /// The network.
    fn network(&self) -> &Proxy;

    /// Lets something happen to the server.
    async fn meet(&self, fate: Fate);
}

/// What breaks.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// The server is killed, and started again.
    Death,
    /// The server halts, and goes on.
    Frost,
    /// Nothing gets through, for a while.
    Hole,
    /// Connections are cut.
    Cuts,
    /// Connections are cut in the middle of answers: the server has what it was sent, and nobody is told.
    LostAnswers,
}

const FAULTS: [Fault; 5] = [
    Fault::Death,
    Fault::Frost,
    Fault::Hole,
    Fault::Cuts,
    Fault::LostAnswers,
];

/// Counts what a sink says is delivered.
struct Counted<S> {
    sink: S,
    delivered: Arc<AtomicUsize>,
}

#[async_trait]
impl<S: Sink> Sink for Counted<S> {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let outcome = self.sink.deliver(event).await;
        if outcome == Outcome::Delivered {
            self.delivered.fetch_add(1, SeqCst);
        }
        outcome
    }
}

// F9 M13 B21
pub async fn every_key_stays_in_order_whatever_breaks<F: Frail>(place: F) {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    let delivered = Arc::new(AtomicUsize::new(0));
    let counted = Counted {
        sink: place.sink().await,
        delivered: delivered.clone(),
    };
    let relay = Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
        .ordering(Ordering::Key(OnFailure::Block))
        .destination("place", counted)
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut sent = HashSet::new();
    for fault in FAULTS {
        let enough = Arc::new(AtomicBool::new(false));
        let producer = produce(fresh, sent.len(), delivered.clone(), enough.clone());
        let producer = tokio::spawn(producer);
        goes_on(&delivered, 200, fault).await;
        befall(&place, fault, &delivered).await;
        goes_on(&delivered, 200, fault).await;
        enough.store(true, SeqCst);
        let (back, ids) = producer.await.unwrap();
        fresh = back;
        sent.extend(ids);
        // Nothing is dead, as nothing but this can settle an event.
        assert_eq!(
            until_settled(&store, PATIENCE).await.len(),
            sent.len(),
            "{fault:?}"
        );
        in_order(&place.arrived().await, &sent, fault);
    }
    let _ = stop.send(());
    task.await.unwrap();
}

/// Enqueues, as long as not too many wait.
async fn produce(
    mut fresh: Fresh,
    before: usize,
    delivered: Arc<AtomicUsize>,
    enough: Arc<AtomicBool>,
) -> (Fresh, Vec<Uuid>) {
    let mut sent = Vec::new();
    while !enough.load(SeqCst) {
        if before + sent.len() < delivered.load(SeqCst) + WAITING {
            let message = |n| {
                let message = Message::json_text(TOPIC, format!("{{\"n\":{n}}}")).unwrap();
                message.ordering_key(format!("key-{}", n % KEYS))
            };
            let messages: Vec<Message> = (0..KEYS * 2).map(message).collect();
            let receipts = fresh.enqueue(&messages).await;
            sent.extend(receipts.iter().map(|receipt| receipt.id));
        }
        tokio::time::sleep(MS(5)).await;
    }
    (fresh, sent)
}

async fn befall(place: &impl Frail, fault: Fault, delivered: &AtomicUsize) {
    let network = place.network();
    match fault {
        Fault::Death => {
            place.meet(Fate::Killed).await;
            tokio::time::sleep(MS(300)).await;
            place.meet(Fate::Started).await;
        }
        Fault::Frost => {
            place.meet(Fate::Frozen).await;
            tokio::time::sleep(SILENCE).await;
            place.meet(Fate::Thawed).await;
        }
        Fault::Hole => {
            network.hole();
            tokio::time::sleep(SILENCE).await;
            // What was held back arrives late, as on a real network.
            network.heal();
        }
        Fault::Cuts => {
            for _ in 0..5 {
                network.cut();
                goes_on(delivered, 40, fault).await;
            }
        }
        Fault::LostAnswers => {
            for bytes in [0, 1, 50, 500, 0] {
                network.cut_after(bytes);
                goes_on(delivered, 40, fault).await;
            }
        }
    }
}

/// Waits until so many more are delivered.
async fn goes_on(delivered: &AtomicUsize, more: usize, fault: Fault) {
    let wanted = delivered.load(SeqCst) + more;
    let deadline = Instant::now() + PATIENCE;
    while delivered.load(SeqCst) < wanted {
        assert!(
            Instant::now() < deadline,
            "{fault:?}: nothing is delivered any more"
        );
        tokio::time::sleep(MS(5)).await;
    }
}

/// All that was sent has arrived, and that of each key in its sequence. What arrives once more is a duplicate, and not
/// out of order: whoever leaves out what it knows sees every key in order.
fn in_order(arrived: &[Arrived], sent: &HashSet<Uuid>, fault: Fault) {
    let mut seen = HashSet::new();
    let mut last: HashMap<&str, i64> = HashMap::new();
    for event in arrived {
        let id = event.id().expect("an id");
        if !seen.insert(id) {
            continue;
        }
        let sequence = event.header("posthaste-sequence").expect("a sequence");
        let sequence: i64 = sequence.parse().unwrap();
        let key = event.header("posthaste-key").expect("a key");
        if let Some(before) = last.insert(key, sequence) {
            assert!(
                before < sequence,
                "{fault:?}: {sequence} of {key} after {before}"
            );
        }
    }
    assert_eq!(last.len(), KEYS, "{fault:?}");
    let lost = sent.difference(&seen).count();
    assert_eq!((lost, seen.len()), (0, sent.len()), "{fault:?}");
}
