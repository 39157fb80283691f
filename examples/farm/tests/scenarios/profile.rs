//! The settings in code are those of `posthaste.toml`, which names the profile `farm`.

use farm::publisher::settings;
use posthaste_relay::Retry;
use serde_json::Value;

use crate::scene::*;

// farm-3.1, farm-4.1, farm-4.2, farm-4.3, farm-4.4, farm-7.1, farm-7.2, farm-10.4, F3
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
    let Retry::Fixed { delay } = settings.retry else {
        panic!("{:?}", settings.retry);
    };
    let seconds = |duration: std::time::Duration| format!("{}s", duration.as_secs());
    for (name, in_code, in_document) in [
        (
            "outbox.0.relay.batch_size",
            settings.batch_size.to_string(),
            "50",
        ),
        (
            "outbox.0.relay.poll_interval",
            seconds(settings.poll_interval),
            "5s",
        ),
        ("outbox.0.retry.policy", "fixed".to_owned(), "fixed"),
        ("outbox.0.retry.base", seconds(delay), "10s"),
        (
            "outbox.0.retry.max_attempts",
            settings.max_attempts.to_string(),
            "3",
        ),
        (
            "sink.rabbitmq.exchange",
            farm::EXCHANGE.to_owned(),
            "farmwise.events",
        ),
        ("sink.rabbitmq.exchange_type", "topic".to_owned(), "topic"),
        // Of these the document gives no figure.
        (
            "outbox.0.relay.dispatch_timeout",
            seconds(settings.dispatch_timeout),
            "5s",
        ),
        (
            "outbox.0.clean.archive",
            settings.cleaning.archive.to_string(),
            "true",
        ),
    ] {
        assert_eq!(
            (key(name).as_str(), in_code.as_str()),
            (in_document, in_document),
            "{name}"
        );
    }
    // It shows a minute in this way.
    assert_eq!(farm::publisher::SILENCE.as_secs(), 60);
    for name in ["timeout", "connect_timeout", "heartbeat"] {
        assert_eq!(key(&format!("sink.rabbitmq.{name}")), "1m", "{name}");
    }
    assert_eq!(key("sink.rabbitmq.url"), "amqp://localhost:5672");
    assert_eq!(key("sink.rabbitmq.user"), "guest");
}
