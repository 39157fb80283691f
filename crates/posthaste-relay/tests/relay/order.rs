//! `ordering = key`: events of one key arrive in sequence, whatever fails and whoever delivers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use posthaste::store::{Act, OnFailure, Ordering};
use posthaste::{DeadReason, Event, Message, Status, Store};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;
use uuid::Uuid;

use crate::support::*;

fn keyed(key: &str, n: usize) -> Message {
    Message::json_text(TOPIC, format!("{{\"n\":{n}}}"))
        .unwrap()
        .ordering_key(key)
}

/// Fails when the key of any two events is out of sequence.
fn assert_in_sequence(delivered: &[Arc<Event>]) {
    let mut last: HashMap<&str, i64> = HashMap::new();
    for event in delivered {
        let key = event.ordering_key.as_deref().unwrap();
        if let Some(before) = last.insert(key, event.sequence) {
            assert!(
                before < event.sequence,
                "key {key}: {} after {before}",
                event.sequence
            );
        }
    }
}

async fn ordered(fresh: &Fresh, on_failure: OnFailure, witness: &Arc<Witness>) -> Running {
    let builder = brisk(fresh)
        .await
        .ordering(Ordering::Key(on_failure))
        .max_attempts(20);
    let builder = builder.batch_size(20).in_flight(60);
    Running::start(builder.destination("w", witness.clone()).build().unwrap())
}

// M13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_with_failures_keep_every_key_in_sequence() {
    let mut fresh = Fresh::new().await;
    let calls = Arc::new(AtomicU64::new(0));
    let witness = Witness::new(move |event| {
        let call = calls.fetch_add(1, Memory::Relaxed);
        async move {
            tokio::time::sleep(MS(call % 5)).await;
            // About one in seven fails, and each event succeeds in the end.
            match (call * 2_654_435_761).is_multiple_of(7) && event.attempts < 5 {
                true => Outcome::Retry("now and then".to_owned()),
                false => Outcome::Delivered,
            }
        }
    });
    let relays = [
        ordered(&fresh, OnFailure::Block, &witness).await,
        ordered(&fresh, OnFailure::Block, &witness).await,
    ];
    for round in 0..20 {
        let batch: Vec<Message> = (0..40)
            .map(|n| keyed(&format!("key-{}", n % 13), round))
            .collect();
        fresh.enqueue(&batch).await;
        tokio::time::sleep(MS(10)).await;
    }
    witness.until_delivered(800).await;
    until_settled(&fresh.store().await).await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(witness.delivered().len(), 800, "each once");
    assert!(witness.seen().len() > 850, "some failed");
    assert_in_sequence(&witness.delivered());
}

/// Three events of key `bad`, of which the first is rejected, and three of key `good`.
async fn with_a_rejected_first(on_failure: OnFailure) -> (Fresh, Arc<Witness>, Running, Vec<Uuid>) {
    let mut fresh = Fresh::new().await;
    let batch: Vec<Message> = (0..3)
        .flat_map(|n| [keyed("bad", n), keyed("good", n)])
        .collect();
    let ids: Vec<Uuid> = fresh.enqueue(&batch).await.iter().map(|r| r.id).collect();
    let rejected = ids[0];
    let first = Arc::new(AtomicU64::new(0));
    let witness = Witness::new(move |event| {
        let calls = match event.id == rejected {
            true => first.fetch_add(1, Memory::SeqCst),
            false => 1,
        };
        async move {
            match calls {
                0 => Outcome::Reject("unreadable".to_owned()),
                _ => Outcome::Delivered,
            }
        }
    });
    let relay = ordered(&fresh, on_failure, &witness).await;
    (fresh, witness, relay, ids)
}

fn ids_of(events: &[Arc<Event>], key: &str) -> Vec<Uuid> {
    let of_key = events
        .iter()
        .filter(|e| e.ordering_key.as_deref() == Some(key));
    of_key.map(|event| event.id).collect()
}

fn act() -> Act {
    Act {
        actor: "a test".to_owned(),
        why: "mended".to_owned(),
    }
}

#[tokio::test]
async fn block_holds_a_key_back_until_an_operator_decides() {
    for discard in [true, false] {
        let (fresh, witness, relay, ids) = with_a_rejected_first(OnFailure::Block).await;
        witness.until_delivered(3).await;
        let store = fresh.store().await;
        eventually("the first is dead, and the rest wait", async || {
            record(&store, ids[0]).await.status == Status::Dead
                && with_status(&store, Status::Pending).await.len() == 2
        })
        .await;
        tokio::time::sleep(MS(400)).await;
        assert!(ids_of(&witness.delivered(), "bad").is_empty(), "they wait");
        assert_eq!(ids_of(&witness.delivered(), "good").len(), 3);
        let pending = with_status(&store, Status::Pending).await;
        assert!(pending.len() == 2 && pending.iter().all(|record| record.attempts == 0));

        let bad = [ids[0], ids[2], ids[4]];
        let expected = match discard {
            true => {
                store.discard(&bad[..1], &act()).await.unwrap();
                &bad[1..]
            }
            false => {
                store.redeliver(&bad[..1], &act()).await.unwrap();
                &bad[..]
            }
        };
        witness.until_delivered(3 + expected.len()).await;
        until_settled(&store).await;
        relay.stop().await;
        assert_eq!(ids_of(&witness.delivered(), "bad"), expected);
    }
}

