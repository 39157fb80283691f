//! Inspect: counts, lists and single events, as operators and metrics see them.

use std::time::Duration;

use posthaste::store::{Claim, Filter, Scope, Stats, Verdict};
use posthaste::{Message, Record, Status, Store};
use uuid::Uuid;

use super::{HOUR, TOPIC, all, claim_all, enqueue, ids, message, messages, reject, retry, settle};
use crate::bed::Bed;

async fn counts(store: &impl Store) -> (u64, u64, u64) {
    let Stats {
        pending,
        processing,
        dead,
        ..
    } = store.stats().await.unwrap();
    (pending, processing, dead)
}

// B16, N6, F7
pub async fn stats_count_events_by_status(bed: impl Bed) {
    let store = bed.relay().await;
    assert_eq!(store.stats().await.unwrap(), Stats::default());
    enqueue(&bed, &messages(6)).await;
    let events = store.claim(&Claim::new(5)).await.unwrap().events;
    settle(&store, &events[0], Verdict::Delivered { keep: true }).await;
    settle(&store, &events[1], Verdict::Delivered { keep: false }).await;
    reject(&store, &events[2]).await;
    retry(&store, &events[3], HOUR).await;
    assert_eq!(counts(&store).await, (2, 1, 1));
}

// N6, F7
pub async fn stats_tell_for_how_long_the_oldest_event_has_been_due(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message().deliver_after(10 * HOUR)]).await;
    assert_eq!(store.stats().await.unwrap().oldest_pending, Duration::ZERO);
    enqueue(&bed, &[message()]).await;
    bed.pass(2 * HOUR).await;
    enqueue(&bed, &[message()]).await;
    let oldest = store.stats().await.unwrap().oldest_pending;
    assert!(oldest >= 2 * HOUR && oldest < 3 * HOUR, "{oldest:?}");
}

// F8
pub async fn stats_tell_what_is_stuck_even_if_its_lease_is_extended(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let claim = Claim {
        lease: HOUR,
        ..Claim::new(1)
    };
    let event = claim_all(&store, &claim).await.remove(0);
    bed.pass(Duration::from_secs(240)).await;
    assert_eq!(store.stats().await.unwrap().stuck, 0);
    assert!(store.extend(&[event.lease], HOUR).await.unwrap().is_empty());
    bed.pass(Duration::from_secs(120)).await;
    assert_eq!(store.stats().await.unwrap().stuck, 1);
}

// K6
pub async fn a_list_is_filtered_by_scope_and_status(bed: impl Bed) {
    let store = bed.relay().await;
    let (tenant, paid) = (Uuid::new_v4(), "shop.order.paid.v1");
    let receipts = enqueue(
        &bed,
        &[
            message(),
            message().namespace("shop"),
            Message::bytes(paid, "text/plain", "x"),
            message().tenant(tenant),
        ],
    )
    .await;
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    reject(&store, &event).await;
    let scoped = |change: &dyn Fn(&mut Scope)| {
        let mut filter = Filter::default();
        change(&mut filter.scope);
        filter
    };
    let status = |status| Filter {
        status: Some(status),
        ..Filter::default()
    };
    for (filter, expected) in [
        (Filter::default(), vec![0, 1, 2, 3]),
        (scoped(&|s| s.namespace = Some("shop".to_owned())), vec![1]),
        (
            scoped(&|s| s.namespace = Some(String::new())),
            vec![0, 2, 3],
        ),
        (scoped(&|s| s.topics = vec![paid.to_owned()]), vec![2]),
        (
            scoped(&|s| s.topics = vec![paid.to_owned(), TOPIC.to_owned()]),
            vec![0, 1, 2, 3],
        ),
        (scoped(&|s| s.tenant_id = Some(tenant)), vec![3]),
        (status(Status::Dead), vec![0]),
        (status(Status::Pending), vec![1, 2, 3]),
        (status(Status::Delivered), vec![]),
    ] {
        let expected: Vec<Uuid> = expected
            .into_iter()
            .map(|n: usize| receipts[n].id)
            .collect();
        assert_eq!(
            ids(&store.list(&filter, 10).await.unwrap()),
            expected,
            "{filter:?}"
        );
    }
}

// K6
pub async fn a_list_can_be_read_page_by_page(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(7)).await;
    let mut filter = Filter::default();
    let mut read: Vec<Record> = Vec::new();
    loop {
        let page = store.list(&filter, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        filter.after = Some(last.sequence);
        read.extend(page);
    }
    assert_eq!(ids(&read), ids(&receipts));
}

// K6
pub async fn one_event_can_be_looked_at(bed: impl Bed) {
    let store = bed.relay().await;
    let tenant = Uuid::new_v4();
    let message = message()
        .namespace("shop")
        .tenant(tenant)
        .ordering_key("42");
    let receipt = enqueue(&bed, &[message]).await[0];
    let shown = store.show(receipt.id).await.unwrap().expect("an event");
    assert_eq!((shown.id, shown.sequence), (receipt.id, receipt.sequence));
    assert_eq!(
        (shown.namespace.as_str(), shown.topic.as_str()),
        ("shop", TOPIC)
    );
    assert_eq!(shown.tenant_id, Some(tenant));
    assert_eq!(shown.ordering_key.as_deref(), Some("42"));
    assert_eq!(all(&store).await, [shown]);
    assert_eq!(store.show(Uuid::new_v4()).await.unwrap(), None);
}
