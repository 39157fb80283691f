//! From an order to its message in Kafka.

use std::collections::HashMap;

use order_service::{OrderCreated, OrderError};
use posthaste::{Message, Once, Outbox};
use serde_json::Value;
use uuid::Uuid;

use crate::scene::*;

// order-service-1.1, order-service-1.2, order-service-1.3, order-service-2.1, order-service-2.2, order-service-2.3,
// order-service-2.4, order-service-2.5, order-service-2.6, order-service-2.7, order-service-2.8, order-service-2.9,
// order-service-3.1, order-service-3.2, order-service-5.1, order-service-7.1, order-service-7.4, K1, K3, K8, K9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_order_arrives_in_kafka_complete_and_with_the_id_of_its_event() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let mut placed = HashMap::new();
    for quantity in 1..=25 {
        let order = order(quantity);
        let done = scene.orders.place(&order).await.unwrap();
        placed.insert(done.event, (done.order, order));
    }
    // Nobody has published yet.
    assert_eq!(scene.statuses().await["NEW"], 25);
    let publishing = scene.publish(&brokers).await;
    scene.has(25, "SENT").await;
    publishing.end().await;

    let mut arrived = read(&brokers, "order-service.Order").await;
    // Others use the same topic.
    arrived.retain(|record| placed.contains_key(&record.id()));
    assert_eq!(arrived.len(), 25, "each of them once");
    for record in &arrived {
        let (id, order) = &placed[&record.id()];
        assert_eq!(record.key, id.to_string());
        assert_eq!(record.headers["posthaste-type"], "OrderCreated");
        let event: OrderCreated = serde_json::from_value(record.body.clone()).unwrap();
        let line = &order.lines[0];
        assert_eq!(
            event,
            OrderCreated {
                event_id: record.id(),
                order_id: *id,
                customer_id: order.customer,
                lines: order.lines.clone(),
                total_cents: i64::from(line.quantity) * line.cents,
            }
        );
    }
    let rows = scene
        .client
        .query(
            "select e.id, aggregate_type, aggregate_id, event_type, payload, sent_at >= e.created_at
             from order_events e join orders on orders.id = aggregate_id",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(rows.len(), 25);
    for row in rows {
        let (event, order): (Uuid, Uuid) = (row.get(0), row.get(2));
        assert_eq!(placed[&event].0, order);
        assert_eq!(row.get::<_, &str>(1), "Order");
        assert_eq!(row.get::<_, &str>(3), "OrderCreated");
        let payload: Value = serde_json::from_str(row.get(4)).unwrap();
        assert_eq!(payload["eventId"], event.to_string());
        assert!(row.get::<_, bool>(5), "sent, and after it was created");
    }
}

// order-service-1.2, order-service-7.1, M6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_fails_after_its_event_was_enqueued_leaves_neither() {
    let scene = Scene::new().await;
    let refused = scene.orders.place(&order(1001)).await;
    assert!(matches!(refused, Err(OrderError::SoldOut { sku }) if sku == "lamp"));
    scene.orders.place(&order(1000)).await.unwrap();
    for table in ["orders", "order_lines", "order_events"] {
        let rows = scene.count(&format!("select count(*) from {table}")).await;
        assert_eq!(rows, 1, "{table}");
    }
}

// order-service-4.4, order-service-7.2, B8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_publisher_works_in_transactions_of_its_own() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let publishing = scene.publish(&brokers).await;

    // A business transaction that takes its time.
    let mut slow = connect(&scene.address).await;
    let transaction = slow.transaction().await.unwrap();
    let outbox = Outbox::new(order_service::OUTBOX).unwrap();
    let message = Message::json("orders.order.created.v1", &1).unwrap();
    let message = message.aggregate("Order", Uuid::now_v7().to_string());
    outbox.enqueue(&transaction, &message).await.unwrap();

    // It keeps neither other orders nor the publisher waiting, and what it holds is not sent.
    scene.orders.place(&order(1)).await.unwrap();
    scene.has(1, "SENT").await;
    assert_eq!(scene.statuses().await.values().sum::<i64>(), 1);
    transaction.commit().await.unwrap();
    scene.has(2, "SENT").await;
    publishing.end().await;
}

// order-service-4.6, M13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_instances_of_the_service_send_each_order_once() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(scene.publish(&brokers).await);
    }
    let mut events = Vec::new();
    for _ in 0..100 {
        events.push(scene.orders.place(&order(1)).await.unwrap().event);
    }
    scene.has(100, "SENT").await;
    for instance in instances {
        instance.end().await;
    }
    let mut arrived: Vec<Uuid> = read(&brokers, "order-service.Order")
        .await
        .iter()
        .map(Record::id)
        .filter(|id| events.contains(id))
        .collect();
    arrived.sort();
    events.sort();
    assert_eq!(arrived, events);
}

// order-service-4.5, M5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_twice_makes_one_invoice() {
    let scene = Scene::new().await;
    let brokers = kafka().await;
    let billing = order_service::Billing::open(&scene.address, &brokers)
        .await
        .unwrap();
    let event = OrderCreated {
        event_id: Uuid::now_v7(),
        order_id: Uuid::now_v7(),
        customer_id: Uuid::now_v7(),
        lines: Vec::new(),
        total_cents: 1,
    };
    for expected in [Once::First, Once::Again, Once::Again] {
        assert_eq!(
            billing.bill(event.event_id, &event).await.unwrap(),
            expected
        );
    }
    assert_eq!(scene.count("select count(*) from invoices").await, 1);
}

// order-service-2.12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_one_order_are_found_by_an_index() {
    let scene = Scene::new().await;
    // With so few rows a server would rather read all of them.
    scene
        .client
        .batch_execute("set enable_seqscan = off")
        .await
        .unwrap();
    let sql = "explain select * from outbox where aggregate_id = '42'";
    let plan = scene.client.query(sql, &[]).await.unwrap();
    let plan: String = plan.iter().map(|row| row.get::<_, &str>(0)).collect();
    assert!(plan.contains("idx_outbox_aggregate"), "{plan}");
}
