//! Saving: aggregates and their events, in one transaction or not at all. Failure scenario 4.

use farm::FarmError;
use farm::aggregate::{Barn, Field};
use farm::event::{CropHarvested, CropStored, DomainEvent};
use posthaste::EnqueueError;
use uuid::Uuid;

use crate::scene::*;

// farm-0.1, farm-1.1, farm-1.2, farm-1.3, farm-1.4, farm-1.5, farm-1.7, farm-2.1, farm-2.2, farm-2.3, farm-2.4,
// farm-2.6, farm-6.3, farm-11.1, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_aggregates_raise_is_saved_with_them_and_then_forgotten() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let (mut field, mut barn) = scene.land().await;
    field.sow("barley").unwrap();
    let crop = field.harvest(900).unwrap();
    barn.store(&crop, 900).unwrap();
    assert_eq!(
        (field.events.messages().len(), barn.events.messages().len()),
        (2, 1)
    );
    let saved = scene
        .farm
        .save_changes(&mut [&mut field, &mut barn])
        .await
        .unwrap();
    assert!(field.events.is_empty() && barn.events.is_empty());

    let sql = r#"select "Id", "EventType", "Payload", "Status", "RetryCount", "CreatedAt" <= now(),
                        "ProcessedAt" is null and "Error" is null
                 from "OutboxMessage" join outbox_messages on id = "Id" order by sequence"#;
    let rows = scene.client.query(sql, &[]).await.unwrap();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        ids,
        saved.iter().map(|receipt| receipt.id).collect::<Vec<_>>()
    );
    let names: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
    assert_eq!(
        names,
        [
            "FarmManagement.Domain.Fields.CropSown",
            "FarmManagement.Domain.Fields.CropHarvested",
            "FarmManagement.Domain.Barns.CropStored"
        ]
    );
    let harvested: CropHarvested = serde_json::from_str(rows[1].get(2)).unwrap();
    assert_eq!((harvested.field, harvested.kilograms), (field.id, 900));
    let stored: CropStored = serde_json::from_str(rows[2].get(2)).unwrap();
    assert_eq!((stored.barn, stored.kilograms), (barn.id, 900));
    for row in &rows {
        assert_eq!((row.get(3), row.get(4)), ("Pending", 0));
        assert!(row.get::<_, bool>(5) && row.get::<_, bool>(6));
    }
    // The aggregates are there as well, and saving them again makes no event.
    assert_eq!(scene.count("select stored from barns").await, 900);
    let again = scene.farm.save_changes(&mut [&mut field, &mut barn]).await;
    assert!(again.unwrap().is_empty());
}

// farm-2.5, farm-6.3, farm-9.8, farm-9.9, farm-11.1, farm-11.5, M6, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_fails_leaves_no_change_and_no_event() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let (field, barn) = scene.land().await;
    scene.farm.sow(field.id, "barley").await.unwrap();

    // The database refuses: the harvest does not fit.
    let refused = scene.farm.harvest(field.id, barn.id, 10_001).await;
    assert!(matches!(refused, Err(FarmError::BarnFull)), "{refused:?}");

    // Somebody else was faster.
    let mut late = Field::new("late");
    late.id = field.id;
    late.sow("rye").unwrap();
    let refused = scene.farm.save_changes(&mut [&mut late]).await;
    assert!(matches!(refused, Err(FarmError::Conflict)), "{refused:?}");

    // The commit itself fails, after all statements were accepted.
    let sql = "create function no() returns trigger language plpgsql as
                 $$ begin raise exception 'not on a Sunday'; end $$;
               create constraint trigger sunday after insert on barns
                 deferrable initially deferred for each row execute function no()";
    scene.client.batch_execute(sql).await.unwrap();
    let mut unsaved = Barn::new(100);
    unsaved.store("oats", 5).unwrap();
    let refused = scene.farm.save_changes(&mut [&mut unsaved]).await;
    assert!(
        matches!(refused, Err(FarmError::Database(_))),
        "{refused:?}"
    );

    let left = "select (select count(*) from barns) * 100 + (select count(*) from outbox_messages)";
    assert_eq!(
        scene.count(left).await,
        101,
        "one barn, and the event of the sowing"
    );
    assert_eq!(scene.count("select stored from barns").await, 0);
    assert_eq!(
        scene
            .count("select count(*) from fields where crop = 'barley'")
            .await,
        1
    );

    // What was raised is kept, so that it can be saved when the cause is mended: as the same event.
    let kept = unsaved.events.messages().to_vec();
    assert_eq!(kept.len(), 1);
    scene
        .client
        .batch_execute("drop trigger sunday on barns")
        .await
        .unwrap();
    let saved = scene.farm.save_changes(&mut [&mut unsaved]).await.unwrap();
    assert_eq!((saved.len(), saved[0].new), (1, true));
    assert!(unsaved.events.is_empty());
}

// farm-10.1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_not_small_is_refused_and_nothing_is_saved() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let (field, _) = scene.land().await;
    let refused = scene.farm.sow(field.id, &"wheat".repeat(4000)).await;
    assert!(
        matches!(
            refused,
            Err(FarmError::Event(EnqueueError::PayloadTooLarge { .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(
        scene
            .count("select count(*) from fields where crop is null")
            .await,
        1
    );
    assert_eq!(scene.count("select count(*) from outbox_messages").await, 0);
}

// farm-12.2, F10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_outbox_tells_the_history_of_an_aggregate() {
    use posthaste::store::Filter;

    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let (field, barn) = scene.land().await;
    for crop in ["barley", "rye"] {
        scene.farm.sow(field.id, crop).await.unwrap();
        scene.farm.harvest(field.id, barn.id, 10).await.unwrap();
    }
    let of_field = Filter {
        aggregate_type: Some("Field".to_owned()),
        aggregate_id: Some(field.id.to_string()),
        ..Filter::default()
    };
    let history = scene.store.list(&of_field, 10).await.unwrap();
    let names: Vec<_> = history.iter().map(|event| event.topic.as_str()).collect();
    let (sown, harvested) = ("farm.field.crop-sown.v1", CropHarvested::TOPIC);
    assert_eq!(names, [sown, harvested, sown, harvested]);
}