#[tokio::test]
async fn park_sets_the_rest_of_a_key_aside_to_be_redelivered_together() {
    let (fresh, witness, relay, ids) = with_a_rejected_first(OnFailure::Park).await;
    let store = fresh.store().await;
    eventually("the key is parked", async || {
        with_status(&store, Status::Dead).await.len() == 3
    })
    .await;
    witness.until_delivered(3).await;
    let dead = with_status(&store, Status::Dead).await;
    let reasons: Vec<_> = dead
        .iter()
        .map(|record| record.dead_reason.unwrap())
        .collect();
    let parked = DeadReason::Parked;
    assert_eq!(reasons, [DeadReason::Rejected, parked, parked]);

    let bad = [ids[0], ids[2], ids[4]];
    store.redeliver(&bad, &act()).await.unwrap();
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!(ids_of(&witness.delivered(), "bad"), bad);
}

#[tokio::test]
async fn skip_goes_on_without_the_dead_one() {
    let (fresh, witness, relay, ids) = with_a_rejected_first(OnFailure::Skip).await;
    until_settled(&fresh.store().await).await;
    relay.stop().await;
    assert_eq!(ids_of(&witness.delivered(), "bad"), [ids[2], ids[4]]);
    assert_eq!(ids_of(&witness.delivered(), "good").len(), 3);
}

/// Key `stuck` fails for ever; all of key `free` must arrive all the same.
async fn goes_on_beside_a_stuck_key(batch: Vec<Message>) {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&batch).await;
    let witness = Witness::new(|event| async move {
        match event.ordering_key.as_deref() {
            Some("stuck") => Outcome::Retry("always".to_owned()),
            _ => Outcome::Delivered,
        }
    });
    let relay = ordered(&fresh, OnFailure::Block, &witness).await;
    witness.until_delivered(200).await;
    relay.stop().await;
    assert_in_sequence(&witness.delivered());
    let stuck = ids_of(&witness.seen(), "stuck");
    assert!(
        stuck.iter().all(|id| *id == stuck[0]),
        "only the first is ever tried"
    );
}

#[tokio::test]
async fn a_key_that_waits_for_a_retry_holds_up_no_other_key() {
    let key = |n| if n % 3 == 0 { "stuck" } else { "free" };
    goes_on_beside_a_stuck_key((0..300).map(|n| keyed(key(n), n)).collect()).await;
}

#[tokio::test]
async fn a_line_of_waiting_events_longer_than_any_look_holds_up_no_other_key() {
    let key = |n| if n < 1500 { "stuck" } else { "free" };
    goes_on_beside_a_stuck_key((0..1700).map(|n| keyed(key(n), n)).collect()).await;
}

#[tokio::test]
async fn keys_of_which_there_is_always_more_hold_up_no_other_key() {
    let mut fresh = Fresh::new().await;
    let hot = (0..8000).map(|n| keyed(["a", "b", "c", "d"][n % 4], n));
    fresh.enqueue(&hot.collect::<Vec<_>>()).await;
    let witness = Witness::willing();
    let relay = ordered(&fresh, OnFailure::Block, &witness).await;
    witness.until_delivered(500).await;
    let before = witness.delivered().len();
    let new = fresh.enqueue(&[keyed("new", 0)]).await[0].id;
    let is_new = |event: &Arc<Event>| event.id == new;
    eventually("the new one is delivered", async || {
        witness.seen().iter().any(is_new)
    })
    .await;
    let delivered = witness.delivered();
    relay.stop().await;
    let place = delivered.iter().position(is_new).unwrap();
    assert!(place < 7500, "{} were before it", place - before);
    assert_in_sequence(&delivered);
}

/// What becomes of the second event of a key after the first was set aside without a delivery.
async fn after_one_that_is_set_aside(
    first: &str,
    on_failure: OnFailure,
    expected: Status,
) -> Status {
    let mut fresh = Fresh::new().await;
    let sql = format!(
        "insert into {{outbox}} (ordering_key, payload, topic, headers) values ('k', '1', {first})"
    );
    let sql = fresh.sql(&sql);
    fresh.client.batch_execute(&sql).await.unwrap();
    let ids: Vec<Uuid> = fresh
        .enqueue(&[keyed("k", 1), keyed("free", 1)])
        .await
        .iter()
        .map(|r| r.id)
        .collect();
    let witness = Witness::willing();
    let builder = brisk(&fresh).await.ordering(Ordering::Key(on_failure));
    let builder = builder
        .destination("w", witness.clone())
        .route("shop.*", "w");
    let relay = Running::start(builder.build().unwrap());
    let store = fresh.store().await;
    eventually("the first is dead, and another key goes on", async || {
        !with_status(&store, Status::Dead).await.is_empty()
            && record(&store, ids[1]).await.status == Status::Delivered
    })
    .await;
    let status = async || record(&store, ids[0]).await.status;
    match expected {
        // Time enough for it to become something else.
        Status::Pending => tokio::time::sleep(MS(400)).await,
        _ => eventually("the second follows", async || status().await == expected).await,
    }
    relay.stop().await;
    status().await
}

#[tokio::test]
async fn one_that_is_no_event_or_has_no_route_is_dead_to_its_key_like_any_other() {
    for first in ["'shop.a.b.v1', '[]'", "'bank.a.b.v1', '{}'"] {
        for (on_failure, second) in [
            (OnFailure::Block, Status::Pending),
            (OnFailure::Park, Status::Dead),
            (OnFailure::Skip, Status::Delivered),
        ] {
            let status = after_one_that_is_set_aside(first, on_failure, second).await;
            assert_eq!(status, second, "{first} {on_failure:?}");
        }
    }
}
