//! From a command to the subscriber.

use farm::event::Catalogue;
use farm::publisher::settings;
use farm::subscriber::Subscriber;
use posthaste::Once;
use serde_json::json;
use uuid::Uuid;

use crate::scene::*;

// farm-0.2, farm-0.3, farm-1.6, farm-3.2, farm-3.4, farm-3.5, farm-5.1, farm-6.1, farm-6.5, farm-7.2, farm-11.4,
// F1, F5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_arrives_at_the_topic_exchange_with_its_id_type_and_routing_key() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let (field, barn) = scene.land().await;
    scene.farm.sow(field.id, "barley").await.unwrap();
    scene.farm.harvest(field.id, barn.id, 900).await.unwrap();
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    scene.has(3, "Processed").await;
    publishing.end().await;

    let mut arrived = scene.arrived(&broker).await;
    arrived.sort_by_key(|message| message.id);
    let rows = r#"select "Id" from "OutboxMessage" where "ProcessedAt" >= "CreatedAt" order by 1"#;
    let rows = scene.client.query(rows, &[]).await.unwrap();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        arrived.iter().map(|message| message.id).collect::<Vec<_>>(),
        ids
    );
    for message in &arrived {
        assert_eq!(message.exchange, "farmwise.events");
        let (name, body) = match message.routing_key.as_str() {
            "farm.field.crop-sown.v1" => (
                "FarmManagement.Domain.Fields.CropSown",
                json!({"field": field.id, "crop": "barley"}),
            ),
            "farm.field.crop-harvested.v1" => (
                "FarmManagement.Domain.Fields.CropHarvested",
                json!({"field": field.id, "crop": "barley", "kilograms": 900}),
            ),
            "farm.barn.crop-stored.v1" => (
                "FarmManagement.Domain.Barns.CropStored",
                json!({"barn": barn.id, "crop": "barley", "kilograms": 900}),
            ),
            other => panic!("{other}"),
        };
        assert_eq!((message.name.as_str(), &message.body), (name, &body));
    }
}

// farm-6.4, farm-10.2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_twice_is_handled_once() {
    let broker = broker().await;
    let scene = Scene::new(&broker).await;
    let opened = Subscriber::open(&scene.address, &broker.url(), "farm.twice").await;
    let mut subscriber = opened.unwrap();
    let event = Uuid::now_v7();
    for expected in [Once::First, Once::Again] {
        assert_eq!(subscriber.handle(event, "a").await.unwrap(), expected);
    }
    assert_eq!(scene.count("select count(*) from deliveries").await, 1);
}

// farm-10.5, F11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_processed_is_archived_after_its_retention() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let events = scene.sow(2).await;
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    scene.has(2, "Processed").await;
    publishing.end().await;
    let age =
        "update outbox_messages set delivered_at = delivered_at - interval '8 days' where id = $1";
    scene.client.execute(age, &[&events[0]]).await.unwrap();
    // It cleans when it starts, and then once a minute.
    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    scene.has(1, "Processed").await;
    publishing.end().await;
    let archived = "select id from outbox_messages_archive";
    let archived: Uuid = scene.client.query_one(archived, &[]).await.unwrap().get(0);
    assert_eq!(archived, events[0]);
}
