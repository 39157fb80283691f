//! From the outbox to a webhook, whatever happens to the webhook's server.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use posthaste::store::{Filter, Store};
use posthaste::{Message, Record, Status};
use posthaste_relay::sink::Http;
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::outbox::Fresh;
use tokio::sync::oneshot;

use crate::endpoint::*;

const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;

pub(crate) fn messages(count: usize) -> Vec<Message> {
    let message = |n| Message::json_text("shop.order.placed.v1", format!("{{\"n\":{n}}}")).unwrap();
    (0..count).map(message).collect()
}

pub(crate) async fn with_status(store: &impl Store, status: Status) -> Vec<Record> {
    let filter = Filter {
        status: vec![status],
        ..Filter::default()
    };
    store.list(&filter, 100_000).await.unwrap()
}

pub(crate) async fn until_settled(store: &impl Store) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = store.stats().await.unwrap();
        if stats.pending + stats.processing == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        tokio::time::sleep(MS(20)).await;
    }
}

pub(crate) async fn builder(fresh: &Fresh, sink: Http) -> posthaste_relay::Builder {
    Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
        .destination("webhook", sink)
}

/// A relay at work until it is told to stop.
pub(crate) fn start(relay: Relay) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(relay.run(async {
        let _ = stopped.await;
    }));
    (stop, task)
}

// F9 B21
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_down_under_load_loses_nothing_and_costs_no_attempt() {
    let mut fresh = Fresh::new().await;
    let endpoint = Endpoint::new(|_| (MS(5), status(204)), None).await;
    let sink = endpoint
        .builder()
        .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    // With one attempt in all, an outage that cost one would show at once.
    let relay = builder(&fresh, sink.build().unwrap())
        .await
        .concurrency(32)
        .max_attempts(1);
    let (stop, task) = start(relay.build().unwrap());
    let mut ids = HashSet::new();
    for round in 0..6 {
        let receipts = fresh.enqueue(&messages(200)).await;
        ids.extend(receipts.iter().map(|receipt| receipt.id.to_string()));
        tokio::time::sleep(MS(100)).await;
        match round % 2 {
            0 => endpoint.stop().await,
            _ => endpoint.start().await,
        }
    }
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();
    let calls = endpoint.calls();
    let arrived: HashSet<_> = calls
        .iter()
        .map(|call| call.header("ce-id").unwrap().to_owned())
        .collect();
    assert_eq!(arrived, ids);
    let delivered = with_status(&store, Status::Delivered).await;
    assert_eq!(delivered.len(), 1200);
    assert!(delivered.iter().all(|record| record.attempts == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_gets_no_more_calls_at_once_than_it_should() {
    let mut fresh = Fresh::new().await;
    let endpoint = Endpoint::new(|_| (MS(20), status(204)), None).await;
    let relay = builder(&fresh, endpoint.sink()).await.concurrency(7);
    let (stop, task) = start(relay.build().unwrap());
    fresh.enqueue(&messages(100)).await;
    until_settled(&fresh.store().await).await;
    let _ = stop.send(());
    task.await.unwrap();
    assert_eq!((endpoint.calls().len(), endpoint.most_at_once()), (100, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_to_be_left_alone_outweighs_the_retry_policy_up_to_an_hour() {
    for (wish, expected) in [("600", 600), ("999999999", 3600)] {
        let mut fresh = Fresh::new().await;
        let endpoint = Endpoint::answering(move |_| {
            let answer = hyper::Response::builder()
                .status(429)
                .header("Retry-After", wish);
            answer.body(http_body_util::Full::default()).unwrap()
        })
        .await;
        let (stop, task) = start(builder(&fresh, endpoint.sink()).await.build().unwrap());
        let id = fresh.enqueue(&messages(1)).await[0].id;
        let store = fresh.store().await;
        let deadline = Instant::now() + PATIENCE;
        let record = loop {
            let record = store.show(id).await.unwrap().unwrap();
            if record.last_error.is_some() {
                break record;
            }
            assert!(Instant::now() < deadline);
            tokio::time::sleep(MS(20)).await;
        };
        let _ = stop.send(());
        task.await.unwrap();
        let wait = record
            .next_attempt_at
            .duration_since(record.updated_at)
            .unwrap();
        assert!(wait.as_secs().abs_diff(expected) <= 2, "{wait:?}");
        assert_eq!((record.status, record.attempts), (Status::Pending, 1));
        assert!(record.last_error.unwrap().contains("429"));
    }
}
