//! The settings in code are those of `posthaste.toml`, which names the profile `logistics`.

use logistics::worker::settings;
use serde_json::Value;

use crate::scene::*;

// logistics-1.6, logistics-3.2, logistics-3.11, logistics-3.13, N5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_are_those_of_the_document_in_code_and_in_the_configuration() {
    let broker = broker().await;
    let scene = Scene::new(&broker).await;
    scene.posthaste(&["config", "check"]);
    let told = scene.posthaste(&["config", "explain", "--json"]);
    let told: Vec<Value> = serde_json::from_str(&told).unwrap();
    let key = |name: &str| {
        let row = told.iter().find(|row| row["key"] == name);
        let row = row.unwrap_or_else(|| panic!("there is no {name}"));
        row["value"].as_str().unwrap().trim_matches('"').to_owned()
    };
    let settings = settings();
    let delay = |attempts| settings.retry.delay(attempts, 0.5).as_secs();
    for (name, in_code, in_document) in [
        (
            "outbox.0.relay.batch_size",
            settings.batch_size.to_string(),
            "50",
        ),
        (
            "outbox.0.relay.poll_interval",
            format!("{}ms", settings.poll_interval.as_millis()),
            "200ms",
        ),
        (
            "outbox.0.retry.policy",
            "exponential".to_owned(),
            "exponential",
        ),
        ("outbox.0.retry.base", format!("{}s", delay(1)), "1s"),
        (
            "outbox.0.retry.max_attempts",
            settings.max_attempts.to_string(),
            "6",
        ),
        // Of this the document gives no figure.
        (
            "outbox.0.relay.in_flight",
            settings.in_flight.to_string(),
            "50",
        ),
        (
            "sink.rabbitmq.exchange",
            logistics::EXCHANGE.to_owned(),
            "logistics.orders",
        ),
    ] {
        assert_eq!(
            (key(name).as_str(), in_code.as_str()),
            (in_document, in_document),
            "{name}"
        );
    }
    let delays: Vec<u64> = (1..=5).map(delay).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16]);
}

// logistics-5.3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posthaste_run_with_this_configuration_is_one_more_worker() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let url = format!("amqp://127.0.0.1:{}", broker.port());
    let mut command = scene.command(&["run"]);
    command
        .env("POSTHASTE_SINK__RABBITMQ__URL", url)
        .env("POSTHASTE_ADMIN__ENABLED", "false");
    let daemon = Running::start(command);
    let events = scene.order(5).await;
    scene.has(5, "PUBLISHED").await;
    drop(daemon);
    let arrived = scene.arrived(&broker).await;
    assert!(events.iter().all(|event| arrived[event].len() == 1));
}
