//! What a consumer sees.

use std::time::UNIX_EPOCH;

use posthaste::header;
use posthaste_relay::Envelope;
use posthaste_relay::sink::Outcome;
use posthaste_testkit::sink_contract::full;

use crate::place::*;

// F5 B21 K8 K9 B12
#[tokio::test]
async fn a_message_has_the_properties_that_amqp_has_for_what_an_event_says() {
    let place = Place::new().await;
    let event = event_of(full()).await;
    let sink = place.builder().app_id("shop").build().unwrap();
    assert_eq!(deliver(&sink, event.clone()).await, Outcome::Delivered);
    let found = place.found().await.remove(0);
    assert_eq!(
        (&*found.exchange, &*found.routing_key),
        (&*place.name, TOPIC)
    );
    assert_eq!(found.id(), event.id);
    assert_eq!(found.text("type"), "OrderPlaced");
    assert_eq!(found.text("app_id"), "shop");
    assert_eq!(found.text("content_type"), "application/json");
    assert_eq!(found.properties["delivery_mode"], 2);
    let created = event.created_at.duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(found.properties["timestamp"], created.as_secs());
    assert_eq!(found.headers["posthaste-id"], event.id.to_string());
    assert_eq!(
        found.headers["traceparent"],
        event.trace.as_ref().unwrap().traceparent
    );
    assert_eq!(found.body, event.payload);
}

// F10
#[tokio::test]
async fn a_compressed_payload_says_so_in_the_content_encoding() {
    let place = Place::new().await;
    let mut event = posthaste::Event::clone(&*event().await);
    let encoding = (header::CONTENT_ENCODING, header::ZSTD);
    event
        .headers
        .insert(encoding.0.to_owned(), encoding.1.to_owned());
    event.payload = vec![0x28, 0xb5, 0x2f, 0xfd].into();
    let event = std::sync::Arc::new(event);
    for envelope in [Envelope::raw(), Envelope::cloud_events()] {
        let sink = place.builder().envelope(envelope).build().unwrap();
        assert_eq!(deliver(&sink, event.clone()).await, Outcome::Delivered);
    }
    for found in place.found().await {
        assert_eq!(found.text("content_encoding"), "zstd");
        assert_eq!(found.body, event.payload);
    }
}

// B21
#[tokio::test]
async fn exchange_and_routing_key_are_made_of_the_event() {
    let place = Place::new().await;
    let odd = r#"№ "42" 50% a/b.c*>#; ünï 😀"#;
    let sink = posthaste_relay::sink::RabbitMq::builder(&place.url, "{aggregate_type}")
        .routing_key("{tenant|none}.{key}")
        .build()
        .unwrap();
    let event = event_of(message().aggregate(&place.name, odd)).await;
    assert_eq!(deliver(&sink, event).await, Outcome::Delivered);
    let found = place.found().await.remove(0);
    assert_eq!(found.routing_key, format!("none.{odd}"));
    assert_eq!(found.exchange, place.name);
    // There is no exchange for it: nothing is made up.
    let outcome = outcome(&sink).await;
    assert!(
        matches!(&outcome, Outcome::Reject(why) if why.contains("aggregate_type")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn the_default_exchange_leads_to_a_queue_by_its_name() {
    let place = Place::new().await;
    let sink = posthaste_relay::sink::RabbitMq::builder(&place.url, "")
        .routing_key("{aggregate_id}")
        .build()
        .unwrap();
    let to_queue = event_of(message().aggregate("Queue", &place.name)).await;
    assert_eq!(deliver(&sink, to_queue.clone()).await, Outcome::Delivered);
    assert_eq!(place.ids().await, [to_queue.id]);
    let astray = event_of(message().aggregate("Queue", "no-such-queue")).await;
    let outcome = deliver(&sink, astray).await;
    assert!(
        matches!(&outcome, Outcome::Retry(why) if why.contains("no queue \"no-such-queue\"")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn exchanges_of_every_type_are_declared() {
    let place = Place::new().await;
    for kind in ["direct", "fanout", "headers", "topic"] {
        let exchange = format!("{}-{kind}", place.name);
        let builder = posthaste_relay::sink::RabbitMq::builder(&place.url, &exchange);
        let sink = builder.exchange_type(kind).build().unwrap();
        // There is no queue yet, but an exchange.
        assert!(matches!(outcome(&sink).await, Outcome::Retry(_)));
        place
            .act(&[
                "exchange",
                &exchange,
                kind,
                "-",
                "bind",
                &place.name,
                &exchange,
                TOPIC,
            ])
            .await;
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
    }
}
