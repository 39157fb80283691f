//! An order and its event, and what a consumer makes of it.

use logistics::order::OrderCreated;
use logistics::warehouse::Warehouse;
use logistics::worker::{settings, worker};
use posthaste::Once;
use uuid::Uuid;

use crate::scene::*;

// logistics-0.2, logistics-1.1, logistics-1.2, logistics-2.1, logistics-2.2, logistics-2.3, logistics-2.4, logistics-2.5,
// logistics-2.6, logistics-2.7, logistics-2.8, logistics-2.9, logistics-2.10, logistics-5.1, logistics-5.2, M6, N1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_and_its_event_are_written_together_or_not_at_all() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    // The database refuses the order, after its event was enqueued.
    assert!(scene.orders.create(&order(0)).await.is_err());
    let good = order(12);
    let event = scene.orders.create(&good).await.unwrap();
    assert_eq!(scene.count("select count(*) from orders").await, 1);
    let sql =
        "select id, aggregate_type, aggregate_id, event_type, payload::text, occurred_at <= now(),
                      status, retry_count, next_attempt_at <= now(),
                      last_error is null and processed_at is null
               from outbox_events_view";
    let row = scene.client.query_one(sql, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, Uuid>(0), row.get::<_, Uuid>(2)),
        (event, good.id)
    );
    assert_eq!((row.get(1), row.get(3)), ("Order", "OrderCreated"));
    let payload: OrderCreated = serde_json::from_str(row.get(4)).unwrap();
    assert_eq!(
        payload,
        OrderCreated {
            message_id: event,
            order_id: good.id,
            destination: good.destination,
            kilograms: 12,
        }
    );
    assert_eq!((row.get(6), row.get(7)), ("PENDING", 0));
    for column in [5, 8, 9] {
        assert!(row.get::<_, bool>(column), "{column}");
    }
}

// logistics-2.13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_an_order_is_found_by_an_index() {
    let broker = broker().await;
    let scene = Scene::new(&broker).await;
    // With so few rows a server would rather read all of them.
    scene
        .client
        .batch_execute("set enable_seqscan = off")
        .await
        .unwrap();
    let sql = "explain select * from outbox_events where aggregate_type = 'Order' and aggregate_id = '42'";
    let plan = scene.client.query(sql, &[]).await.unwrap();
    let plan: String = plan.iter().map(|row| row.get::<_, &str>(0)).collect();
    assert!(plan.contains("idx_outbox_aggregate"), "{plan}");
}

// logistics-2.11, logistics-3.4, logistics-3.5, N3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_has_its_id_in_the_body_and_beside_it() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let events = scene.order(3).await;
    let worker = worker(&scene.address, &broker.url(), settings())
        .await
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(worker.run(async { drop(stopped.await) }));
    scene.has(3, "PUBLISHED").await;
    drop(stop);
    working.await.unwrap();
    let arrived = scene.arrived(&broker).await;
    assert_eq!(arrived.len(), 3);
    for event in events {
        assert_eq!(arrived[&event].len(), 1);
        assert_eq!(arrived[&event][0]["messageId"], event.to_string());
    }
    let done = "select count(*) from outbox_events_view where processed_at >= occurred_at";
    assert_eq!(scene.count(done).await, 3);
}

// logistics-3.9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_twice_is_shipped_once() {
    let broker = broker().await;
    let scene = Scene::new(&broker).await;
    let opened = Warehouse::open(&scene.address, &broker.url(), "warehouse.twice").await;
    let mut warehouse = opened.unwrap();
    let event = OrderCreated {
        message_id: Uuid::now_v7(),
        order_id: Uuid::now_v7(),
        destination: "Bremen".to_owned(),
        kilograms: 12,
    };
    for expected in [Once::First, Once::Again] {
        assert_eq!(warehouse.ship(&event).await.unwrap(), expected);
    }
    assert_eq!(scene.count("select count(*) from shipments").await, 1);
}
