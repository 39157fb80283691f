//! Order by key: events of one key strictly in sequence, other keys undisturbed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::store::OnFailure::{Block, Park, Skip};
use posthaste::store::{Act, Claim, Reach, Verdict};
use posthaste::{DeadReason, Event, Message, Status, Store};
use uuid::Uuid;

use super::{
    HOUR, TOPIC, by_key, claim_all, deliver, enqueue, ids, keyed, message, record, reject, retry,
    settle,
};
use crate::bed::Bed;

fn act() -> Act {
    Act {
        actor: "ops".to_owned(),
        why: "a test".to_owned(),
    }
}

pub async fn a_run_of_one_key_is_claimed_in_sequence(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "b", "a", "a", "b"])).await;
    let events = claim_all(&store, &by_key(3, Block)).await;
    assert_eq!(ids(&events), ids(&receipts[..3]));
    deliver(&store, &events).await;
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&events), ids(&receipts[3..]));
}

pub async fn a_key_waits_while_one_of_its_events_is_leased(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &keyed(&["a", "a", "b"])).await;
    let first = one.claim(&by_key(1, Block)).await.unwrap().events;
    assert_eq!(ids(&first), [receipts[0].id]);
    let others = claim_all(&other, &by_key(10, Block)).await;
    assert_eq!(ids(&others), [receipts[2].id]);
    deliver(&one, &first).await;
    let second = claim_all(&other, &by_key(10, Block)).await;
    assert_eq!(ids(&second), [receipts[1].id]);
}

pub async fn events_without_a_key_wait_for_nobody(bed: impl Bed) {
    let store = bed.relay().await;
    let mut messages = keyed(&["a", "a"]);
    messages.insert(1, message());
    messages.push(message());
    let receipts = enqueue(&bed, &messages).await;
    let first = store.claim(&by_key(1, Block)).await.unwrap().events;
    assert_eq!(ids(&first), [receipts[0].id]);
    let others = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&others), [receipts[1].id, receipts[3].id]);
}

pub async fn a_retried_head_holds_back_its_followers(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "b"])).await;
    let events = claim_all(&store, &by_key(10, Block)).await;
    retry(&store, &events[0], HOUR).await;
    settle(&store, &events[1], Verdict::Release).await;
    deliver(&store, &events[2..]).await;
    assert!(claim_all(&store, &by_key(10, Block)).await.is_empty());
    bed.pass(HOUR).await;
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&events), ids(&receipts[..2]));
}

// Its followers have been due for longer, and must not take its place in the batch.
pub async fn a_retried_head_goes_before_its_followers_in_the_smallest_claim(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "a"])).await;
    let head = store
        .claim(&by_key(1, Block))
        .await
        .unwrap()
        .events
        .remove(0);
    retry(&store, &head, Duration::ZERO).await;
    for receipt in receipts {
        let events = claim_all(&store, &by_key(1, Block)).await;
        assert_eq!(ids(&events), [receipt.id]);
        deliver(&store, &events).await;
    }
}

pub async fn followers_of_a_retried_head_do_not_fill_the_batch(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a"; 150])).await;
    let head = store
        .claim(&by_key(1, Block))
        .await
        .unwrap()
        .events
        .remove(0);
    retry(&store, &head, Duration::ZERO).await;
    let other = enqueue(&bed, &keyed(&["b"])).await[0].id;
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert!(ids(&events).contains(&other));
    assert_eq!(events[0].id, head.id);
    let mut rest = events;
    let mut order: Vec<Uuid> = Vec::new();
    while !rest.is_empty() {
        order.extend(
            rest.iter()
                .filter(|event| event.id != other)
                .map(|event| event.id),
        );
        deliver(&store, &rest).await;
        rest = claim_all(&store, &by_key(10, Block)).await;
    }
    assert_eq!(order, ids(&receipts));
}

