//! Groups: dead events by what they died of.

use posthaste::store::{Claim, Filter, Group, fingerprint};
use posthaste::{DeadReason, Message, Pattern, Status, Store};

use super::{HOUR, TOPIC, ann, claim_all, die, enqueue, message, retry};
use crate::bed::Bed;

const OTHER: &str = "shop.order.paid.v1";

/// Five dead events of three kinds, a live one with an error, and a delivered one.
async fn dead(bed: &impl Bed, store: &impl Store) -> Vec<posthaste::Event> {
    let other = Message::bytes(OTHER, "text/plain", "x");
    enqueue(
        bed,
        &[message(), other, message(), message(), message(), message()],
    )
    .await;
    let events = claim_all(store, &Claim::new(6)).await;
    let rejected = DeadReason::Rejected;
    die(store, &events[0], rejected, "order 7 is unknown").await;
    die(store, &events[1], rejected, "order 12345 is unknown").await;
    die(
        store,
        &events[2],
        DeadReason::Exhausted,
        "order 8 is unknown",
    )
    .await;
    die(store, &events[3], rejected, "no answer from \"db-1\"").await;
    die(store, &events[4], rejected, "order 9 is unknown").await;
    retry(store, &events[5], HOUR).await;
    events
}

fn sizes(groups: &[Group]) -> Vec<(u64, DeadReason)> {
    let mut sizes: Vec<_> = groups
        .iter()
        .map(|group| (group.count, group.reason))
        .collect();
    sizes.sort_by_key(|(count, reason)| (std::cmp::Reverse(*count), reason.as_str()));
    sizes
}

pub async fn dead_events_are_grouped_by_kind_of_error_and_reason(bed: impl Bed) {
    let store = bed.relay().await;
    assert!(
        store
            .groups(&Filter::default(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    let events = dead(&bed, &store).await;
    let groups = store.groups(&Filter::default(), 10).await.unwrap();
    assert_eq!(
        sizes(&groups),
        [
            (3, DeadReason::Rejected),
            (1, DeadReason::Exhausted),
            (1, DeadReason::Rejected)
        ]
    );
    let largest = &groups[0];
    assert_eq!(largest.fingerprint, fingerprint("order 4711 is unknown"));
    assert_eq!(largest.error.as_deref(), Some("order 9 is unknown"));
    assert_eq!(largest.topics, [OTHER, TOPIC]);
    assert_eq!(largest.sample, events[4].id);
    assert!(largest.oldest < largest.newest);
    assert_eq!(store.groups(&Filter::default(), 1).await.unwrap().len(), 1);
}

pub async fn groups_keep_to_their_filter(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store).await;
    let of = async |filter: Filter| sizes(&store.groups(&filter, 10).await.unwrap());
    let any = Filter::default;
    let topic = Filter {
        topic: Some(Pattern::new(OTHER)),
        ..any()
    };
    assert_eq!(of(topic).await, [(1, DeadReason::Rejected)]);
    let reason = Filter {
        reason: Some(DeadReason::Exhausted),
        ..any()
    };
    assert_eq!(of(reason).await, [(1, DeadReason::Exhausted)]);
    let live = Filter {
        status: vec![Status::Pending],
        ..any()
    };
    assert!(of(live).await.is_empty());
    let named = Filter {
        ids: vec![events[0].id, events[5].id],
        ..any()
    };
    assert_eq!(of(named).await, [(1, DeadReason::Rejected)]);
}

// K6, B18
pub async fn a_group_can_be_listed_counted_and_redelivered(bed: impl Bed) {
    let store = bed.relay().await;
    let events = dead(&bed, &store).await;
    let group = store.groups(&Filter::default(), 1).await.unwrap().remove(0);
    let filter = Filter {
        fingerprint: Some(group.fingerprint),
        reason: Some(group.reason),
        ..Filter::default()
    };
    assert_eq!(store.count(&filter).await.unwrap(), group.count);
    let listed: Vec<_> = store
        .list(&filter, 10)
        .await
        .unwrap()
        .iter()
        .map(|record| record.id)
        .collect();
    assert_eq!(listed, [events[0].id, events[1].id, events[4].id]);
    store.redeliver(&listed, &ann()).await.unwrap();
    assert_eq!(store.count(&filter).await.unwrap(), 0);
    // A live event has an error, too, and is in no group.
    let waits = Filter {
        fingerprint: Some(fingerprint("no answer")),
        ..Filter::default()
    };
    assert_eq!(store.count(&waits).await.unwrap(), 0);
}
