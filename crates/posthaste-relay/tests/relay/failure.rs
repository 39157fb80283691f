//! What fails: tried again, given up with its reason, and never in the way of the rest.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste::{DeadReason, Event, Message, Status};
use posthaste_relay::sink::{Outcome, Sink};
use posthaste_testkit::outbox::Fresh;
use uuid::Uuid;

use crate::support::*;

// M10
#[tokio::test]
async fn a_failed_delivery_is_tried_again_and_its_error_is_kept_until_it_succeeds() {
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&messages(1)).await[0].id;
    let mended = Arc::new(AtomicBool::new(false));
    let state = mended.clone();
    let witness = Witness::new(move |_| {
        let mended = state.load(Ordering::SeqCst);
        async move {
            match mended {
                true => Outcome::Delivered,
                false => Outcome::Retry("out of paper".to_owned()),
            }
        }
    });
    let relay = relay_to(&fresh, witness.clone()).await;
    let store = fresh.store().await;
    eventually("two failures", async || witness.seen().len() >= 2).await;
    eventually("the error is kept", async || {
        record(&store, id).await.last_error.as_deref() == Some("out of paper")
    })
    .await;
    mended.store(true, Ordering::SeqCst);
    until_settled(&store).await;
    relay.stop().await;

    let attempts: Vec<u32> = witness.seen().iter().map(|event| event.attempts).collect();
    assert_eq!(attempts, (1..=attempts.len() as u32).collect::<Vec<_>>());
    let record = record(&store, id).await;
    assert_eq!(record.status, Status::Delivered);
    assert_eq!(record.attempts as usize, attempts.len());
}

// M10
#[tokio::test]
async fn an_event_whose_attempts_are_used_up_is_dead() {
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&messages(1)).await[0].id;
    let witness = Witness::new(|_| async { Outcome::Retry("no".to_owned()) });
    let builder = brisk(&fresh).await.max_attempts(3);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    tokio::time::sleep(MS(200)).await;
    relay.stop().await;

    // M15
    assert_eq!(witness.seen().len(), 3, "dead is never tried again");
    let record = record(&store, id).await;
    assert_eq!(record.status, Status::Dead);
    assert_eq!(record.dead_reason, Some(DeadReason::Exhausted));
    assert_eq!(
        (record.attempts, record.last_error.as_deref()),
        (3, Some("no"))
    );
}

// F6
#[tokio::test]
async fn a_rejected_event_is_dead_at_once() {
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&messages(1)).await[0].id;
    let witness = Witness::new(|_| async { Outcome::Reject("413: too large".to_owned()) });
    let relay = relay_to(&fresh, witness.clone()).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    assert_eq!(witness.seen().len(), 1);
    let record = record(&store, id).await;
    assert_eq!(record.dead_reason, Some(DeadReason::Rejected));
    assert_eq!(record.last_error.as_deref(), Some("413: too large"));
}

// B8
#[tokio::test]
async fn a_panic_a_hang_and_an_error_among_a_thousand_hold_up_none_of_them() {
    let mut fresh = Fresh::new().await;
    let mut batch = messages(997);
    for (place, poison) in ["panics", "hangs", "fails"].into_iter().enumerate() {
        batch.insert(place * 300, message(&format!("shop.poison.{poison}.v1")));
    }
    fresh.enqueue(&batch).await;
    let witness = Witness::new(|event| async move {
        match event.topic.split('.').nth(2).unwrap() {
            "panics" => panic!("on purpose"),
            "hangs" => std::future::pending().await,
            "fails" => Outcome::Retry("on purpose".to_owned()),
            _ => Outcome::Delivered,
        }
    });
    let builder = brisk(&fresh)
        .await
        .max_attempts(2)
        .dispatch_timeout(MS(1000));
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    witness.until_delivered(997).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    assert_eq!(witness.delivered().len(), 997);
    assert_eq!(witness.seen().len(), 997 + 3 * 2);
    let dead = with_status(&store, Status::Dead).await;
    let mut errors: Vec<&str> = dead
        .iter()
        .map(|r| r.last_error.as_deref().unwrap())
        .collect();
    errors.sort_unstable();
    assert_eq!(
        errors,
        ["on purpose", "panicked: on purpose", "timed out after 1s"]
    );
}

