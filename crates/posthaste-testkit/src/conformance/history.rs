//! History: every attempt that counted, and how it went.

use std::time::Duration;

use posthaste::store::{ATTEMPTS_KEPT, Attempt, Claim, Clean, Ending, Settlement, Tried, Verdict};
use posthaste::{DeadReason, Event, Store};
use uuid::Uuid;

use super::{HOUR, ann, claim_all, die, enqueue, message, reject, retry, settle};
use crate::bed::Bed;

async fn one(bed: &impl Bed, store: &impl Store) -> Event {
    enqueue(bed, &[message()]).await;
    claim_all(store, &Claim::new(1)).await.remove(0)
}

async fn again(bed: &impl Bed, store: &impl Store) -> Event {
    bed.pass(2 * HOUR).await;
    claim_all(store, &Claim::new(1)).await.remove(0)
}

async fn endings(store: &impl Store, id: Uuid) -> Vec<(u32, Ending)> {
    let told = |attempt: Attempt| (attempt.number, attempt.ending);
    let history = store.history(id).await.unwrap();
    history.into_iter().map(told).collect()
}

/// Settles as a relay does that tells how it tried.
async fn tried(store: &impl Store, event: &Event, verdict: Verdict, timed_out: bool) {
    let settlement = Settlement {
        lease: event.lease,
        verdict,
        tried: Some(Tried {
            destination: "warehouse".to_owned(),
            took: Duration::from_millis(1500),
            timed_out,
        }),
    };
    let settled = store.settle(&[settlement]).await.unwrap();
    assert_eq!(settled.applied, 1);
}

pub async fn a_first_success_is_told_by_the_event_alone(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    settle(&store, &event, Verdict::Delivered { keep: true }).await;
    let history = store.history(event.id).await.unwrap();
    let [attempt] = &history[..] else {
        panic!("one attempt, not {history:?}");
    };
    assert_eq!((attempt.number, attempt.ending), (1, Ending::Delivered));
    let delivered_at = super::record(&store, event.id).await.delivered_at;
    assert_eq!((attempt.ended_at, attempt.claimed_at), (delivered_at, None));
    assert!(store.history(Uuid::new_v4()).await.unwrap().is_empty());
}

pub async fn failures_and_the_success_after_them_are_told_in_order(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    let retried = Verdict::Retry {
        delay: HOUR,
        error: "no \0 answer".to_owned(),
    };
    tried(&store, &event, retried, false).await;
    let second = again(&bed, &store).await;
    tried(&store, &second, Verdict::Delivered { keep: true }, false).await;
    let history = store.history(event.id).await.unwrap();
    let [failed, delivered] = &history[..] else {
        panic!("two attempts, not {history:?}");
    };
    assert_eq!((failed.number, failed.ending), (1, Ending::Failed));
    assert_eq!(failed.error.as_deref(), Some("no \u{fffd} answer"));
    assert_eq!(failed.destination.as_deref(), Some("warehouse"));
    assert_eq!(failed.took, Some(Duration::from_millis(1500)));
    assert_eq!(failed.relay, Some(store.owner()));
    assert!(failed.relay_name.is_some());
    assert!(failed.claimed_at.unwrap() <= failed.ended_at.unwrap());
    assert_eq!((delivered.number, delivered.ending), (2, Ending::Delivered));
    assert_eq!(delivered.destination.as_deref(), Some("warehouse"));
    let between = delivered
        .claimed_at
        .unwrap()
        .duration_since(failed.ended_at.unwrap());
    assert!(between.unwrap() >= HOUR);
    assert!(failed.epoch < delivered.epoch);
}

pub async fn a_timeout_and_a_rejection_are_told_apart(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    let retried = Verdict::Retry {
        delay: HOUR,
        error: "timed out".to_owned(),
    };
    tried(&store, &event, retried, true).await;
    let second = again(&bed, &store).await;
    reject(&store, &second).await;
    let told = endings(&store, event.id).await;
    assert_eq!(told, [(1, Ending::TimedOut), (2, Ending::Rejected)]);
    let exhausted = one(&bed, &store).await;
    die(&store, &exhausted, DeadReason::Exhausted, "no answer").await;
    assert_eq!(endings(&store, exhausted.id).await, [(1, Ending::Failed)]);
}

