//! What operators do to events: redeliver and discard, with an audit log.

use posthaste::store::{Act, Audit, Claim, Verdict};
use posthaste::{DeadReason, Status, Store};
use uuid::Uuid;

use super::{
    TOPIC, all, ann, claim_all, deliver, enqueue, ids, message, messages, record, reject, settle,
};
use crate::bed::Bed;

fn act() -> Act {
    Act {
        actor: "ann".to_owned(),
        why: "the warehouse is back".to_owned(),
    }
}

/// The audit log, oldest first, as act, event and why. All of it is what Ann did.
async fn log(store: &impl Store) -> Vec<(String, Uuid, String)> {
    let log = store.audit(None, 100).await.unwrap();
    let told = |entry: Audit| {
        assert_eq!((entry.actor.as_str(), entry.topic.as_str()), ("ann", TOPIC));
        (entry.act, entry.event_id, entry.why)
    };
    log.into_iter().rev().map(told).collect()
}

fn entry(act: &str, event_id: Uuid, why: &str) -> (String, Uuid, String) {
    (act.to_owned(), event_id, why.to_owned())
}

// K6
pub async fn what_concerns_no_single_event_is_written_down_too(bed: impl Bed) {
    let store = bed.relay().await;
    store.note("clean", &act()).await.unwrap();
    let log = store.audit(None, 10).await.unwrap();
    let [entry] = &log[..] else {
        panic!("one entry, not {log:?}");
    };
    assert_eq!((entry.actor.as_str(), entry.act.as_str()), ("ann", "clean"));
    assert_eq!((entry.event_id, &entry.why), (Uuid::nil(), &act().why));
}

// mini-chat-1.2.6, M15
pub async fn a_dead_event_comes_back_with_all_its_attempts(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    reject(&store, &event).await;
    assert_eq!(
        store.redeliver(&[event.id], &act()).await.unwrap(),
        [event.id]
    );
    let back = record(&store, event.id).await;
    assert_eq!((back.status, back.attempts), (Status::Pending, 0));
    assert_eq!(back.dead_reason, None);
    let again = claim_all(&store, &Claim::new(1)).await.remove(0);
    assert_eq!((again.id, again.attempts), (event.id, 1));
    assert!(again.lease.epoch > event.lease.epoch);
    assert_eq!(
        log(&store).await,
        [entry("redeliver", event.id, &act().why)]
    );
}

// M15: delivered is final; what is sent again is a new event.
pub async fn a_delivered_event_is_sent_again_as_a_new_one(bed: impl Bed) {
    let store = bed.relay().await;
    let original = message()
        .namespace("shop")
        .ordering_key("42")
        .dedupe_key("a")
        .header("source", "checkout");
    enqueue(&bed, &[original]).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    settle(&store, &event, Verdict::Delivered { keep: true }).await;
    let before = record(&store, event.id).await;
    let ids = store.redeliver(&[event.id], &act()).await.unwrap();
    assert_eq!(ids.len(), 1);
    assert_ne!(ids[0], event.id);
    assert_eq!(record(&store, event.id).await, before);

    let again = claim_all(&store, &Claim::new(10)).await.remove(0);
    assert_eq!((again.id, again.attempts), (ids[0], 1));
    assert_eq!(
        again.headers["posthaste-redelivery-of"],
        event.id.to_string()
    );
    assert_eq!(again.headers["source"], "checkout");
    assert_eq!(
        (again.namespace.as_str(), again.topic.as_str()),
        ("shop", TOPIC)
    );
    assert_eq!(again.ordering_key, event.ordering_key);
    assert_eq!(
        (&again.payload, &again.content_type),
        (&event.payload, &event.content_type)
    );
    assert_eq!(again.dedupe_key, None);
    assert!(again.sequence > event.sequence);
    let why = format!("{} (as {})", act().why, ids[0]);
    assert_eq!(log(&store).await, [entry("redeliver", event.id, &why)]);
}

// M15
pub async fn live_and_unknown_events_are_not_redelivered(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    store.claim(&Claim::new(1)).await.unwrap();
    let before = all(&store).await;
    let mut ids = ids(&before);
    ids.push(Uuid::new_v4());
    assert!(store.redeliver(&ids, &act()).await.unwrap().is_empty());
    assert_eq!(all(&store).await, before);
    assert!(log(&store).await.is_empty());
}

