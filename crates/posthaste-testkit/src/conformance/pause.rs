//! Pauses: who paused what, and why.

use posthaste::Store;
use posthaste::store::{Act, Target};
use uuid::Uuid;

use super::ann;
use crate::bed::Bed;

fn warehouse() -> Target {
    Target::Destination("warehouse".to_owned())
}

async fn paused(store: &impl Store) -> Vec<Target> {
    let pauses = store.pauses().await.unwrap();
    pauses.into_iter().map(|pause| pause.target).collect()
}

pub async fn an_outbox_and_its_destinations_are_paused_and_resumed(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    assert!(paused(&one).await.is_empty());
    assert!(one.pause(&warehouse(), &ann()).await.unwrap());
    assert!(one.pause(&Target::Outbox, &ann()).await.unwrap());
    assert_eq!(paused(&other).await, [Target::Outbox, warehouse()]);
    assert!(other.resume(&Target::Outbox, &ann()).await.unwrap());
    assert_eq!(paused(&one).await, [warehouse()]);
    assert!(!other.resume(&Target::Outbox, &ann()).await.unwrap());
    assert!(other.resume(&warehouse(), &ann()).await.unwrap());
    assert!(paused(&one).await.is_empty());
}

pub async fn a_pause_is_kept_as_it_was_made(bed: impl Bed) {
    let store = bed.relay().await;
    assert!(store.pause(&warehouse(), &ann()).await.unwrap());
    let bob = Act {
        actor: "bob".to_owned(),
        why: "me, too".to_owned(),
    };
    assert!(!store.pause(&warehouse(), &bob).await.unwrap());
    let pauses = store.pauses().await.unwrap();
    assert_eq!(pauses.len(), 1);
    assert_eq!(
        (&pauses[0].actor, &pauses[0].why),
        (&ann().actor, &ann().why)
    );
}

// K6
pub async fn pauses_are_written_down(bed: impl Bed) {
    let store = bed.relay().await;
    store.pause(&Target::Outbox, &ann()).await.unwrap();
    store.pause(&Target::Outbox, &ann()).await.unwrap();
    store.pause(&warehouse(), &ann()).await.unwrap();
    store.resume(&warehouse(), &ann()).await.unwrap();
    store.resume(&warehouse(), &ann()).await.unwrap();
    let log = store.audit(None, 10).await.unwrap();
    let told: Vec<_> = log
        .iter()
        .rev()
        .map(|entry| (entry.act.as_str(), entry.why.as_str()))
        .collect();
    let of = "the warehouse is back (destination warehouse)";
    assert_eq!(
        told,
        [
            ("pause", "the warehouse is back"),
            ("pause", of),
            ("resume", of)
        ]
    );
    assert!(log.iter().all(|entry| entry.event_id == Uuid::nil()));
}
