//! Events that cannot be sent: five attempts, then FAILED, and back by the admin command.

use std::time::Duration;

use posthaste::store::Ending;
use posthaste::{Message, Outbox};
use serde_json::json;
use uuid::Uuid;

use crate::scene::*;

// order-service-2.10, order-service-3.3, order-service-5.2, order-service-5.3, order-service-6.1, order-service-6.2,
// order-service-6.3, order-service-6.4, order-service-7.3, K4, K6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_fails_after_five_attempts_on_the_ladder_and_comes_back_by_the_admin_command() {
    let mut scene = Scene::new().await;
    let brokers = kafka().await;
    // A new kind of event, whose topic nobody has made yet.
    let kind = format!("Refund-{}", Uuid::new_v4().simple());
    let message = Message::json("orders.refund.made.v1", &json!({"cents": 2990})).unwrap();
    let message = message.aggregate(&kind, Uuid::now_v7().to_string());
    let transaction = scene.client.transaction().await.unwrap();
    let outbox = Outbox::new(order_service::OUTBOX).unwrap();
    let refund = outbox.enqueue(&transaction, &message).await.unwrap().id;
    transaction.commit().await.unwrap();
    let publishing = scene.publish(&brokers).await;

    // Orders are not held up.
    for _ in 0..20 {
        scene.orders.place(&order(1)).await.unwrap();
    }
    scene.has(20, "SENT").await;
    scene.has(1, "FAILED").await;

    let store = scene.store().await;
    let attempts = store.history(refund).await.unwrap();
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    for attempt in &attempts {
        assert_eq!(attempt.ending, Ending::Failed);
    }
    // Each waits for twice as long as the one before, by the clock of the database. Counted from when an attempt
    // began: its end is written down a moment after it was decided when to try again.
    for (pair, least) in attempts.windows(2).zip([100, 200, 400, 800]) {
        let waited = pair[1]
            .claimed_at
            .unwrap()
            .duration_since(pair[0].claimed_at.unwrap());
        assert!(waited.unwrap() >= Duration::from_millis(least), "{pair:?}");
    }
    let error = "select error_message from order_events where status = 'FAILED'";
    let error: String = scene.client.query_one(error, &[]).await.unwrap().get(0);
    assert!(error.contains("does not exist: create it"), "{error}");

    // It stays until an operator has mended the cause.
    let dead = scene.posthaste(&["dead"]);
    assert!(dead.contains(&refund.to_string()), "{dead}");
    let topic = format!("order-service.{kind}");
    create_topic(&brokers, &topic).await;
    let id = refund.to_string();
    let told = scene.posthaste(&["redeliver", &id, "--why", "the topic is there now", "--yes"]);
    assert!(told.contains("redelivered 1 event"), "{told}");
    scene.has(21, "SENT").await;
    publishing.end().await;
    let arrived = read(&brokers, &topic).await;
    assert_eq!(arrived.len(), 1);
    assert_eq!(arrived[0].id(), refund);
    let audit = store.audit(Some(refund), 10).await.unwrap();
    assert_eq!(audit[0].why, "the topic is there now");
}

// order-service-7.3, K7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_is_kept_for_thirty_days_and_what_was_not_for_ever() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push(scene.orders.place(&order(1)).await.unwrap().event);
    }
    let publishing = scene.publish(&brokers).await;
    scene.has(4, "SENT").await;
    publishing.end().await;
    let age = "update outbox set created_at = created_at - $2 * interval '1 day',
                                 delivered_at = delivered_at - $2 * interval '1 day' where id = $1";
    for (event, days) in events.iter().zip([29.0, 31.0, 31.0, 31.0]) {
        scene.client.execute(age, &[event, &days]).await.unwrap();
    }
    // Of those that are old, one waits and one has failed.
    let states = [
        (
            2,
            "status = 'pending', delivered_at = null, next_attempt_at = 'tomorrow'",
        ),
        (
            3,
            "status = 'dead', delivered_at = null, dead_at = created_at, dead_reason = 'exhausted'",
        ),
    ];
    for (place, state) in states {
        let sql = format!("update outbox set {state} where id = $1");
        scene.client.execute(&sql, &[&events[place]]).await.unwrap();
    }
    // It cleans when it starts, and then once a minute.
    let publishing = scene.publish(&brokers).await;
    eventually("it is cleaned", async || {
        scene.count("select count(*) from outbox").await == 3
    })
    .await;
    publishing.end().await;
    let left = scene
        .client
        .query("select id from outbox order by sequence", &[])
        .await
        .unwrap();
    let left: Vec<Uuid> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [events[0], events[2], events[3]]);
}
