//! Messages that no queue gets.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste_relay::sink::Outcome;
use posthaste_testkit::sink_contract;
use uuid::Uuid;

use crate::place::*;

// F5
#[tokio::test]
async fn a_message_without_a_binding_is_tried_again_and_says_what_is_missing() {
    let place = Place::bare(Place::new().await.url);
    let sink = place.sink();
    let event = event().await;
    let outcome = deliver(&sink, event.clone()).await;
    let Outcome::Retry(why) = outcome else {
        panic!("{outcome:?}");
    };
    for part in [&*place.name, TOPIC, "no queue is bound", "312 NO_ROUTE"] {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    // Once there is one, it arrives.
    place
        .act(&[
            "queue",
            &place.name,
            "-",
            "bind",
            &place.name,
            &place.name,
            "shop.#",
        ])
        .await;
    assert_eq!(deliver(&sink, event.clone()).await, Outcome::Delivered);
    assert_eq!(place.ids().await, [event.id]);
}

// F5: lapin hands returned messages to whichever confirmation comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_at_once_exactly_those_without_a_binding_fail() {
    let place = Place::new().await;
    let other = Place::bare(place.url.clone());
    place
        .act(&[
            "exchange",
            &other.name,
            "-",
            "queue",
            &other.name,
            "-",
            "bind",
            &other.name,
            &other.name,
            "bound.#",
        ])
        .await;
    let sink = Arc::new(
        other
            .builder()
            .routing_key("{aggregate_type}.{topic}")
            .build()
            .unwrap(),
    );
    for round in 0..3 {
        let messages: Vec<_> = (0..1000_u32)
            .map(|n| {
                // Lonely ones among the others, pairs, and long runs.
                let is_bound = match round {
                    0 => n % 2 == 0,
                    1 => n % 97 != 0,
                    _ => (n / 50) % 2 == 0 || n % 13 == 0,
                };
                message().aggregate(if is_bound { "bound" } else { "loose" }, "1")
            })
            .collect();
        let events = sink_contract::events(&messages).await;
        let outcomes = deliver_all(&sink, &events).await;
        let arrived: HashSet<Uuid> = other.ids().await.into_iter().collect();
        for (event, outcome) in events.iter().zip(outcomes) {
            let is_bound = event.aggregate_type.as_deref() == Some("bound");
            match is_bound {
                true => assert_eq!(outcome, Outcome::Delivered),
                false => assert!(
                    matches!(&outcome, Outcome::Retry(why) if why.contains("loose.")),
                    "{outcome:?}"
                ),
            }
            assert_eq!(arrived.contains(&event.id), is_bound);
        }
    }
}

// F5: some queue got it, so it is not returned; but another refused it.
#[tokio::test]
async fn a_queue_that_is_full_and_rejects_is_a_failure_that_may_pass() {
    let place = Place::bare(Place::new().await.url);
    let full = r#"{"x-max-length": 1, "x-overflow": "reject-publish"}"#;
    place
        .act(&[
            "exchange",
            &place.name,
            "-",
            "queue",
            &place.name,
            full,
            "-",
            "bind",
            &place.name,
            &place.name,
            "#",
        ])
        .await;
    let sink = place.sink();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    let outcome = outcome(&sink).await;
    assert!(
        matches!(&outcome, Outcome::Retry(why) if why.contains("nack")),
        "{outcome:?}"
    );
    assert_eq!(place.ids().await.len(), 1);
}
