//! An endpoint that wants to be left alone: nothing is sent there before, no event but the one that was told so
//! pays for it, and other endpoints do not notice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Response;
use posthaste::{Message, Status, Store};
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::outbox::Fresh;

use crate::endpoint::*;
use crate::flow::{MS, start, until_settled, with_status};

const HELD: &str = "shop.order.placed.v1";
const OTHER: &str = "shop.order.paid.v1";

/// When each POST came.
type Times = Arc<Mutex<Vec<Instant>>>;

fn of_topic(topic: &str, count: usize) -> Vec<Message> {
    let message = |n| Message::json_text(topic, format!("{{\"n\":{n}}}")).unwrap();
    (0..count).map(message).collect()
}

fn wish(code: u16, seconds: u64) -> Answer {
    let answer = Response::builder().status(code);
    let answer = answer.header("Retry-After", seconds.to_string());
    answer.body(http_body_util::Full::default()).unwrap()
}

/// Answers the first POST with a wish, and all others with 204.
async fn busy_once(code: u16, seconds: u64) -> (Endpoint, Times) {
    let times = Times::default();
    let posts = times.clone();
    let endpoint = Endpoint::answering(move |call| {
        if call.method != "POST" {
            return status(204);
        }
        let mut posts = posts.lock().unwrap();
        posts.push(Instant::now());
        match posts.len() {
            1 => wish(code, seconds),
            _ => status(204),
        }
    })
    .await;
    (endpoint, times)
}

/// A relay with two endpoints, of which the first gets one call at a time.
async fn relay(fresh: &Fresh, held: &Endpoint, other: &Endpoint) -> Relay {
    Relay::builder(fresh.store().await)
        .poll_interval(MS(50))
        .retry(Retry::Fixed { delay: MS(50) })
        .destination("held", held.sink())
        .concurrency(1)
        .destination("other", other.sink())
        .route(HELD, "held")
        .route(OTHER, "other")
        .build()
        .unwrap()
}

async fn attempts(store: &impl Store, status: Status, topic: &str) -> Vec<u32> {
    let records = with_status(store, status).await;
    let of_topic = records.iter().filter(|record| record.topic == topic);
    of_topic.map(|record| record.attempts).collect()
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_wants_to_be_left_alone_gets_nothing_while_others_are_served() {
    for code in [429, 503] {
        let mut fresh = Fresh::new().await;
        let (held, posts) = busy_once(code, 600).await;
        let other = Endpoint::willing().await;
        let (stop, task) = start(relay(&fresh, &held, &other).await);
        fresh.enqueue(&of_topic(HELD, 50)).await;
        let deadline = Instant::now() + Duration::from_secs(60);
        while posts.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "no call");
            tokio::time::sleep(MS(20)).await;
        }
        // More for the one that waits, among those for the other.
        for _ in 0..10 {
            fresh.enqueue(&of_topic(HELD, 5)).await;
            fresh.enqueue(&of_topic(OTHER, 20)).await;
        }
        let store = fresh.store().await;
        while attempts(&store, Status::Delivered, OTHER).await.len() < 200 {
            assert!(Instant::now() < deadline, "the other endpoint waits, too");
            tokio::time::sleep(MS(20)).await;
        }
        let _ = stop.send(());
        task.await.unwrap();
        assert_eq!(posts.lock().unwrap().len(), 1, "{code}");
        assert_eq!(
            attempts(&store, Status::Delivered, OTHER).await,
            [1; 200],
            "{code}"
        );
        // The one that was told so has spent an attempt, and no other.
        let mut waiting = attempts(&store, Status::Pending, HELD).await;
        waiting.sort_unstable();
        assert_eq!((waiting.len(), waiting.pop()), (100, Some(1)), "{code}");
        assert!(waiting.iter().all(|spent| *spent == 0), "{waiting:?}");
    }
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_was_left_alone_gets_everything_afterwards() {
    let mut fresh = Fresh::new().await;
    let (held, posts) = busy_once(429, 2).await;
    let other = Endpoint::willing().await;
    let (stop, task) = start(relay(&fresh, &held, &other).await);
    fresh.enqueue(&of_topic(HELD, 100)).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();
    let posts = posts.lock().unwrap().clone();
    assert_eq!(posts.len(), 101);
    let pause = posts[1] - posts[0];
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
    let mut spent = attempts(&store, Status::Delivered, HELD).await;
    spent.sort_unstable();
    assert_eq!((spent.len(), spent.pop()), (100, Some(2)));
    assert!(spent.iter().all(|spent| *spent == 1), "{spent:?}");
}

// F9: a gateway that says so of one request does not speak for the endpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_other_answer_with_a_wish_holds_back_its_event_alone() {
    let mut fresh = Fresh::new().await;
    let (held, posts) = busy_once(500, 600).await;
    let other = Endpoint::willing().await;
    let (stop, task) = start(relay(&fresh, &held, &other).await);
    fresh.enqueue(&of_topic(HELD, 50)).await;
    let store = fresh.store().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while with_status(&store, Status::Delivered).await.len() < 49 {
        assert!(Instant::now() < deadline, "the endpoint is left alone");
        tokio::time::sleep(MS(20)).await;
    }
    let _ = stop.send(());
    task.await.unwrap();
    assert_eq!(posts.lock().unwrap().len(), 50);
    assert_eq!(attempts(&store, Status::Pending, HELD).await, [1]);
}
