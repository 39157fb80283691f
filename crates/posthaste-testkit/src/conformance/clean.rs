//! Clean: what goes, what stays, and how much at a time.

use std::slice::from_ref;
use std::time::Duration;

use posthaste::store::{Claim, Clean, Verdict};
use posthaste::{Status, Store};

use super::{
    HOUR, all, claim_all, deliver, enqueue, ids, message, messages, reject, retry, settle,
};
use crate::bed::Bed;

fn week() -> Clean {
    Clean {
        retention: 7 * 24 * HOUR,
        dead_retention: None,
        archive: false,
        limit: 100,
    }
}

/// One event of each status, in this order: delivered, dead, pending, retried, processing.
async fn one_of_each(bed: &impl Bed, store: &impl Store) {
    enqueue(bed, &messages(2)).await;
    let events = claim_all(store, &Claim::new(2)).await;
    settle(store, &events[0], Verdict::Delivered { keep: true }).await;
    reject(store, &events[1]).await;
    enqueue(bed, &messages(2)).await;
    let events = claim_all(store, &Claim::new(2)).await;
    settle(store, &events[0], Verdict::Release).await;
    retry(store, &events[1], HOUR).await;
    let claimed = store.claim(&Claim::new(1)).await.unwrap().events;
    enqueue(bed, &[message()]).await;
    assert_eq!(claimed.len(), 1);
}

// B14, K7, F11
pub async fn only_delivered_events_past_their_retention_go(bed: impl Bed) {
    let store = bed.relay().await;
    one_of_each(&bed, &store).await;
    assert_eq!(store.clean(&week()).await.unwrap(), 0);
    bed.pass(6 * 24 * HOUR).await;
    assert_eq!(store.clean(&week()).await.unwrap(), 0);
    bed.pass(2 * 24 * HOUR).await;
    assert_eq!(store.clean(&week()).await.unwrap(), 1);
    let left = all(&store).await;
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|record| record.status != Status::Delivered));
}

// B14
pub async fn dead_events_stay_unless_they_have_a_retention(bed: impl Bed) {
    let store = bed.relay().await;
    one_of_each(&bed, &store).await;
    bed.pass(1000 * 24 * HOUR).await;
    store.clean(&week()).await.unwrap();
    assert_eq!(store.stats().await.unwrap().dead, 1);
    let clean = |days: u32| Clean {
        dead_retention: Some(days * 24 * HOUR),
        ..week()
    };
    assert_eq!(store.clean(&clean(1001)).await.unwrap(), 0);
    assert_eq!(store.clean(&clean(30)).await.unwrap(), 1);
    assert_eq!(store.stats().await.unwrap().dead, 0);
}

// B14: however old they are.
pub async fn live_events_never_go(bed: impl Bed) {
    let store = bed.relay().await;
    one_of_each(&bed, &store).await;
    bed.pass(1000 * 24 * HOUR).await;
    let everything = Clean {
        retention: Duration::ZERO,
        dead_retention: Some(Duration::ZERO),
        ..week()
    };
    assert_eq!(store.clean(&everything).await.unwrap(), 2);
    assert_eq!(store.clean(&everything).await.unwrap(), 0);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending, stats.processing), (2, 1));
}

// B14
pub async fn cleaning_goes_in_bounded_batches(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(25)).await;
    let events = claim_all(&store, &Claim::new(25)).await;
    deliver(&store, &events[..15]).await;
    for event in &events[15..] {
        reject(&store, event).await;
    }
    bed.pass(HOUR).await;
    let clean = Clean {
        retention: Duration::from_secs(60),
        dead_retention: Some(Duration::from_secs(60)),
        archive: false,
        limit: 10,
    };
    assert_eq!(store.clean(&clean).await.unwrap(), 10);
    // The oldest go first.
    assert_eq!(ids(&all(&store).await), ids(&events[10..]));
    assert_eq!(store.clean(&clean).await.unwrap(), 10);
    assert_eq!(store.clean(&clean).await.unwrap(), 5);
    assert_eq!(store.clean(&clean).await.unwrap(), 0);
}

// B14, K7
pub async fn an_archive_keeps_what_is_cleaned(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(5)).await;
    let events = claim_all(&store, &Claim::new(5)).await;
    deliver(&store, &events[..3]).await;
    bed.pass(HOUR).await;
    let clean = Clean {
        retention: Duration::ZERO,
        archive: true,
        limit: 2,
        ..week()
    };
    assert_eq!(store.clean(&clean).await.unwrap(), 2);
    assert_eq!(store.clean(&clean).await.unwrap(), 1);
    assert_eq!(bed.archive().await, ids(&events[..3]));
    assert_eq!(ids(&all(&store).await), ids(&events[3..]));
}

// B14, K7
pub async fn events_are_removed_by_name_only_once_they_have_ended(bed: impl Bed) {
    let store = bed.relay().await;
    one_of_each(&bed, &store).await;
    let named = ids(&all(&store).await);
    let unknown = [uuid::Uuid::new_v4()];
    assert_eq!(store.remove(&unknown, false).await.unwrap(), 0);
    let (delivered, rest) = named.split_at(1);
    assert_eq!(store.remove(delivered, true).await.unwrap(), 1);
    assert_eq!(bed.archive().await, delivered);
    let dead = &rest[..1];
    assert!(!store.history(dead[0]).await.unwrap().is_empty());
    assert_eq!(store.remove(&named, false).await.unwrap(), 1);
    assert_eq!(ids(&all(&store).await), &rest[1..], "the live stay");
    assert_eq!(bed.archive().await, delivered, "the dead one is gone");
    assert!(store.history(dead[0]).await.unwrap().is_empty());
}

// M5: for as long as the first is kept.
pub async fn a_cleaned_dedupe_key_is_free_again(bed: impl Bed) {
    let store = bed.relay().await;
    let message = message().dedupe_key("a");
    enqueue(&bed, from_ref(&message)).await;
    deliver(&store, &claim_all(&store, &Claim::new(1)).await).await;
    assert!(!enqueue(&bed, from_ref(&message)).await[0].new);
    bed.pass(8 * 24 * HOUR).await;
    assert_eq!(store.clean(&week()).await.unwrap(), 1);
    assert!(enqueue(&bed, &[message]).await[0].new);
}
