//! Claim: which events, in which order, and what it makes of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::store::{Claim, Died, Reach, Scope};
use posthaste::{DeadReason, Message, Status, Store};
use uuid::Uuid;

use super::{
    HOUR, TOPIC, claim_all, deliver, enqueue, eventually, ids, message, messages, record, retry,
};
use crate::bed::Bed;

// logistics-3.1, order-service-4.3, M7
pub async fn due_events_are_claimed_oldest_first(bed: impl Bed) {
    let store = bed.relay().await;
    let mut expected = Vec::new();
    for batch in [3, 1, 5] {
        expected.extend(ids(&enqueue(&bed, &messages(batch)).await));
    }
    let claimed = store.claim(&Claim::new(100)).await.expect("a claim");
    assert_eq!(ids(&claimed.events), expected);
    assert!(!claimed.more);
}

// M7
pub async fn a_claim_takes_no_more_than_its_limit(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(5)).await;
    let first = store.claim(&Claim::new(3)).await.expect("a claim");
    assert_eq!((first.events.len(), first.more), (3, true));
    let second = store.claim(&Claim::new(3)).await.expect("a claim");
    assert_eq!((second.events.len(), second.more), (2, false));
}

// M7: of large events fewer, whether the database compresses them or not.
pub async fn a_claim_takes_no_more_bytes_than_wished_but_at_least_one_event(bed: impl Bed) {
    let store = bed.relay().await;
    let bytes = Message::bytes(TOPIC, "text/plain", "x".repeat(100_000));
    let json = Message::json(TOPIC, &"x".repeat(100_000)).expect("JSON");
    let receipts = enqueue(&bed, &[vec![bytes; 4], vec![json; 4]].concat()).await;
    let claim = Claim {
        bytes: 150_000,
        ..Claim::new(100)
    };
    let first = store.claim(&claim).await.expect("a claim");
    assert_eq!(
        (ids(&first.events), first.more),
        (ids(&receipts[..2]), true)
    );
    let tiny = Claim {
        bytes: 1,
        reach: Reach::Onward,
        ..claim.clone()
    };
    let second = store.claim(&tiny).await.expect("a claim");
    assert_eq!(
        (ids(&second.events), second.more),
        (ids(&receipts[2..3]), true)
    );
    assert_eq!(ids(&claim_all(&store, &claim).await), ids(&receipts[3..]));
}

// M7
pub async fn a_claim_says_who_holds_the_event_and_until_when(bed: impl Bed) {
    let store = bed.relay().await;
    let id = enqueue(&bed, &[message()]).await[0].id;
    bed.pass(HOUR).await;
    let before = record(&store, id).await;
    let claim = Claim {
        lease: 2 * HOUR,
        ..Claim::new(1)
    };
    let event = claim_all(&store, &claim).await.remove(0);
    assert_eq!((event.lease.owner, event.lease.epoch), (store.owner(), 1));
    assert_eq!(event.attempts, 1);
    assert!(event.age >= HOUR && event.age < 2 * HOUR);
    let after = record(&store, id).await;
    assert_eq!(after.status, Status::Processing);
    assert_eq!((after.attempts, after.lease_epoch), (1, 1));
    assert_eq!(after.lease_owner, Some(store.owner()));
    assert!(after.updated_at >= before.updated_at + HOUR / 2);
    let until = after.lease_until.expect("a lease");
    let length = until
        .duration_since(after.updated_at)
        .expect("a lease ahead");
    assert!(
        length.abs_diff(2 * HOUR) < Duration::from_secs(60),
        "{length:?}"
    );
}

// logistics-3.1, M7, M13
pub async fn what_is_leased_is_not_claimed_again(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(3)).await;
    assert_eq!(claim_all(&one, &Claim::new(10)).await.len(), 3);
    assert!(claim_all(&one, &Claim::new(10)).await.is_empty());
    assert!(claim_all(&other, &Claim::new(10)).await.is_empty());
}

