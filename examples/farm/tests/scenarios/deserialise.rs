//! Failure scenario 2: an event that cannot be deserialised.

use farm::event::{Catalogue, DomainEvent};
use farm::publisher::settings;
use posthaste::{DeadReason, Message, Outbox, Status};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::scene::*;

/// An event that the next version of the farm knows.
#[derive(Serialize, Deserialize)]
struct SoilSampled {
    field: Uuid,
    acidity: f64,
}

impl DomainEvent for SoilSampled {
    const TYPE: &'static str = "FarmManagement.Domain.Fields.SoilSampled";
    const TOPIC: &'static str = "farm.field.soil-sampled.v1";
}

// farm-1.8, farm-5.2, farm-9.4, farm-9.5, farm-11.5, F6, K6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_deserialised_fails_at_once_and_is_reprocessed_by_hand_after_a_fix() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let field = Uuid::now_v7();
    let sample = SoilSampled {
        field,
        acidity: 6.5,
    };
    let unknown = sample.message("Field", field).unwrap();
    // And one whose payload is not what its type says.
    let broken = Message::json("farm.field.crop-sown.v1", &"a secret")
        .unwrap()
        .event_type("FarmManagement.Domain.Fields.CropSown");
    let outbox = Outbox::new(farm::OUTBOX).unwrap();
    let transaction = scene.client.transaction().await.unwrap();
    let enqueued = outbox
        .enqueue_all(&transaction, &[unknown, broken])
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let fine = scene.sow(3).await;

    let publishing = scene
        .publish(&broker.url(), Catalogue::new(), settings())
        .await;
    scene.has(2, "Failed").await;
    // Others are not held up.
    scene.has(3, "Processed").await;
    publishing.end().await;
    for (receipt, why) in enqueued
        .iter()
        .zip(["there is no event type", "this is no"])
    {
        let event = scene.event(receipt.id).await;
        assert_eq!(event.dead_reason, Some(DeadReason::Rejected));
        assert_eq!(event.attempts, 1, "at once, without further attempts");
        let error = event.last_error.unwrap();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
    assert_eq!(scene.arrived(&broker).await.len(), fine.len());

    // The code is fixed, and a person has it processed again.
    let fixed = Catalogue::new().with::<SoilSampled>();
    let publishing = scene.publish(&broker.url(), fixed, settings()).await;
    let id = enqueued[0].id.to_string();
    let told = scene.posthaste(&["redeliver", &id, "--why", "version 2 reads it", "--yes"]);
    assert!(told.contains("redelivered 1 event"), "{told}");
    scene.has(4, "Processed").await;
    publishing.end().await;
    let arrived = scene.arrived(&broker).await;
    let sample = arrived.iter().find(|message| message.id == enqueued[0].id);
    assert_eq!(sample.unwrap().body["acidity"], 6.5);
    assert_eq!(scene.event(enqueued[1].id).await.status, Status::Dead);
}
