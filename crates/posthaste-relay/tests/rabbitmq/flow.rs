//! From the outbox to RabbitMQ, whatever happens to the server.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use posthaste::store::{Filter, Store};
use posthaste::{Message, Status};
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::outbox::Fresh;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::place::*;

fn messages(count: usize) -> Vec<Message> {
    let message = |n| Message::json_text(TOPIC, format!("{{\"n\":{n}}}")).unwrap();
    (0..count).map(message).collect()
}

// F9 B21 F5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_down_under_load_loses_nothing_and_costs_no_attempt() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let mut fresh = Fresh::new().await;
    // With one attempt in all, an outage that cost one would show at once.
    let relay = Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
        .destination("rabbitmq", place.sink())
        .max_attempts(1)
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));
    let mut ids = HashSet::new();
    for round in 0..4 {
        let receipts = fresh.enqueue(&messages(500)).await;
        ids.extend(receipts.iter().map(|receipt| receipt.id));
        tokio::time::sleep(MS(50)).await;
        match round % 2 {
            0 => server.stop_broker().unwrap(),
            _ => server.start_broker().unwrap(),
        }
    }
    let store = fresh.store().await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = store.stats().await.unwrap();
        if stats.pending + stats.processing == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let _ = stop.send(());
    relay.await.unwrap();
    let arrived: HashSet<Uuid> = place.ids().await.into_iter().collect();
    assert_eq!(arrived, ids);
    let filter = Filter {
        status: vec![Status::Delivered],
        ..Filter::default()
    };
    let delivered = store.list(&filter, 100_000).await.unwrap();
    assert_eq!(delivered.len(), 2000);
    assert!(delivered.iter().all(|record| record.attempts == 1));
}