pub async fn an_attempt_under_way_is_told(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    retry(&store, &event, HOUR).await;
    again(&bed, &store).await;
    let history = store.history(event.id).await.unwrap();
    let last = history.last().unwrap();
    assert_eq!((last.number, last.ending), (2, Ending::Running));
    assert_eq!((last.relay, last.ended_at), (Some(store.owner()), None));
    assert_eq!(history.len(), 2);
}

// N4
pub async fn a_crashed_attempt_is_told(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    let event = one(&bed, &victim).await;
    let owner = victim.owner();
    let taken = again(&bed, &heir).await;
    assert_eq!(taken.id, event.id);
    settle(&heir, &taken, Verdict::Delivered { keep: true }).await;
    let history = heir.history(event.id).await.unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|attempt| (attempt.number, attempt.ending, attempt.relay))
        .collect();
    assert_eq!(
        told,
        [
            (1, Ending::Crashed, Some(owner)),
            (2, Ending::Delivered, Some(heir.owner()))
        ]
    );
    assert!(history[0].claimed_at < history[0].ended_at);
}

pub async fn what_was_released_or_postponed_was_no_attempt(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    settle(&store, &event, Verdict::Release).await;
    assert!(endings(&store, event.id).await.is_empty());
    let second = again(&bed, &store).await;
    settle(&store, &second, Verdict::Postpone { delay: HOUR }).await;
    assert!(endings(&store, event.id).await.is_empty());
    let third = again(&bed, &store).await;
    settle(&store, &third, Verdict::Delivered { keep: true }).await;
    assert_eq!(endings(&store, event.id).await, [(1, Ending::Delivered)]);
}

// M15
pub async fn attempts_go_on_after_a_redelivery(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    reject(&store, &event).await;
    store.redeliver(&[event.id], &ann()).await.unwrap();
    let second = again(&bed, &store).await;
    settle(&store, &second, Verdict::Delivered { keep: true }).await;
    let told = endings(&store, event.id).await;
    assert_eq!(told, [(1, Ending::Rejected), (1, Ending::Delivered)]);
}

pub async fn the_newest_attempts_are_kept(bed: impl Bed) {
    let store = bed.relay().await;
    let mut event = one(&bed, &store).await;
    let many = Claim {
        max_attempts: u32::MAX,
        ..Claim::new(1)
    };
    for _ in 0..ATTEMPTS_KEPT + 5 {
        retry(&store, &event, Duration::ZERO).await;
        event = claim_all(&store, &many).await.remove(0);
    }
    retry(&store, &event, Duration::ZERO).await;
    let told = endings(&store, event.id).await;
    assert_eq!(told.len(), ATTEMPTS_KEPT);
    assert_eq!(told.last().unwrap().0, ATTEMPTS_KEPT as u32 + 6);
}

// B14
pub async fn history_goes_with_its_event(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    retry(&store, &event, HOUR).await;
    let second = again(&bed, &store).await;
    settle(&store, &second, Verdict::Delivered { keep: false }).await;
    assert!(store.history(event.id).await.unwrap().is_empty());
    // What comes back under the same id has no past.
    bed.enqueue(&[message().id(event.id)]).await.unwrap();
    assert!(store.history(event.id).await.unwrap().is_empty());
    let third = again(&bed, &store).await;
    reject(&store, &third).await;
    bed.pass(2 * HOUR).await;
    let clean = Clean {
        retention: HOUR,
        dead_retention: Some(HOUR),
        archive: false,
        limit: 10,
    };
    assert_eq!(store.clean(&clean).await.unwrap(), 1);
    bed.enqueue(&[message().id(event.id)]).await.unwrap();
    assert!(store.history(event.id).await.unwrap().is_empty());
}

// M9
pub async fn a_lost_lease_leaves_no_history(bed: impl Bed) {
    let store = bed.relay().await;
    let event = one(&bed, &store).await;
    retry(&store, &event, HOUR).await;
    let late = Settlement::new(
        event.lease,
        Verdict::Retry {
            delay: HOUR,
            error: "late".to_owned(),
        },
    );
    assert_eq!(store.settle(&[late]).await.unwrap().lost, [event.lease]);
    assert_eq!(endings(&store, event.id).await, [(1, Ending::Failed)]);
}