// M7, M13: a store may have looked at the next events already.
pub async fn what_others_claimed_settled_or_put_off_between_two_claims_is_left_alone(
    bed: impl Bed,
) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &messages(8)).await;
    let onward = Claim {
        reach: Reach::Onward,
        ..Claim::new(2)
    };
    let mut mine = one.claim(&onward).await.expect("a claim").events;
    let theirs = other.claim(&Claim::new(3)).await.expect("a claim").events;
    assert_eq!(ids(&theirs), ids(&receipts[2..5]));
    deliver(&other, &theirs[..1]).await;
    retry(&other, &theirs[1], HOUR).await;
    loop {
        let claimed = one.claim(&onward).await.expect("a claim");
        mine.extend(claimed.events);
        if !claimed.more {
            break;
        }
    }
    let left = [&receipts[..2], &receipts[5..]].concat();
    assert_eq!(ids(&mine), ids(&left));
}

// M7
pub async fn an_expired_lease_is_claimed_again(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let id = enqueue(&bed, &[message()]).await[0].id;
    claim_all(&one, &Claim::new(10)).await;
    bed.pass(HOUR).await;
    let event = claim_all(&other, &Claim::new(10)).await.remove(0);
    assert_eq!((event.id, event.attempts), (id, 2));
    assert_eq!((event.lease.owner, event.lease.epoch), (other.owner(), 2));
}

// M7
pub async fn an_event_that_is_not_due_is_left_alone(bed: impl Bed) {
    let store = bed.relay().await;
    let later = message().deliver_after(HOUR);
    let receipts = enqueue(&bed, &[later, message()]).await;
    let events = claim_all(&store, &Claim::new(10)).await;
    assert_eq!(ids(&events), [receipts[1].id]);
}

// M7: the namespace, the topic, the tenant, and all of them.
pub async fn a_claim_keeps_to_its_scope(bed: impl Bed) {
    let store = bed.relay().await;
    let (tenant, paid) = (Uuid::new_v4(), "shop.order.paid.v1");
    let receipts = enqueue(
        &bed,
        &[
            message(),
            message().namespace("shop"),
            Message::bytes(paid, "text/plain", "x"),
            message().tenant(tenant),
            Message::bytes(paid, "text/plain", "x")
                .namespace("shop")
                .tenant(tenant),
        ],
    )
    .await;
    let namespace = Some("shop".to_owned());
    let topics = vec![paid.to_owned(), "shop.order.lost.v1".to_owned()];
    let everything = Scope {
        namespace: namespace.clone(),
        topics: topics.clone(),
        tenant_id: Some(tenant),
    };
    let only = |change: fn(&mut Scope, Scope)| {
        let mut scope = Scope::default();
        change(&mut scope, everything.clone());
        scope
    };
    for (scope, expected) in [
        (everything.clone(), vec![4]),
        (only(|s, all| s.namespace = all.namespace), vec![1]),
        (only(|s, all| s.topics = all.topics), vec![2]),
        (only(|s, all| s.tenant_id = all.tenant_id), vec![3]),
        (Scope::default(), vec![0]),
    ] {
        let claim = Claim {
            scope,
            ..Claim::new(10)
        };
        let expected: Vec<Uuid> = expected
            .into_iter()
            .map(|n: usize| receipts[n].id)
            .collect();
        assert_eq!(ids(&claim_all(&store, &claim).await), expected);
    }
}

// M7, F9
pub async fn topics_whose_destination_is_down_are_left_alone(bed: impl Bed) {
    let store = bed.relay().await;
    let paid = "shop.order.paid.v1";
    let other = Message::bytes(paid, "text/plain", "x");
    let receipts = enqueue(&bed, &[message(), other, message()]).await;
    let claim = Claim {
        except_topics: vec![TOPIC.to_owned()],
        ..Claim::new(10)
    };
    assert_eq!(ids(&claim_all(&store, &claim).await), [receipts[1].id]);
    let events = claim_all(&store, &Claim::new(10)).await;
    assert_eq!(ids(&events), [receipts[0].id, receipts[2].id]);
    assert_eq!(events[0].attempts, 1);
}

/// The first event of an outbox, as one that died.
fn died(id: Uuid, attempts: u32, reason: DeadReason) -> Died {
    Died {
        id,
        sequence: 1,
        topic: TOPIC.to_owned(),
        tenant_id: None,
        attempts,
        reason,
    }
}

