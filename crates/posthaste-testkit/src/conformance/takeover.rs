//! Takeover: what becomes of the leases, and the lead, of a relay that is gone.

use std::collections::HashSet;
use std::sync::Mutex;
use std::task::Poll;

use posthaste::store::OnFailure::Block;
use posthaste::store::{Claim, Reach, Settlement, Verdict};
use posthaste::{DeadReason, Event, Status, Store};

use super::{
    HOUR, by_key, claim_all, deliver, enqueue, eventually, ids, keyed, message, messages, record,
    settle,
};
use crate::bed::Bed;

fn for_hours() -> Claim {
    Claim {
        lease: 10 * HOUR,
        ..Claim::new(10)
    }
}

/// Looks for what others left behind until it gets something.
async fn take_over(store: &impl Store, claim: &Claim) -> Vec<Event> {
    eventually("events of a relay that is gone", || async {
        store.take_over().await.unwrap();
        let events = claim_all(store, claim).await;
        (!events.is_empty()).then_some(events)
    })
    .await
}

// N4
pub async fn events_of_a_killed_relay_are_claimed_long_before_their_lease_ends(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &messages(3)).await;
    assert_eq!(claim_all(&victim, &for_hours()).await.len(), 3);
    bed.kill(victim);
    let events = take_over(&heir, &for_hours()).await;
    assert_eq!(ids(&events), ids(&receipts));
    assert!(events.iter().all(|event| event.attempts == 2));
    deliver(&heir, &events).await;
    assert_eq!(heir.take_over().await.unwrap(), 0);
}

// N4
pub async fn all_that_a_killed_relay_had_is_claimed_however_many_claims_that_takes(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &messages(25)).await;
    assert_eq!(claim_all(&victim, &for_hours()).await.len(), 25);
    bed.kill(victim);
    let events = take_over(&heir, &for_hours()).await;
    assert_eq!(ids(&events), ids(&receipts));
}

// N4
pub async fn claims_that_go_onward_also_find_what_a_killed_relay_had(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &messages(25)).await;
    assert_eq!(claim_all(&victim, &for_hours()).await.len(), 25);
    bed.kill(victim);
    let first = eventually("a relay that is gone", || async {
        heir.take_over().await.unwrap();
        let events = heir.claim(&for_hours()).await.unwrap().events;
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert_eq!(first.len(), 10);
    // As a relay does while there is more: it looks from the oldest on only now and then.
    let onward = Claim {
        reach: Reach::Onward,
        ..for_hours()
    };
    let mut events = first;
    events.extend(heir.claim(&onward).await.unwrap().events);
    events.extend(heir.claim(&onward).await.unwrap().events);
    assert_eq!(ids(&events), ids(&receipts));
}

// N4, M9
pub async fn a_killed_relays_lease_settles_nothing_once_taken_over(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    let lost = claim_all(&victim, &for_hours()).await.remove(0).lease;
    bed.kill(victim);
    let events = take_over(&heir, &for_hours()).await;
    let settlement = Settlement {
        lease: lost,
        tried: None,
        verdict: Verdict::Delivered { keep: false },
    };
    assert_eq!(heir.settle(&[settlement]).await.unwrap().lost, [lost]);
    assert_eq!(
        record(&heir, events[0].id).await.lease_owner,
        Some(heir.owner())
    );
}

// N4, M13
pub async fn a_living_relay_keeps_its_events(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&one, &for_hours()).await;
    for _ in 0..3 {
        assert_eq!(other.take_over().await.unwrap(), 0);
        assert_eq!(one.take_over().await.unwrap(), 0);
        assert!(claim_all(&other, &for_hours()).await.is_empty());
    }
    let lost = one.extend(&[events[0].lease, events[1].lease], HOUR).await;
    assert!(lost.unwrap().is_empty());
}

// N4, M16
pub async fn a_relay_that_leaves_with_leases_is_taken_over(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &messages(2)).await;
    claim_all(&one, &for_hours()).await;
    one.leave().await.unwrap();
    let events = take_over(&other, &for_hours()).await;
    assert_eq!(ids(&events), ids(&receipts));
}

// M16
pub async fn a_relay_that_leaves_without_leases_leaves_no_trace(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&one, &for_hours()).await;
    deliver(&one, &events).await;
    one.leave().await.unwrap();
    assert_eq!(other.take_over().await.unwrap(), 0);
    one.leave().await.unwrap();
}

// M9: others may have its leases by then.
pub async fn a_relay_that_left_comes_back_as_another_owner(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(2)).await;
    let claim = Claim {
        limit: 1,
        ..for_hours()
    };
    let before = one.claim(&claim).await.unwrap().events.remove(0);
    one.leave().await.unwrap();
    let after = one.claim(&claim).await.unwrap().events.remove(0);
    assert_ne!(after.lease.owner, before.lease.owner);
    assert_eq!(after.lease.owner, one.owner());
    let events = take_over(&other, &for_hours()).await;
    assert_eq!(ids(&events), [before.id]);
}

