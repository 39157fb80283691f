//! Failure scenarios 1 and 3: the broker is down; the network is silent.

use std::time::Duration;

use farm::event::Catalogue;
use farm::publisher::settings;
use posthaste::store::Ending;
use posthaste::{DeadReason, Status};
use posthaste_relay::{Retry, Settings};
use posthaste_testkit::server::Proxy;

use crate::scene::*;

// farm-0.1, farm-6.2, farm-9.1, farm-9.2, farm-9.3, farm-11.6, F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_broker_is_down_events_stay_pending_and_flow_when_it_is_back() {
    let broker = broker_alone().await;
    let mut scene = Scene::new(&broker).await;
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    let mut events = scene.sow(10).await;
    scene.has(10, "Processed").await;
    tokio::task::block_in_place(|| broker.stop_broker()).unwrap();

    // The farm works on. What it tells waits, and has failed no attempt.
    events.extend(scene.sow(20).await);
    eventually("the outage is noticed", async || {
        let standing = publishing.view.look().unwrap();
        standing.destinations[0].outage.is_some()
    })
    .await;
    let retries = r#"select sum("RetryCount")::bigint from "OutboxMessage""#;
    assert_eq!(scene.count(retries).await, 0);
    assert_eq!(scene.statuses().await.get("Failed"), None);
    scene.has(20, "Pending").await;

    tokio::task::block_in_place(|| broker.start_broker()).unwrap();
    scene.has(30, "Processed").await;
    publishing.end().await;
    let mut arrived: Vec<_> = scene
        .arrived(&broker)
        .await
        .iter()
        .map(|it| it.id)
        .collect();
    arrived.sort();
    arrived.dedup();
    events.sort();
    assert_eq!(arrived, events);
}

/// The delays of the document are not what every test is about.
fn impatient() -> Settings {
    Settings {
        dispatch_timeout: Duration::from_secs(2),
        retry: Retry::Fixed {
            delay: Duration::from_millis(300),
        },
        ..settings()
    }
}

// farm-1.7, farm-3.6, farm-4.5, farm-4.6, farm-5.2, farm-9.6, farm-11.2, farm-11.3, F3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_stays_silent_costs_an_event_its_three_attempts() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let proxy = Proxy::start(broker.port()).unwrap();
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port());
    // With the figures of the document: three attempts of five seconds, ten seconds apart.
    let publishing = scene.publish(&url, Catalogue::new(), settings()).await;
    scene.sow(1).await;
    scene.has(1, "Processed").await;
    proxy.hole();
    // It takes a while, and nothing is heard of the broker: others may have it.
    drop(broker);
    let lost = scene.sow(1).await[0];
    // Failed once: pending again, with one retry counted.
    eventually("the first attempt has failed", async || {
        let event = scene.event(lost).await;
        event.attempts == 1 && event.status == Status::Pending && event.last_error.is_some()
    })
    .await;
    scene.has(1, "Failed").await;
    // Attempts failed, one by one: nobody was held to be down.
    let standing = publishing.view.look().unwrap();
    assert!(standing.destinations[0].outage.is_none());
    publishing.end().await;
    let event = scene.event(lost).await;
    assert_eq!(
        (event.attempts, event.dead_reason),
        (3, Some(DeadReason::Exhausted))
    );
    let error = event.last_error.unwrap();
    assert!(error.contains("timed out"), "{error}");
    let attempts = scene.store.history(lost).await.unwrap();
    assert_eq!(attempts.len(), 3);
    for pair in attempts.windows(2) {
        let waited = pair[1]
            .claimed_at
            .unwrap()
            .duration_since(pair[0].claimed_at.unwrap());
        assert!(waited.unwrap() >= Duration::from_secs(10), "{pair:?}");
    }
    assert!(
        attempts
            .iter()
            .all(|attempt| attempt.ending == Ending::TimedOut)
    );
    let row = r#"select "RetryCount"::bigint from "OutboxMessage" where "Status" = 'Failed'"#;
    assert_eq!(scene.count(row).await, 3);
}

// farm-6.1, farm-6.5, farm-9.7, farm-11.2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_was_silent_is_used_again_by_the_next_attempt() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let proxy = Proxy::start(broker.port()).unwrap();
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", proxy.port());
    let publishing = scene.publish(&url, Catalogue::new(), impatient()).await;
    scene.sow(1).await;
    scene.has(1, "Processed").await;
    proxy.hole();
    let event = scene.sow(1).await[0];
    eventually("the first attempt has failed", async || {
        scene.event(event).await.last_error.is_some()
    })
    .await;
    proxy.heal();
    scene.has(2, "Processed").await;
    publishing.end().await;
    assert!(scene.event(event).await.attempts >= 2);
    // What was held up arrives as well: more than once, with one id.
    let arrived = scene.arrived(&broker).await;
    let times = arrived.iter().filter(|message| message.id == event).count();
    assert!(times >= 2, "{arrived:?}");
}