// M8
pub async fn a_crash_on_the_last_attempt_is_dead(bed: impl Bed) {
    let store = bed.relay().await;
    let id = enqueue(&bed, &[message()]).await[0].id;
    let claim = Claim {
        max_attempts: 2,
        ..Claim::new(10)
    };
    for attempt in 1..=2 {
        assert_eq!(claim_all(&store, &claim).await[0].attempts, attempt);
        bed.pass(HOUR).await;
    }
    let claimed = store.claim(&claim).await.expect("a claim");
    assert!(claimed.events.is_empty());
    assert_eq!(claimed.died, [died(id, 2, DeadReason::Crashed)]);
    let record = record(&store, id).await;
    assert_eq!(record.status, Status::Dead);
    assert_eq!(record.dead_reason, Some(DeadReason::Crashed));
    assert_eq!((record.attempts, record.lease_owner), (2, None));
}

// M8: as after the number of attempts was lowered.
pub async fn a_pending_event_without_an_attempt_left_is_dead(bed: impl Bed) {
    let store = bed.relay().await;
    let id = enqueue(&bed, &[message()]).await[0].id;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    retry(&store, &event, Duration::ZERO).await;
    let claim = Claim {
        max_attempts: 1,
        ..Claim::new(10)
    };
    let claimed = store.claim(&claim).await.expect("a claim");
    assert_eq!(claimed.died, [died(id, 1, DeadReason::Exhausted)]);
    let record = record(&store, id).await;
    assert_eq!(record.dead_reason, Some(DeadReason::Exhausted));
    assert_eq!(record.attempts, 1);
    assert!(claim_all(&store, &Claim::new(10)).await.is_empty());
}

// M13
pub async fn eight_relays_never_claim_the_same_event(bed: impl Bed) {
    enqueue(&bed, &messages(2000)).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut relays = Vec::new();
    for _ in 0..8 {
        let (store, seen) = (bed.relay().await, seen.clone());
        relays.push(tokio::spawn(async move {
            // One that finds nothing may have come while others held everything.
            for _ in 0..3 {
                loop {
                    let events = store.claim(&Claim::new(40)).await.expect("a claim").events;
                    if events.is_empty() {
                        break;
                    }
                    seen.lock().unwrap().extend(ids(&events));
                    deliver(&store, &events).await;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    for relay in relays {
        relay.await.expect("a relay");
    }
    let mut seen = Arc::into_inner(seen).unwrap().into_inner().unwrap();
    // What was locked at the very moment when the last relay looked.
    let store = bed.relay().await;
    seen.extend(ids(&claim_all(&store, &Claim::new(2000)).await));
    assert_eq!(seen.len(), 2000);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>().len(), 2000);
}

// M7
pub async fn claims_that_go_onward_reach_every_event(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(500)).await;
    let events = claim_all(&store, &Claim::new(50)).await;
    assert_eq!(ids(&events), ids(&receipts));
    let later = enqueue(&bed, &messages(1)).await;
    let onward = Claim {
        reach: Reach::Onward,
        ..Claim::new(50)
    };
    eventually("an event enqueued later", || async {
        let events = store.claim(&onward).await.expect("a claim").events;
        (!events.is_empty()).then(|| assert_eq!(ids(&events), ids(&later)))
    })
    .await;
}

// F9: a destination that is full for a moment loses neither its events nor its place in the line.
pub async fn what_a_claim_leaves_out_stays_where_it_was_for_the_next(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(20)).await;
    bed.pass(HOUR).await;
    let few = |reach, except_topics: &[&str]| Claim {
        reach,
        except_topics: except_topics
            .iter()
            .map(|&topic| topic.to_owned())
            .collect(),
        ..Claim::new(5)
    };
    let claim = async |reach, except: &[&str]| {
        let claimed = store.claim(&few(reach, except)).await;
        ids(&claimed.expect("a claim").events)
    };
    let received = ids(&receipts);
    assert_eq!(claim(Reach::Oldest, &[]).await, received[..5]);
    // Nothing, again and again, then something, and nothing again.
    for _ in 0..3 {
        assert!(claim(Reach::Onward, &[TOPIC]).await.is_empty());
    }
    let other = Message::bytes("shop.order.paid.v1", "text/plain", "x");
    let paid = ids(&enqueue(&bed, &[other]).await);
    assert_eq!(claim(Reach::Onward, &[TOPIC]).await, paid);
    assert!(claim(Reach::Onward, &[TOPIC, "more"]).await.is_empty());
    for next in received[5..].chunks(5) {
        assert_eq!(claim(Reach::Onward, &[]).await, next);
        assert!(claim(Reach::Onward, &[TOPIC]).await.is_empty());
    }
}