// M15, K6
pub async fn pending_and_dead_events_can_be_discarded(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(2)).await;
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    reject(&store, &event).await;
    for receipt in &receipts {
        let discarded = store.discard(&[receipt.id], &act()).await.unwrap();
        assert_eq!(discarded, [receipt.id]);
        let record = record(&store, receipt.id).await;
        assert_eq!(record.status, Status::Dead);
        assert_eq!(record.dead_reason, Some(DeadReason::Discarded));
    }
    assert!(claim_all(&store, &Claim::new(10)).await.is_empty());
    assert!(
        store
            .discard(&ids(&receipts), &act())
            .await
            .unwrap()
            .is_empty()
    );
    let entries: Vec<_> = receipts
        .iter()
        .map(|receipt| entry("discard", receipt.id, &act().why))
        .collect();
    assert_eq!(log(&store).await, entries);
    // And brought back, if that was a mistake.
    let back = store.redeliver(&[receipts[0].id], &act()).await.unwrap();
    assert_eq!(ids(&claim_all(&store, &Claim::new(10)).await), back);
}

// M15
pub async fn leased_and_delivered_events_are_not_discarded(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&store, &Claim::new(2)).await;
    deliver(&store, &events[..1]).await;
    let before = all(&store).await;
    assert!(
        store
            .discard(&ids(&events), &act())
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(all(&store).await, before);
    deliver(&store, &events[1..]).await;
}

// M15
pub async fn the_audit_log_is_told_page_by_page(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(7)).await;
    let ids: Vec<_> = receipts.iter().map(|receipt| receipt.id).collect();
    // Some at the same time, others later.
    for some in [&ids[..4], &ids[4..6], &ids[6..]] {
        store.discard(some, &ann()).await.unwrap();
    }
    let whole = store.audit(None, 100).await.unwrap();
    assert_eq!(whole.len(), 7);
    for size in [1, 2, 3, 7, 8] {
        let (mut told, mut from) = (Vec::new(), None);
        loop {
            let page = store.audit_from(None, from, size).await.unwrap();
            let Some(last) = Audit::last(&page, from) else {
                break;
            };
            from = Some(last);
            told.extend(page);
        }
        assert_eq!(told, whole, "in pages of {size}");
    }
}

pub async fn the_audit_log_of_one_event_is_told_latest_first(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(2)).await;
    let because = |why: &str| Act {
        why: why.to_owned(),
        ..act()
    };
    for receipt in &receipts {
        store.discard(&[receipt.id], &because("1")).await.unwrap();
        store.redeliver(&[receipt.id], &because("2")).await.unwrap();
        store.discard(&[receipt.id], &because("3")).await.unwrap();
    }
    let told =
        |log: Vec<Audit>| -> Vec<String> { log.into_iter().map(|entry| entry.why).collect() };
    let of_one = store.audit(Some(receipts[0].id), 100).await.unwrap();
    assert!(of_one.iter().all(|entry| entry.event_id == receipts[0].id));
    assert!(
        of_one
            .iter()
            .is_sorted_by(|later, earlier| later.at >= earlier.at)
    );
    assert_eq!(told(of_one), ["3", "2", "1"]);
    let latest = store.audit(None, 2).await.unwrap();
    assert!(latest.iter().all(|entry| entry.event_id == receipts[1].id));
    assert_eq!(told(latest), ["3", "2"]);
    assert!(
        store
            .audit(Some(Uuid::new_v4()), 100)
            .await
            .unwrap()
            .is_empty()
    );
}

// B22: a name or a reason with a quote, or with what a database cannot hold, is written all the same.
pub async fn odd_names_and_reasons_are_written_down(bed: impl Bed) {
    let store = bed.relay().await;
    let receipt = enqueue(&bed, &[message()]).await[0];
    let odd = Act {
        actor: "o'Neill \\\"; --".to_owned(),
        why: "100 % \u{1f600}\0".to_owned(),
    };
    assert_eq!(
        store.discard(&[receipt.id], &odd).await.unwrap(),
        [receipt.id]
    );
    let entry = store.audit(None, 1).await.unwrap().remove(0);
    assert_eq!(entry.actor, odd.actor);
    assert_eq!(entry.why, "100 % \u{1f600}\u{fffd}");
}
