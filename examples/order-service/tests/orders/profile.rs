//! The settings in code are those of the profile `order-service`, which `posthaste.toml` names.

use std::collections::BTreeMap;

use order_service::publisher::settings;
use posthaste_relay::Retry;
use serde_json::Value;

use crate::scene::*;

// order-service-4.1, order-service-4.2, order-service-6.1, order-service-6.2, order-service-7.3, K4, K7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_are_those_of_the_document_in_code_and_in_the_configuration() {
    let scene = Scene::new().await;
    scene.posthaste(&["config", "check"]);
    let told = scene.posthaste(&["config", "explain", "--json"]);
    let told: Vec<Value> = serde_json::from_str(&told).unwrap();
    let profile: BTreeMap<&str, &str> = told
        .iter()
        .filter(|row| {
            row["origin"]
                .as_str()
                .unwrap()
                .starts_with("profile order-service")
        })
        .map(|row| (row["key"].as_str().unwrap(), row["value"].as_str().unwrap()))
        .collect();
    let settings = settings();
    let Retry::Exponential { base, max } = settings.retry else {
        panic!("{:?}", settings.retry);
    };
    let days = settings.cleaning.retention.as_secs() / 86_400;
    let expected = [
        ("outbox.0.relay.batch_size", settings.batch_size.to_string()),
        (
            "outbox.0.relay.poll_interval",
            format!("\"{}s\"", settings.poll_interval.as_secs()),
        ),
        ("outbox.0.retry.policy", "\"exponential\"".to_owned()),
        ("outbox.0.retry.base", format!("\"{}ms\"", base.as_millis())),
        ("outbox.0.retry.max", format!("\"{}ms\"", max.as_millis())),
        (
            "outbox.0.retry.max_attempts",
            settings.max_attempts.to_string(),
        ),
        ("outbox.0.clean.retention", format!("\"{days}d\"")),
    ];
    let expected: BTreeMap<&str, &str> = expected.iter().map(|(k, v)| (*k, v.as_str())).collect();
    assert_eq!(profile, expected);
    // And those are the document's.
    assert_eq!(settings.batch_size, 10);
    assert_eq!(settings.poll_interval.as_millis(), 5000);
    let ladder: Vec<u128> = (1..=5)
        .map(|n| settings.retry.delay(n, 0.5).as_millis())
        .collect();
    assert_eq!(ladder, [100, 200, 400, 800, 1600]);
    assert_eq!((settings.max_attempts, days), (5, 30));
}

// order-service-1.3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posthaste_run_with_this_configuration_publishes_as_the_service_does() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let mut command = scene.command(&["run"]);
    command
        .env("POSTHASTE_SINK__KAFKA__BROKERS", &brokers)
        .env("POSTHASTE_ADMIN__ENABLED", "false");
    let daemon = Running::start(command);
    let placed = scene.orders.place(&order(1)).await.unwrap();
    scene.has(1, "SENT").await;
    drop(daemon);
    let arrived = read(&brokers, "order-service.Order").await;
    let ours: Vec<_> = arrived
        .iter()
        .filter(|record| record.id() == placed.event)
        .collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].key, placed.order.to_string());
}