// M8, N4
pub async fn a_relay_killed_on_the_last_attempt_leaves_it_dead(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let id = enqueue(&bed, &[message()]).await[0].id;
    let claim = Claim {
        max_attempts: 1,
        ..for_hours()
    };
    assert_eq!(claim_all(&victim, &claim).await.len(), 1);
    bed.kill(victim);
    let died = eventually("a death", || async {
        heir.take_over().await.unwrap();
        let claimed = heir.claim(&claim).await.unwrap();
        assert!(claimed.events.is_empty());
        claimed.died.into_iter().next()
    })
    .await;
    assert_eq!((died.id, died.reason), (id, DeadReason::Crashed));
    assert_eq!(record(&heir, id).await.status, Status::Dead);
}

// N4
pub async fn keys_of_a_killed_relay_go_on_in_sequence(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let receipts = enqueue(&bed, &keyed(&["a", "a", "a"])).await;
    let claim = |limit| Claim {
        lease: 10 * HOUR,
        ..by_key(limit, Block)
    };
    assert_eq!(victim.claim(&claim(2)).await.unwrap().events.len(), 2);
    assert!(claim_all(&heir, &claim(10)).await.is_empty());
    bed.kill(victim);
    let events = take_over(&heir, &claim(10)).await;
    assert_eq!(ids(&events), ids(&receipts));
}

// N4, M13
pub async fn two_heirs_share_without_taking_anything_twice(bed: impl Bed) {
    let victim = bed.relay().await;
    let heirs = [bed.relay().await, bed.relay().await];
    enqueue(&bed, &messages(40)).await;
    let claim = Claim {
        limit: 40,
        ..for_hours()
    };
    assert_eq!(claim_all(&victim, &claim).await.len(), 40);
    bed.kill(victim);
    let few = Claim {
        limit: 7,
        ..for_hours()
    };
    let taken = Mutex::new(Vec::new());
    eventually("all events of the killed relay", || async {
        let (one, other) = tokio::join!(heirs[0].take_over(), heirs[1].take_over());
        assert!(one.is_ok() && other.is_ok());
        let (one, other) = tokio::join!(heirs[0].claim(&few), heirs[1].claim(&few));
        let mut taken = taken.lock().unwrap();
        taken.extend(ids(&one.unwrap().events));
        taken.extend(ids(&other.unwrap().events));
        (taken.len() >= 40).then_some(())
    })
    .await;
    let taken = taken.into_inner().unwrap();
    let distinct: HashSet<_> = taken.iter().collect();
    assert_eq!((taken.len(), distinct.len()), (40, 40));
}

// B7
pub async fn one_relay_leads(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    assert!(one.lead().await.unwrap());
    assert!(!other.lead().await.unwrap());
    assert!(one.lead().await.unwrap());
    assert!(!other.lead().await.unwrap());
}

// B7
pub async fn another_relay_leads_once_the_leader_left(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    assert!(one.lead().await.unwrap());
    one.leave().await.unwrap();
    assert!(other.lead().await.unwrap());
    assert!(!one.lead().await.unwrap());
}

// B7
pub async fn another_relay_leads_once_the_leader_was_killed(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    assert!(one.lead().await.unwrap());
    assert!(!other.lead().await.unwrap());
    bed.kill(one);
    eventually("the lead", || async {
        other.lead().await.unwrap().then_some(())
    })
    .await;
    assert!(other.lead().await.unwrap());
}

// N4
pub async fn a_relay_killed_before_it_claimed_harms_nobody(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    victim.take_over().await.unwrap();
    bed.kill(victim);
    eventually("the news of its end", || async {
        (heir.take_over().await.unwrap() == 1).then_some(())
    })
    .await;
    assert_eq!(heir.take_over().await.unwrap(), 0);
    assert!(claim_all(&heir, &for_hours()).await.is_empty());
}

// N4, M16: whoever asked may have given up at any time, and nobody knows of what was leased.
pub async fn what_a_claim_got_that_was_given_up_is_claimed_long_before_its_lease_ends(
    bed: impl Bed,
) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    let claim = Claim {
        lease: 10 * HOUR,
        ..by_key(10, Block)
    };
    assert!(claim_all(&one, &claim).await.is_empty());
    let receipts = enqueue(&bed, &messages(3)).await;
    {
        let mut asking = one.claim(&claim);
        let answer = std::future::poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
        if let Poll::Ready(answer) = answer.await {
            // It could not be given up: it had its answer at once.
            for event in answer.unwrap().events {
                settle(&one, &event, Verdict::Release).await;
            }
        }
    }
    let events = eventually("what a claim that was given up had got", || async {
        one.take_over().await.unwrap();
        other.take_over().await.unwrap();
        let events = claim_all(&other, &claim).await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert_eq!(ids(&events), ids(&receipts));
}
