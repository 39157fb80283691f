//! What needs no server.

use std::sync::Arc;
use std::time::Duration;

use lapin::types::AMQPValue;

use super::*;
use crate::sample;
use crate::sink::SinkError;

const URL: &str = "amqp://shop:canary-secret@mq.example/shop";

fn sink(builder: RabbitMqBuilder) -> RabbitMq {
    builder.build().unwrap()
}

fn refused(builder: RabbitMqBuilder) -> Vec<String> {
    let SinkError::Settings { problems, .. } = builder.build().unwrap_err();
    problems
}

#[test]
fn each_setting_that_cannot_work_is_refused_with_its_reason() {
    let at = |url: &str| RabbitMq::builder(url, "orders");
    let good = || at(URL);
    for url in [
        "amqp://mq.example",
        "amqp://mq.example:5672/",
        "amqp://u:p@[::1]:5672/%2f",
        "amqps://mq.example/shop",
    ] {
        assert!(at(url).build().is_ok(), "{url}");
    }
    assert!(RabbitMq::builder(URL, "").build().is_ok());
    assert!(good().exchange_type("x-delayed-message").build().is_ok());
    for (builder, reason) in [
        (at("mq.example"), "no scheme"),
        (at("http://mq.example"), "only amqp and amqps"),
        (at("amqp://"), "host is missing"),
        (at("amqp://u:p@:5672/"), "host is missing"),
        (at("amqp://mq.example:port/"), "not an address"),
        (at("amqp://mq.example/?heartbeat=5"), "there are settings"),
        (RabbitMq::builder(URL, "{exchange}"), "\"exchange\""),
        (RabbitMq::builder(URL, "a\nb"), "'\\n'"),
        (good().routing_key("{tpoic}"), "\"tpoic\""),
        (good().routing_key("{topic"), "brace"),
        (good().routing_key(""), "empty"),
        (good().exchange_type("topics"), "\"topics\""),
        (good().app_id("x".repeat(256)), "app_id"),
        (good().timeout(Duration::ZERO), "timeouts"),
        (good().heartbeat(Duration::from_millis(1500)), "heartbeat"),
        (good().trust("no pem"), "amqps"),
        (at("amqps://mq.example").trust("no pem"), "authority"),
        (good().by_certificate(), "certificate"),
    ] {
        let reasons = refused(builder);
        let found = reasons.iter().any(|found| found.contains(reason));
        assert!(found, "{reason:?} is not in {reasons:?}");
    }
}

// B13
#[test]
fn what_is_wrong_is_told_at_once_and_no_secret_is_in_it() {
    let builder = RabbitMq::builder("http://u:canary-secret@mq.example", "{a}")
        .routing_key("{b}")
        .user("u", "canary-secret")
        .timeout(Duration::ZERO);
    let reasons = refused(builder);
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(!reasons.join(" ").contains("canary"), "{reasons:?}");
    let shown = format!("{:?}", sink(RabbitMq::builder(URL, "orders")));
    assert_eq!(
        shown,
        "RabbitMq(amqp://shop@mq.example:5672 vhost \"shop\")"
    );
}

// B21 K8
#[tokio::test]
async fn a_message_says_what_the_event_says() {
    let event = sample::plain().await;
    let sink = sink(RabbitMq::builder(URL, "orders.{topic}").routing_key("k.{topic}"));
    let message = sink.post.writer.message(&event).unwrap();
    assert_eq!(message.exchange.as_str(), format!("orders.{}", event.topic));
    assert_eq!(message.routing_key.as_str(), format!("k.{}", event.topic));
    let properties = &message.properties;
    let id = properties.message_id().as_ref().unwrap();
    assert_eq!(id.as_str(), event.id.to_string());
    assert_eq!(properties.delivery_mode(), &Some(2));
    assert_eq!(properties.app_id().as_ref().unwrap().as_str(), "posthaste");
    assert!(properties.timestamp().is_some());
    let headers = properties.headers().as_ref().unwrap();
    let topic = headers.inner().get("posthaste-topic").unwrap();
    assert_eq!(topic, &AMQPValue::LongString(event.topic.as_str().into()));
}

// F6
#[tokio::test]
async fn what_amqp_cannot_carry_is_rejected_without_a_server() {
    let sink = sink(RabbitMq::builder(URL, "orders").routing_key("{aggregate_id|none}"));
    let plain = sample::plain().await;
    let rejected = async |change: &dyn Fn(&mut posthaste::Event), reason: &str| {
        let mut event = posthaste::Event::clone(&plain);
        change(&mut event);
        let outcome = sink.deliver(Arc::new(event)).await;
        let Outcome::Reject(why) = outcome else {
            panic!("{reason}: {outcome:?}");
        };
        assert!(why.contains(reason), "{why}");
    };
    rejected(&|event| event.aggregate_id = Some("k".repeat(256)), "long").await;
    rejected(
        &|event| event.content_type = "t/".repeat(200),
        "content_type",
    )
    .await;
    let many = |event: &mut posthaste::Event| {
        for n in 0..130 {
            event.headers.insert(format!("h{n}"), "x".repeat(1024));
        }
    };
    rejected(&many, "too large").await;
}

// F9 B8: lapin reads in a thread, which must not wait for ever for a server that says nothing.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connecting_to_a_silent_server_takes_a_bounded_time_and_leaves_no_thread_behind() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| {
            let comm = task.ok()?.path().join("comm");
            std::fs::read_to_string(comm).ok()
        });
        names.filter(|name| name.starts_with("lapin")).count()
    };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("amqp://{}/", silent.local_addr().unwrap());
    let builder = RabbitMq::builder(url, "orders").connect_timeout(Duration::from_millis(200));
    let sink = sink(builder);
    let event = Arc::new(sample::plain().await);
    for _ in 0..3 {
        let outcome = sink.deliver(event.clone()).await;
        let is_silent =
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("said nothing"));
        assert!(is_silent, "{outcome:?}");
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while threads() > 0 {
        assert!(std::time::Instant::now() < deadline, "{}", threads());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