// B8
#[tokio::test]
async fn a_sink_that_panics_before_it_begins_costs_an_attempt_like_any_other_failure() {
    struct Hasty;
    impl Sink for Hasty {
        fn deliver<'s, 'f>(
            &'s self,
            _: Arc<Event>,
        ) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'f>>
        where
            's: 'f,
            Self: 'f,
        {
            panic!("not even begun")
        }
    }
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&messages(1)).await[0].id;
    let builder = brisk(&fresh).await.max_attempts(2);
    let relay = Running::start(builder.destination("hasty", Hasty).build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    let record = record(&store, id).await;
    assert_eq!(record.dead_reason, Some(DeadReason::Exhausted));
    assert_eq!(
        record.last_error.as_deref(),
        Some("panicked: not even begun")
    );
}

// B13
#[tokio::test]
async fn a_kept_error_is_short_and_tells_no_secret_and_no_payload() {
    let mut fresh = Fresh::new().await;
    let secret = "4111111111111111";
    let message = Message::json_text(TOPIC, format!(r#"{{"card": "{secret}"}}"#)).unwrap();
    let id = fresh.enqueue(&[message]).await[0].id;
    let witness = Witness::new(|event| async move {
        let payload = String::from_utf8_lossy(&event.payload).into_owned();
        let tail = "\u{0}é".repeat(4000);
        Outcome::Reject(format!("amqp://guest:hunter2@mq said {payload} {tail}"))
    });
    let relay = relay_to(&fresh, witness).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    let error = record(&store, id).await.last_error.unwrap();
    assert!(error.starts_with("amqp://***@mq said [payload]"), "{error}");
    assert!(!error.contains(secret) && !error.contains("hunter2"));
    assert!(
        (2000..=2048).contains(&error.len()),
        "{} bytes",
        error.len()
    );
}

// B13 B15
#[tokio::test]
async fn a_kept_error_is_as_long_as_the_settings_allow() {
    let mut fresh = Fresh::new().await;
    let ids = fresh.enqueue(&messages(2)).await;
    let witness = Witness::new(|event| async move {
        let long = "é".repeat(4000);
        match event.sequence % 2 {
            0 => Outcome::Reject(long),
            _ => Outcome::Retry(long),
        }
    });
    let builder = brisk(&fresh).await.max_attempts(2).error_limit(15);
    let relay = Running::start(builder.destination("w", witness).build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    for receipt in ids {
        let error = record(&store, receipt.id).await.last_error.unwrap();
        assert_eq!(error, "é".repeat(7), "cut at a character");
    }
}

#[tokio::test]
async fn rows_that_are_no_events_are_set_aside_as_dead_and_their_neighbours_delivered() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(5)).await;
    let odd = [
        "headers) values ('x', '{}', '[1]'",
        "headers) values ('x', '{}', '{\"a\": 1}'",
        "headers) values ('x', '{}', '\"text\"'",
        "attempts) values ('x', '{}', 2147483647",
    ];
    for columns in odd {
        let sql = format!("insert into {{outbox}} (topic, payload, {columns})");
        fresh.client.batch_execute(&fresh.sql(&sql)).await.unwrap();
    }
    // Odd, but events.
    for columns in [
        "created_at, next_attempt_at) values ('x', '{}', '4000-01-01 BC', '4000-01-01 BC'",
        "created_at) values ('x', '{}', '200000-01-01'",
        "content_type, traceparent) values (E'a\\nb\\u00e9', '{}', '', 'nonsense'",
    ] {
        let sql = format!("insert into {{outbox}} (topic, payload, {columns})");
        fresh.client.batch_execute(&fresh.sql(&sql)).await.unwrap();
    }
    fresh.enqueue(&messages(5)).await;
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    assert_eq!(witness.delivered().len(), 13);
    let dead = with_status(&store, Status::Dead).await;
    let reasons: Vec<DeadReason> = dead.iter().map(|r| r.dead_reason.unwrap()).collect();
    let malformed = DeadReason::Malformed;
    assert_eq!(
        reasons,
        [malformed, malformed, malformed, DeadReason::Exhausted]
    );
    assert!(dead[0].last_error.as_deref().unwrap().contains("headers"));
}

#[tokio::test]
async fn an_event_that_no_route_is_for_is_dead_and_says_so() {
    let mut fresh = Fresh::new().await;
    let receipts = fresh
        .enqueue(&[message(TOPIC), message("bank.account.opened.v1")])
        .await;
    let witness = Witness::willing();
    let builder = brisk(&fresh)
        .await
        .destination("shop", witness.clone())
        .route("shop.*", "shop");
    let relay = Running::start(builder.build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    let seen: Vec<Uuid> = witness.seen().iter().map(|event| event.id).collect();
    assert_eq!(seen, [receipts[0].id]);
    let dead = record(&store, receipts[1].id).await;
    assert_eq!(dead.dead_reason, Some(DeadReason::Rejected));
    assert!(dead.last_error.unwrap().contains("bank.account.opened.v1"));
}