// F9: or a destination that is down would never be tried again.
pub async fn followers_of_a_retried_head_do_not_hide_it_from_a_probe(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &keyed(&["a"; 500])).await;
    let probe = Claim {
        reach: Reach::Aside,
        ..by_key(1, Block)
    };
    for _ in 0..3 {
        let claimed = store.claim(&probe).await.unwrap();
        let [head] = &claimed.events[..] else {
            panic!("one event, not {}", claimed.events.len());
        };
        assert_eq!(head.attempts, 1);
        let later = Verdict::Postpone {
            delay: Duration::ZERO,
        };
        settle(&store, head, later).await;
    }
}

// F9: however many there are, it is found after some looks.
pub async fn a_probe_goes_past_any_number_of_followers(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a"; 10_500])).await;
    let probe = Claim {
        reach: Reach::Aside,
        ..by_key(1, Block)
    };
    let head = store.claim(&probe).await.unwrap().events.remove(0);
    retry(&store, &head, Duration::ZERO).await;
    let mut looks = 0;
    let again = loop {
        looks += 1;
        assert!(looks <= 3, "it is not found");
        if let Some(event) = store.claim(&probe).await.unwrap().events.pop() {
            break event;
        }
    };
    assert_eq!(again.id, head.id);
    deliver(&store, &[again]).await;
    // The next one is where the line begins.
    let next = store.claim(&probe).await.unwrap().events;
    assert_eq!(ids(&next), [receipts[1].id]);
}

pub async fn thousands_of_blocked_events_do_not_starve_others(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &keyed(&["stuck"])).await;
    let head = claim_all(&store, &by_key(1, Block)).await;
    assert_eq!(head.len(), 1);
    enqueue(&bed, &keyed(&["stuck"; 3000])).await;
    let mut free = enqueue(&bed, &keyed(&["a", "a"])).await;
    free.extend(enqueue(&bed, &[message()]).await);
    let events = claim_all(&store, &by_key(20, Block)).await;
    assert_eq!(ids(&events), ids(&free));
}

// M15
pub async fn a_dead_event_blocks_its_key_until_it_is_discarded(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "b"])).await;
    let events = store.claim(&by_key(1, Block)).await.unwrap().events;
    reject(&store, &events[0]).await;
    let others = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&others), [receipts[2].id]);
    store.discard(&[receipts[0].id], &act()).await.unwrap();
    let others = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&others), [receipts[1].id]);
}

// M15
pub async fn a_dead_event_that_is_redelivered_goes_first(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a"])).await;
    let events = store.claim(&by_key(1, Block)).await.unwrap().events;
    reject(&store, &events[0]).await;
    store.redeliver(&[receipts[0].id], &act()).await.unwrap();
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&events), ids(&receipts));
}

pub async fn a_pending_head_that_is_discarded_blocks_nobody(bed: impl Bed) {
    let store = bed.relay().await;
    let messages = [
        message().ordering_key("a").deliver_after(HOUR),
        message().ordering_key("a"),
    ];
    let receipts = enqueue(&bed, &messages).await;
    assert!(claim_all(&store, &by_key(10, Block)).await.is_empty());
    store.discard(&[receipts[0].id], &act()).await.unwrap();
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&events), [receipts[1].id]);
}

pub async fn followers_of_a_dead_event_are_parked_if_so_wished(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "b", "a"])).await;
    let events = store.claim(&by_key(1, Park)).await.unwrap().events;
    reject(&store, &events[0]).await;
    let claimed = store.claim(&by_key(10, Park)).await.unwrap();
    assert_eq!(ids(&claimed.events), [receipts[2].id]);
    let reasons: Vec<DeadReason> = claimed.died.iter().map(|died| died.reason).collect();
    assert_eq!(reasons, [DeadReason::Parked; 2]);
    for parked in [receipts[1].id, receipts[3].id] {
        let parked = record(&store, parked).await;
        assert_eq!((parked.status, parked.attempts), (Status::Dead, 0));
        assert_eq!(parked.dead_reason, Some(DeadReason::Parked));
    }
    let together = [receipts[3].id, receipts[0].id, receipts[1].id];
    store.redeliver(&together, &act()).await.unwrap();
    let events = claim_all(&store, &by_key(10, Park)).await;
    assert_eq!(
        ids(&events),
        [receipts[0].id, receipts[1].id, receipts[3].id]
    );
}

