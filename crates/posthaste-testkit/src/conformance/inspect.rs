//! Inspect: counts, lists and single events, as operators and metrics see them.

use std::time::Duration;

use posthaste::store::{Act, Claim, Filter, Mark, Stats, Verdict};
use posthaste::{Message, Record, Store, TraceContext};
use uuid::Uuid;

use super::{
    HOUR, TOPIC, all, claim_all, deliver, enqueue, ids, message, messages, record, reject, retry,
    settle,
};
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
    assert_eq!(counts(&store).await, (0, 0, 0));
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

// K6, F10: whoever may see the one may not always see the other.
pub async fn what_an_event_says_is_told_apart_from_its_state(bed: impl Bed) {
    let store = bed.relay().await;
    let json = Message::json_text(TOPIC, r#"{"order":42}"#)
        .unwrap()
        .header("source", "checkout");
    let bytes = Message::bytes(TOPIC, "application/octet-stream", [0, 159, 146, 150]);
    let trace = TraceContext {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        tracestate: None,
    };
    let bytes = bytes
        .aggregate("order", "42")
        .event_type("OrderPlaced")
        .dedupe_key("k")
        .trace(trace.clone());
    let receipts = enqueue(&bed, &[json, bytes]).await;
    let said = store
        .content(receipts[0].id)
        .await
        .unwrap()
        .expect("an event");
    assert_eq!(said.content_type, "application/json");
    assert_eq!(said.headers["source"], "checkout");
    let value = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap();
    assert_eq!(value(&said.payload), value(br#"{"order":42}"#));
    let said = store
        .content(receipts[1].id)
        .await
        .unwrap()
        .expect("an event");
    assert_eq!(said.content_type, "application/octet-stream");
    assert!(said.headers.is_empty());
    assert_eq!(&said.payload[..], [0, 159, 146, 150]);
    assert_eq!(store.content(Uuid::new_v4()).await.unwrap(), None);

    let shown = record(&store, receipts[1].id).await;
    assert_eq!(shown.content_type, "application/octet-stream");
    assert_eq!(shown.aggregate_type.as_deref(), Some("order"));
    assert_eq!(shown.aggregate_id.as_deref(), Some("42"));
    assert_eq!(shown.event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(shown.dedupe_key.as_deref(), Some("k"));
    assert_eq!(shown.traceparent, Some(trace.traceparent));
    assert_eq!((shown.delivered_at, shown.dead_at), (None, None));
}

// K6
pub async fn what_ended_is_told_in_the_order_in_which_it_did(bed: impl Bed) {
    let store = bed.relay().await;
    assert!(store.finished(None, 10).await.unwrap().is_empty());
    enqueue(&bed, &messages(6)).await;
    let events = claim_all(&store, &Claim::new(6)).await;
    let keep = || Verdict::Delivered { keep: true };
    settle(&store, &events[3], keep()).await;
    reject(&store, &events[1]).await;
    settle(&store, &events[4], Verdict::Delivered { keep: false }).await;
    settle(&store, &events[0], keep()).await;
    retry(&store, &events[2], HOUR).await;
    let finished = store.finished(None, 10).await.unwrap();
    assert_eq!(ids(&finished), [events[3].id, events[1].id, events[0].id]);
    assert!(finished[1].dead_at.is_some());
    assert!(finished.iter().map(Record::mark).is_sorted());
    // The latest of them, if there are too many.
    let latest = store.finished(None, 2).await.unwrap();
    assert_eq!(ids(&latest), [events[1].id, events[0].id]);
    // What came back has not ended.
    let act = Act {
        actor: "ann".to_owned(),
        why: "again".to_owned(),
    };
    store.redeliver(&[events[1].id], &act).await.unwrap();
    let finished = store.finished(None, 10).await.unwrap();
    assert_eq!(ids(&finished), [events[3].id, events[0].id]);
}

// K6
pub async fn what_ended_can_be_followed_from_a_mark(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(25)).await;
    let events = claim_all(&store, &Claim::new(25)).await;
    // Many at the same time, and some one by one.
    deliver(&store, &events[..20]).await;
    for event in &events[20..] {
        reject(&store, event).await;
    }
    let mut followed = Vec::new();
    let mut mark = Mark::START;
    loop {
        let page = store.finished(Some(mark), 7).await.unwrap();
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        assert!(last.mark().unwrap() > mark);
        mark = last.mark().unwrap();
        followed.extend(page);
    }
    let mut found = ids(&followed);
    found.sort();
    let mut expected = ids(&receipts);
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(ids(&followed[20..]), ids(&events[20..]));
    // Whoever looks back sees them again.
    let again = store.finished(Some(mark.back(HOUR)), 100).await.unwrap();
    assert_eq!(ids(&again), ids(&followed));
}
