//! Enqueue is idempotent, on the id and on the dedupe key, also when two producers race.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Message;
use posthaste_testkit::outbox::Fresh;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::drivers::{Driver, Script, for_every_driver};

const TOPIC: &str = "shop.order.placed.v1";

for_every_driver! {
    the_same_id_twice_is_one_event,
    the_same_dedupe_key_twice_is_one_event,
    a_key_counts_within_its_namespace_and_topic,
    duplicates_within_a_batch_meet_the_first_of_them,
    a_producer_waits_for_its_twin_and_meets_it,
    a_producer_whose_twin_rolled_back_enqueues,
    a_batch_waits_for_its_twins_and_meets_them,
}

fn message() -> Message {
    Message::json(TOPIC, &1).unwrap()
}

async fn count(fresh: &Fresh) -> i64 {
    let sql = fresh.sql("select count(*) from {outbox}");
    fresh.client.query_one(&sql, &[]).await.unwrap().get(0)
}

// M5 B4
async fn the_same_id_twice_is_one_event<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let id = Uuid::new_v4();
    let other = Message::json("shop.order.paid.v1", &2).unwrap().id(id);
    let script = |message| Script::new().enqueue(&fresh.outbox, message);
    let first = driver.play(script(message().id(id))).await.receipt();
    let again = driver.play(script(message().id(id))).await.receipt();
    // The id alone decides: what else the second message says is not looked at.
    let different = driver.play(script(other)).await.receipt();
    assert_eq!((first.id, first.new), (id, true));
    for later in [again, different] {
        assert_eq!(
            (later.id, later.sequence, later.new),
            (id, first.sequence, false)
        );
    }
    assert_eq!(count(&fresh).await, 1);
}

// M5 B4
async fn the_same_dedupe_key_twice_is_one_event<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let script = |id| {
        let message = message().dedupe_key("order-42").id(id);
        Script::new().enqueue(&fresh.outbox, message)
    };
    let first = driver.play(script(Uuid::new_v4())).await.receipt();
    let again = driver.play(script(Uuid::new_v4())).await.receipt();
    assert!(first.new && !again.new);
    assert_eq!((again.id, again.sequence), (first.id, first.sequence));
    // In one transaction, too, and after a rollback as if it had never been.
    let message = || message().dedupe_key("order-43");
    let twice = || {
        Script::new()
            .enqueue(&fresh.outbox, message())
            .enqueue(&fresh.outbox, message())
    };
    driver.play(twice().roll_back()).await;
    let mut receipts = driver
        .play(twice())
        .await
        .receipts
        .into_iter()
        .flatten()
        .flatten();
    let (first, again) = (receipts.next().unwrap(), receipts.next().unwrap());
    assert!(first.new && !again.new && first.id == again.id);
    assert_eq!(count(&fresh).await, 2);
}

// M5
async fn a_key_counts_within_its_namespace_and_topic<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let messages = vec![
        message().dedupe_key("k"),
        message().dedupe_key("k").namespace("billing"),
        Message::json("shop.order.paid.v1", &1)
            .unwrap()
            .dedupe_key("k"),
        message().dedupe_key("K"),
        message(),
        message(),
    ];
    let script = Script::new().enqueue_all(&fresh.outbox, messages);
    let receipts = driver.play(script).await.all();
    assert!(receipts.iter().all(|receipt| receipt.new));
    assert_eq!(count(&fresh).await, 6);
}

// M5 P1
async fn duplicates_within_a_batch_meet_the_first_of_them<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let (old, new) = (Uuid::new_v4(), Uuid::new_v4());
    let script = Script::new().enqueue(&fresh.outbox, message().id(old).dedupe_key("old"));
    let existing = driver.play(script).await.receipt();
    let messages = vec![
        message().id(new),
        message().id(old),
        message().dedupe_key("a"),
        message().id(new),
        message().dedupe_key("a"),
        message().dedupe_key("old"),
        message(),
    ];
    let script = Script::new().enqueue_all(&fresh.outbox, messages);
    let receipts = driver.play(script).await.all();
    let made: Vec<bool> = receipts.iter().map(|receipt| receipt.new).collect();
    assert_eq!(made, [true, false, true, false, false, false, true]);
    let at = |n: usize| (receipts[n].id, receipts[n].sequence);
    let existing = (existing.id, existing.sequence);
    assert_eq!((at(1), at(5)), (existing, existing));
    assert_eq!((at(3), at(4)), (at(0), at(2)));
    assert_eq!(count(&fresh).await, 4);
}

/// Plays `second` while `first` has enqueued and not ended, and makes sure that it waits.
async fn race<D: Driver>(fresh: &Fresh, first: Script, second: Script) -> [Vec<bool>; 2] {
    let (mut one, mut other) = (D::connect(&fresh.url).await, D::connect(&fresh.url).await);
    let (enqueued, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let second = async {
        enqueued.notified().await;
        other.play(second).await
    };
    let referee = async {
        let waits = format!(
            "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%')",
            fresh.table.schema()
        );
        for _ in 0..1_000 {
            if fresh.client.query_one(&waits, &[]).await.unwrap().get(0) {
                return go.notify_one();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the second producer does not wait for the first");
    };
    let first = one.play(first.tell(&enqueued).wait(&go));
    let (first, second, ()) = tokio::join!(first, second, referee);
    [first, second].map(|played| {
        let receipts = played.receipts.into_iter().flat_map(Result::unwrap);
        receipts.map(|receipt| receipt.new).collect()
    })
}

// M5 B4
async fn a_producer_waits_for_its_twin_and_meets_it<D: Driver>() {
    let fresh = Fresh::new().await;
    let id = Uuid::new_v4();
    for message in [message().dedupe_key("k"), message().id(id)] {
        let script = || Script::new().enqueue(&fresh.outbox, message.clone());
        let made = race::<D>(&fresh, script(), script()).await;
        assert_eq!(made, [[true], [false]]);
    }
    assert_eq!(count(&fresh).await, 2);
}

// M5 M6
async fn a_producer_whose_twin_rolled_back_enqueues<D: Driver>() {
    let fresh = Fresh::new().await;
    let script = || Script::new().enqueue(&fresh.outbox, message().dedupe_key("k"));
    let made = race::<D>(&fresh, script().roll_back(), script()).await;
    assert_eq!(made, [[true], [true]]);
    assert_eq!(count(&fresh).await, 1);
}

// M5 P1
async fn a_batch_waits_for_its_twins_and_meets_them<D: Driver>() {
    let fresh = Fresh::new().await;
    let keyed = |keys: &[&str]| {
        let messages = keys.iter().map(|key| message().dedupe_key(*key)).collect();
        Script::new().enqueue_all(&fresh.outbox, messages)
    };
    let made = race::<D>(&fresh, keyed(&["a", "b"]), keyed(&["b", "c", "a"])).await;
    assert_eq!(made, [vec![true, true], vec![false, true, false]]);
    assert_eq!(count(&fresh).await, 3);
}