// What cannot be parked yet takes nobody's place in the batch.
pub async fn what_waits_behind_a_dead_and_a_retried_event_starves_nobody(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &keyed(&["a", "a", "a"])).await;
    let events = store.claim(&by_key(2, Park)).await.unwrap().events;
    reject(&store, &events[0]).await;
    retry(&store, &events[1], HOUR).await;
    let other = enqueue(&bed, &keyed(&["b"])).await;
    let claimed = store.claim(&by_key(1, Park)).await.unwrap();
    assert_eq!(ids(&claimed.events), ids(&other));
}

pub async fn followers_of_a_dead_event_go_on_if_so_wished(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a"])).await;
    let events = store.claim(&by_key(1, Skip)).await.unwrap().events;
    reject(&store, &events[0]).await;
    let events = claim_all(&store, &by_key(10, Skip)).await;
    assert_eq!(ids(&events), [receipts[1].id]);
}

// M8: what dies of a claim holds back its followers in that same claim.
pub async fn a_head_that_crashed_for_good_counts_as_dead_at_once(bed: impl Bed) {
    let store = bed.relay().await;
    for (on_failure, claimed, died) in [(Block, 0, 1), (Park, 0, 2), (Skip, 1, 1)] {
        let key = format!("{on_failure:?}");
        let claim = |limit| Claim {
            max_attempts: 1,
            ..by_key(limit, on_failure)
        };
        enqueue(&bed, &keyed(&[&key, &key])).await;
        assert_eq!(store.claim(&claim(1)).await.unwrap().events.len(), 1);
        bed.pass(HOUR).await;
        let found = store.claim(&claim(10)).await.unwrap();
        assert_eq!(
            (found.events.len(), found.died.len()),
            (claimed, died),
            "{key}"
        );
        let waiting = found.waiting;
        assert!(waiting.is_empty(), "nobody has it any more: {waiting:?}");
        deliver(&store, &found.events).await;
        let waiting = store.claim(&claim(10)).await.unwrap();
        assert!(
            waiting.events.is_empty() && waiting.died.is_empty(),
            "{key}"
        );
        // The next in turn starts with nothing that waits.
        let left = ids(&super::all(&store).await);
        store.discard(&left, &act()).await.unwrap();
    }
}

/// Delivers what it claims, now and then failing or handing back. Writes down what it delivered.
async fn work(
    store: impl Store,
    delivered: Arc<Mutex<Vec<(String, i64)>>>,
    total: usize,
    seed: usize,
) {
    let mut turn = seed;
    while delivered.lock().unwrap().len() < total {
        let mut claim = by_key(7, Block);
        let mut claimed = store.claim(&claim).await.unwrap();
        while claimed.events.is_empty() && claimed.more {
            claim.reach = Reach::Onward;
            claimed = store.claim(&claim).await.unwrap();
        }
        let events = claimed.events;
        let mut failed: Vec<String> = Vec::new();
        for event in &events {
            let key = event.ordering_key.clone().unwrap();
            if failed.contains(&key) {
                settle(&store, event, Verdict::Release).await;
                continue;
            }
            turn += 1;
            if turn.is_multiple_of(5) {
                retry(&store, event, Duration::ZERO).await;
                failed.push(key);
            } else {
                delivered.lock().unwrap().push((key, event.sequence));
                let keep = turn.is_multiple_of(2);
                settle(&store, event, Verdict::Delivered { keep }).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

// M13
pub async fn many_relays_keep_each_key_in_sequence(bed: impl Bed) {
    let keys: Vec<String> = (0..12).map(|n| format!("key-{n}")).collect();
    let messages: Vec<Message> = (0..240)
        .map(|n| message().ordering_key(&keys[n * 7 % 12]))
        .collect();
    enqueue(&bed, &messages).await;
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let mut relays = Vec::new();
    for seed in 0..4 {
        let store = bed.relay().await;
        relays.push(tokio::spawn(work(
            store,
            delivered.clone(),
            messages.len(),
            seed,
        )));
    }
    for relay in relays {
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, relay)
            .await
            .expect("an end")
            .unwrap();
    }
    let mut by_key: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (key, sequence) in delivered.lock().unwrap().drain(..) {
        by_key.entry(key).or_default().push(sequence);
    }
    for (key, sequences) in by_key {
        assert_eq!(sequences.len(), 20, "{key}");
        assert!(sequences.is_sorted_by(|a, b| a < b), "{key}: {sequences:?}");
    }
}

pub async fn events_of_a_key_after_a_retry_keep_their_sequence(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "a"])).await;
    let events: Vec<Event> = claim_all(&store, &by_key(10, Block)).await;
    for event in events.iter().rev() {
        retry(&store, event, Duration::ZERO).await;
    }
    let events = claim_all(&store, &by_key(10, Block)).await;
    assert_eq!(ids(&events), ids(&receipts));
}

