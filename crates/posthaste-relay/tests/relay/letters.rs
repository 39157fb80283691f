//! Dead letters: what dies tells of it at a destination of choice.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste::{Event, Status, header};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

const LETTERS: &str = "shop.dead-letters.v1";

fn told<'e>(letter: &'e Event, name: &str) -> Option<&'e str> {
    letter.headers.get(name).map(String::as_str)
}

// farm-12.1, F10, F6
#[tokio::test]
async fn a_dead_event_arrives_where_dead_letters_go_with_what_went_wrong() {
    let mut fresh = Fresh::new().await;
    let shop = Witness::new(|event| async move {
        match event.topic.as_str() {
            "shop.order.refused.v1" => Outcome::Reject("413: too large".to_owned()),
            "shop.order.failing.v1" => Outcome::Retry("out of paper".to_owned()),
            _ => Outcome::Delivered,
        }
    });
    let letters = Witness::willing();
    let builder = brisk(&fresh)
        .await
        .max_attempts(2)
        .dead_letters(LETTERS)
        .destination("shop", shop.clone())
        .destination("letters", letters.clone())
        .route(LETTERS, "letters")
        .route("shop.*", "shop");
    let relay = Running::start(builder.build().unwrap());
    let batch = [
        message(TOPIC),
        message("shop.order.refused.v1"),
        message("shop.order.failing.v1"),
        message("nowhere.order.placed.v1"),
    ];
    let receipts = fresh.enqueue(&batch).await;
    let malformed =
        fresh.sql("insert into {outbox} (topic, payload, headers) values ('shop.odd', '1', '[]')");
    fresh.client.batch_execute(&malformed).await.unwrap();
    letters.until_delivered(4).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;

    let arrived: BTreeMap<String, _> = letters
        .delivered()
        .into_iter()
        .map(|letter| (letter.headers[header::DEAD_TOPIC].clone(), letter))
        .collect();
    for (topic, reason, error, attempts) in [
        ("shop.order.refused.v1", "rejected", "413: too large", "1"),
        ("shop.order.failing.v1", "exhausted", "out of paper", "2"),
        ("nowhere.order.placed.v1", "rejected", "no route", "1"),
        ("shop.odd", "malformed", "headers is not", "1"),
    ] {
        let letter = &arrived[topic];
        assert_eq!(letter.topic, LETTERS);
        assert_eq!(told(letter, header::DEAD_REASON), Some(reason), "{topic}");
        assert_eq!(told(letter, header::DEAD_ATTEMPTS), Some(attempts));
        let why = told(letter, header::DEAD_ERROR).unwrap();
        assert!(why.contains(error), "{topic}: {why}");
    }
    // All that happened before, for whoever has no look into the outbox.
    let failing = told(&arrived["shop.order.failing.v1"], header::DEAD_HISTORY).unwrap();
    let history: Vec<serde_json::Value> = serde_json::from_str(failing).unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    for (entry, number) in history.iter().zip(1..) {
        assert_eq!(entry["attempt"], number);
        assert_eq!(entry["ending"], "failed");
        assert_eq!(entry["destination"], "shop");
        assert_eq!(entry["error"], "out of paper");
    }
    let refused = &arrived["shop.order.refused.v1"];
    let of = receipts[1].id.to_string();
    assert_eq!(told(refused, header::DEAD_LETTER_OF), Some(of.as_str()));
    assert_eq!(&refused.payload[..], b"{\"n\": 1}");
    assert_eq!(letters.seen().len(), 4);
    assert_eq!(with_status(&store, Status::Dead).await.len(), 4);
}

// F10: it may be a right of its own to write one, by row security, say.
#[tokio::test]
async fn a_letter_that_is_denied_holds_up_nothing_but_its_event() {
    let mut fresh = Fresh::new().await;
    let deny = fresh.sql(
        "create function {outbox}() returns trigger language plpgsql as $$
         begin raise insufficient_privilege; end $$;
         create trigger deny before insert on {outbox} for each row
         when (new.headers ? 'posthaste-dead-letter-of') execute function {outbox}()",
    );
    fresh.client.batch_execute(&deny).await.unwrap();
    let odd = "shop.order.refused.v1";
    let witness = Witness::new(move |event: Arc<Event>| async move {
        match event.topic == odd {
            true => Outcome::Reject("no".to_owned()),
            false => Outcome::Delivered,
        }
    });
    fresh.enqueue(&[message(odd)]).await;
    let builder = brisk(&fresh).await.dead_letters(LETTERS);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    let store = fresh.store().await;
    eventually("it is to die", async || !witness.seen().is_empty()).await;
    fresh.enqueue(&messages(20)).await;
    eventually("the others are settled", async || {
        with_status(&store, Status::Delivered).await.len() == 20
    })
    .await;
    assert!(with_status(&store, Status::Dead).await.is_empty());
    drop(relay);
}

// F10: or one bad destination would fill the outbox with letters about letters.
#[tokio::test]
async fn letters_that_nobody_takes_do_not_breed() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(3)).await;
    let witness = Witness::new(|_| async { Outcome::Reject("no".to_owned()) });
    let builder = brisk(&fresh).await.dead_letters(LETTERS);
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    let store = fresh.store().await;
    eventually("letters", async || witness.seen().len() >= 6).await;
    until_settled(&store).await;
    tokio::time::sleep(MS(200)).await;
    relay.stop().await;
    assert_eq!(witness.seen().len(), 6);
    assert_eq!(with_status(&store, Status::Dead).await.len(), 6);
}
