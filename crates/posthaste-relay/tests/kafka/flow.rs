//! From the outbox to Kafka, whatever happens to the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use posthaste::store::{Filter, OnFailure, Ordering, Store};
use posthaste::{Message, Status};
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::outbox::Fresh;
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::cluster::*;

const PATIENCE: Duration = Duration::from_secs(120);
const MS: fn(u64) -> Duration = Duration::from_millis;
const KEYS: usize = 20;

fn messages(round: usize, count: usize) -> Vec<Message> {
    let message = |n| {
        let payload = format!("{{\"round\":{round},\"n\":{n}}}");
        let message = Message::json_text(TOPIC, payload).unwrap();
        message.ordering_key(format!("key-{}", n % KEYS))
    };
    (0..count).map(message).collect()
}

async fn until_settled(store: &impl Store) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = store.stats().await.unwrap();
        if stats.pending + stats.processing == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        tokio::time::sleep(MS(50)).await;
    }
}

// F9 K3 B21 M13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_down_costs_no_attempt_and_every_key_stays_in_order() {
    let mut server = mortal(1).await;
    let brokers = server.brokers();
    let topic = fresh_name();
    create(&brokers, &topic, 4, &[]).await;
    let mut fresh = Fresh::new().await;
    // With one attempt in all, an outage that cost one would show at once.
    let relay = Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
        .ordering(Ordering::Key(OnFailure::Block))
        .max_attempts(1)
        .destination("kafka", sink(&brokers, &topic).build().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(relay.build().unwrap().run(async {
        let _ = stopped.await;
    }));
    let mut sent = Vec::new();
    for round in 0..4 {
        sent.extend(fresh.enqueue(&messages(round, 200)).await);
        tokio::time::sleep(MS(100)).await;
        match round {
            0 => block_in_place(|| server.stop()).unwrap(),
            2 => block_in_place(|| server.kill()).unwrap(),
            _ => block_in_place(|| server.start_again()).unwrap(),
        }
    }
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();

    let filter = Filter {
        status: vec![Status::Delivered],
        ..Filter::default()
    };
    let delivered = store.list(&filter, 10_000).await.unwrap();
    assert_eq!(delivered.len(), sent.len());
    assert!(delivered.iter().all(|record| record.attempts == 1));
    let mut seen = HashSet::new();
    let mut last: HashMap<Vec<u8>, i64> = HashMap::new();
    for record in read(&brokers, &topic).await {
        // A second time is a duplicate, and not out of order.
        if !seen.insert(record.id()) {
            continue;
        }
        let sequence = record.headers["posthaste-sequence"].parse().unwrap();
        if let Some(before) = last.insert(record.key.unwrap(), sequence) {
            assert!(before < sequence, "{sequence} after {before}");
        }
    }
    let sent: HashSet<_> = sent.iter().map(|receipt| receipt.id.to_string()).collect();
    assert_eq!(seen, sent);
}

// F9: repeated disconnects caused by one message isolate that message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_every_connection_dies_alone() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let mut fresh = Fresh::new().await;
    fresh.outbox = fresh.outbox.clone().payload_limit(2 * REQUEST_LIMIT);
    let mut all = messages(0, 100);
    // The server closes the connection on such a request, without a word.
    all[50] = Message::bytes(TOPIC, "text/plain", vec![b'x'; REQUEST_LIMIT + 1]);
    let sent = fresh.enqueue(&all).await;
    let relay = Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .max_attempts(1)
        .destination("kafka", sink(&brokers, &topic).build().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(relay.build().unwrap().run(async {
        let _ = stopped.await;
    }));
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();
    let with = async |status| {
        let filter = Filter {
            status: vec![status],
            ..Filter::default()
        };
        store.list(&filter, 10_000).await.unwrap()
    };
    let dead = with(Status::Dead).await;
    assert_eq!(dead.len(), 1, "{:?}", dead.first());
    assert_eq!(dead[0].id, sent[50].id);
    let delivered = with(Status::Delivered).await;
    assert_eq!(delivered.len(), 99);
    assert!(delivered.iter().all(|record| record.attempts == 1));
}