// M7
pub async fn a_run_that_is_too_large_at_once_goes_on_where_it_was_cut(bed: impl Bed) {
    let store = bed.relay().await;
    let large = |key| Message::bytes(TOPIC, "text/plain", "x".repeat(1000)).ordering_key(key);
    let batch = ["a", "a", "b", "a", "b"].map(large);
    let receipts = enqueue(&bed, &batch).await;
    let claim = Claim {
        bytes: 2500,
        ..by_key(100, Block)
    };
    let first = store.claim(&claim).await.expect("a claim");
    assert_eq!(
        (ids(&first.events), first.more),
        (ids(&receipts[..3]), true)
    );
    deliver(&store, &first.events).await;
    let rest = claim_all(&store, &claim).await;
    assert_eq!(ids(&rest), ids(&receipts[3..]));
}

pub async fn a_claim_tells_the_keys_in_which_it_passed_events_that_wait(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &keyed(&["a", "a", "b"])).await;
    let head = store.claim(&by_key(1, Block)).await.expect("a claim");
    assert_eq!(
        (ids(&head.events), head.waiting),
        (ids(&receipts[..1]), vec![])
    );
    for expected in [&receipts[2..], &[]] {
        let claimed = store.claim(&by_key(10, Block)).await.expect("a claim");
        assert_eq!(
            (ids(&claimed.events), claimed.waiting),
            (ids(expected), vec!["a".to_owned()]),
            "of b nothing waits"
        );
    }
    deliver(&store, &head.events).await;
    let last = store.claim(&by_key(10, Block)).await.expect("a claim");
    assert_eq!(
        (ids(&last.events), last.waiting),
        (ids(&receipts[1..2]), vec![])
    );
}

pub async fn a_claim_for_some_keys_finds_their_first_events_and_no_others(bed: impl Bed) {
    let store = bed.relay().await;
    let mut messages = keyed(&["stuck"]);
    messages.extend(keyed(&["late"; 2]));
    enqueue(&bed, &messages).await;
    let heads = claim_all(&store, &by_key(3, Block)).await;
    retry(&store, &heads[1], Duration::ZERO).await;
    settle(&store, &heads[2], Verdict::Release).await;
    enqueue(&bed, &keyed(&["stuck"; 1500])).await;
    enqueue(&bed, &[message()]).await;
    let receipts = enqueue(&bed, &keyed(&["a", "b", "a", "dead", "dead"])).await;
    let of = |keys: &[&str]| Claim {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..by_key(100, Block)
    };
    // The first of it is due after the second.
    let late = claim_all(&store, &of(&["late"])).await;
    let sequences = late.iter().map(|event| event.sequence);
    assert!(sequences.eq(heads[1..].iter().map(|event| event.sequence)));
    let found = store
        .claim(&of(&["a", "a", "gone"]))
        .await
        .expect("a claim");
    assert_eq!(ids(&found.events), [receipts[0].id, receipts[2].id]);
    assert!(!found.more);
    let dead = claim_all(&store, &of(&["dead"])).await;
    reject(&store, &dead[0]).await;
    settle(&store, &dead[1], Verdict::Release).await;
    // What waits for a settlement, and what waits for an operator.
    let none = store.claim(&of(&["dead", "stuck", "a"])).await;
    let none = none.expect("a claim");
    assert!(none.events.is_empty() && !none.more);
    assert_eq!(none.waiting, ["stuck"]);
}
