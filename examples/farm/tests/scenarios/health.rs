//! The health checks of the document.

use std::time::Duration;

use farm::event::Catalogue;
use farm::monitor::{Alert, Limits, Monitor};
use farm::publisher::settings;
use posthaste::store::Claim;
use posthaste::{Message, TopicRule};

use crate::scene::*;

// farm-3.3, farm-8.5, F8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_in_processing_for_more_than_five_minutes_is_stuck() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    scene.sow(2).await;
    // A publisher that has taken both, and does not go on.
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    let monitor = Monitor::new(scene.store.clone(), publishing.view.clone());
    scene.has(2, "Processed").await;
    publishing.end().await;
    scene.sow(2).await;
    let claimed = scene.store.claim(&Claim::new(50)).await.unwrap();
    assert_eq!(claimed.events.len(), 2);
    assert_eq!(scene.statuses().await["Processing"], 2);

    let minutes = async |minutes: f64| {
        let sql = "update outbox_messages set updated_at = now() - $1 * interval '1 minute'
                   where status = 'processing' and id = $2";
        let id = claimed.events[0].id;
        scene.client.execute(sql, &[&minutes, &id]).await.unwrap();
        monitor.look().await.unwrap()
    };
    let report = minutes(4.9).await;
    assert_eq!(
        (report.stuck, report.alerts(&Limits::default())),
        (0, vec![])
    );
    let report = minutes(5.1).await;
    assert_eq!(
        (report.stuck, report.alerts(&Limits::default())),
        (1, vec![Alert::Stuck])
    );
}

// farm-8.1, farm-8.2, farm-8.6, farm-8.7, farm-10.3, F7, F8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_and_slowness_are_told() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    let monitor = Monitor::new(scene.store.clone(), publishing.view.clone());
    let nothing = monitor.look().await.unwrap();
    assert_eq!((nothing.failure_rate, nothing.latency), (None, None));

    scene.sow(9).await;
    scene.has(9, "Processed").await;
    let well = monitor.look().await.unwrap();
    assert_eq!(
        (well.pending, well.failed, well.failure_rate),
        (0, 0, Some(0.0))
    );
    assert!(well.latency.is_some());
    assert!(well.alerts(&Limits::default()).is_empty());

    // Each farm decides what is slow: here everything is.
    let strict = Limits {
        latency: Duration::ZERO,
        ..Limits::default()
    };
    assert_eq!(well.alerts(&strict), [Alert::Latency]);

    // One of five fails, for good.
    let unknown = Message::json("farm.field.flooded.v1", &1).unwrap();
    scene
        .store
        .enqueue(&[unknown], TopicRule::Strict)
        .await
        .unwrap();
    scene.has(1, "Failed").await;
    scene.sow(4).await;
    scene.has(13, "Processed").await;
    let ill = monitor.look().await.unwrap();
    assert_eq!((ill.failed, ill.failure_rate), (1, Some(20.0)));
    assert_eq!(
        ill.alerts(&Limits::default()),
        [Alert::Failed, Alert::FailureRate]
    );

    // Failures of long ago are no rate of now.
    scene.sow(1).await;
    scene.has(14, "Processed").await;
    let later = monitor.look().await.unwrap();
    assert_eq!(later.failure_rate, Some(0.0));
    assert_eq!(later.alerts(&Limits::default()), [Alert::Failed]);
    publishing.end().await;
}

// farm-9.1, F8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_down_is_told() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    // Nobody listens there.
    let nowhere = "amqp://guest:guest@127.0.0.1:1/%2f";
    let publishing = scene.publish(nowhere, Catalogue::new(), settings()).await;
    let monitor = Monitor::new(scene.store.clone(), publishing.view.clone());
    scene.sow(1).await;
    eventually("the outage is told", async || {
        let report = monitor.look().await.unwrap();
        report.alerts(&Limits::default()) == [Alert::Outage]
    })
    .await;
    publishing.end().await;
    assert_eq!(scene.statuses().await["Pending"], 1);
}
