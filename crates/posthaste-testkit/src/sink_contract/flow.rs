//! Flow: from an outbox in PostgreSQL, through a relay, to the server.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use posthaste::store::{Filter, Store};
use posthaste::{Message, Record, Status};
use posthaste_relay::{Envelope, Relay};
use tokio::sync::oneshot;

use super::{Arrived, PATIENCE, Place, TOPIC, arrived};
use crate::outbox::Fresh;

const MS: fn(u64) -> Duration = Duration::from_millis;
const ROUNDS: usize = 4;
const EACH: usize = 250;

// F9 B21: with one attempt in all, an outage that cost one would show at once.
pub async fn an_outage_loses_nothing_and_costs_no_attempt<P: Place>(place: P) {
    let mut fresh = Fresh::new().await;
    let relay = Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .max_attempts(1)
        .destination("place", place.sink(Envelope::raw()).await)
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut ids = HashSet::new();
    for round in 0..ROUNDS {
        let messages: Vec<Message> = (0..EACH).map(|n| numbered(round * EACH + n)).collect();
        let receipts = fresh.enqueue(&messages).await;
        ids.extend(receipts.iter().map(|receipt| receipt.id));
        tokio::time::sleep(MS(50)).await;
        match round % 2 {
            0 => place.stop().await,
            _ => place.start().await,
        }
    }
    let store = fresh.store().await;
    let delivered = until_settled(&store, PATIENCE).await;
    let _ = stop.send(());
    task.await.unwrap();
    assert_eq!(delivered.len(), ids.len());
    assert!(delivered.iter().all(|record| record.attempts == 1));
    let arrived = arrived(&place, ids.len()).await;
    let arrived: HashSet<_> = arrived.iter().filter_map(Arrived::id).collect();
    assert_eq!(arrived, ids);
}

fn numbered(n: usize) -> Message {
    Message::json_text(TOPIC, format!("{{\"n\":{n}}}")).unwrap()
}

/// What was delivered, once nothing is left to do.
pub(super) async fn until_settled(store: &impl Store, patience: Duration) -> Vec<Record> {
    let deadline = Instant::now() + patience;
    loop {
        let stats = store.stats().await.unwrap();
        if stats.pending + stats.processing == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        tokio::time::sleep(MS(20)).await;
    }
    let filter = Filter {
        status: vec![Status::Delivered],
        ..Filter::default()
    };
    store.list(&filter, 100_000).await.unwrap()
}
