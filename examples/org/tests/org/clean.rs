//! The cleaner: what goes, what stays, and when.

use org::{HRM_OUTBOX, ORG_OUTBOX};
use posthaste::Status;
use posthaste_relay::sink::Outcome;
use uuid::Uuid;

use crate::support::*;

const OFTEN: (&str, &str) = ("OUTBOX_CLEANER_INTERVAL", "50ms");

/// Five events: old and new, delivered and dead, and one that waits and is the oldest of all.
async fn of_every_kind(scene: &Scene) -> Vec<Uuid> {
    let mut events = Vec::new();
    for name in ["delivered, old", "delivered, new", "dead, old", "dead, new"] {
        events.push(scene.create(name).await);
    }
    let witness = Witness::new();
    let bus = witness.bus(
        |event| match String::from_utf8_lossy(&event.payload).contains("dead") {
            true => Outcome::Reject("no".to_owned()),
            false => Outcome::Delivered,
        },
    );
    let relays = scene
        .relays(&[("OUTBOX_CLEANER_ENABLED", "false")], bus)
        .await;
    scene.until_settled().await;
    relays.stop().await;
    events.push(scene.create("waiting").await);
    let age = "update org_outbox set
                 created_at = created_at - interval '8 days',
                 delivered_at = delivered_at - interval '8 days',
                 dead_at = dead_at - interval '8 days'
               where id = any ($1)";
    let old = [events[0], events[2], events[4]];
    scene.client.execute(age, &[&&old[..]]).await.unwrap();
    events
}

/// Which of these are left.
async fn left(scene: &Scene, events: &[Uuid]) -> Vec<usize> {
    let mut left = Vec::new();
    for (place, event) in events.iter().enumerate() {
        if scene.store.show(*event).await.unwrap().is_some() {
            left.push(place);
        }
    }
    left
}

// org-9.10, org-10.1.12, org-10.1.13, org-6.2.12, B14
#[tokio::test]
async fn what_was_delivered_longer_ago_than_the_retention_goes_and_nothing_else() {
    let scene = Scene::new().await;
    let events = of_every_kind(&scene).await;
    let off = [OFTEN, ("OUTBOX_RELAY_ENABLED", "false")];
    let cleaner = scene.relays(&off, willing()).await;
    eventually("one is gone", async || {
        left(&scene, &events).await.len() < 5
    })
    .await;
    tokio::time::sleep(MS(150)).await;
    cleaner.stop().await;
    assert_eq!(left(&scene, &events).await, [1, 2, 3, 4]);
    assert_eq!(scene.event(events[4]).await.status, Status::Pending);
}

// org-9.11, org-10.1.14, B14
#[tokio::test]
async fn with_a_retention_for_the_dead_those_that_are_older_go_as_well() {
    let scene = Scene::new().await;
    let events = of_every_kind(&scene).await;
    let switches = [
        OFTEN,
        ("OUTBOX_RELAY_ENABLED", "false"),
        ("OUTBOX_CLEANER_DEAD_RETENTION", "168h"),
    ];
    let cleaner = scene.relays(&switches, willing()).await;
    eventually("two are gone", async || {
        left(&scene, &events).await.len() < 4
    })
    .await;
    tokio::time::sleep(MS(150)).await;
    cleaner.stop().await;
    assert_eq!(left(&scene, &events).await, [1, 3, 4]);
}

// org-10.1.10, org-10.1.11, org-10.3.2, B17
#[tokio::test]
async fn an_outbox_that_is_not_to_be_cleaned_keeps_everything() {
    let scene = Scene::new().await;
    let events = of_every_kind(&scene).await;
    let hrm_only = [OFTEN, ("OUTBOX_CLEANER_TABLES", HRM_OUTBOX)];
    let disabled = [OFTEN, ("OUTBOX_CLEANER_ENABLED", "false")];
    for switches in [&hrm_only[..], &disabled] {
        let relays = scene.relays(switches, willing()).await;
        scene.until(events[4], Status::Delivered).await;
        tokio::time::sleep(MS(150)).await;
        relays.stop().await;
        assert_eq!(left(&scene, &events).await.len(), 5);
    }
    let org_too = [OFTEN, ("OUTBOX_CLEANER_TABLES", ORG_OUTBOX)];
    let relays = scene.relays(&org_too, willing()).await;
    eventually("the old one is gone", async || {
        left(&scene, &events).await == [1, 2, 3, 4]
    })
    .await;
    relays.stop().await;
}
