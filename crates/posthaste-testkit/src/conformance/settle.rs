//! Settle and extend: how leases end, and what a lease that is lost can no longer do.

use std::time::Duration;

use posthaste::store::{Claim, Settlement, Verdict};
use posthaste::{DeadReason, Lease, Status, Store};
use uuid::Uuid;

use super::{
    HOUR, all, claim_all, deliver, enqueue, ids, message, messages, record, reject, retry, settle,
};
use crate::bed::Bed;

/// One of each.
fn verdicts() -> Vec<Verdict> {
    let error = || "no answer".to_owned();
    vec![
        Verdict::Delivered { keep: true },
        Verdict::Delivered { keep: false },
        Verdict::Retry {
            delay: HOUR,
            error: error(),
        },
        Verdict::Dead {
            reason: DeadReason::Rejected,
            error: error(),
            letter: None,
        },
        Verdict::Release,
    ]
}

/// Tries everything with this lease: all is reported as lost, and nothing changes.
async fn can_do_nothing(store: &impl Store, lease: Lease) {
    let before = all(store).await;
    for verdict in verdicts() {
        let settled = store
            .settle(&[Settlement::new(lease, verdict)])
            .await
            .unwrap();
        assert_eq!((settled.applied, settled.lost), (0, vec![lease]));
    }
    assert_eq!(store.extend(&[lease], HOUR).await.unwrap(), [lease]);
    assert_eq!(all(store).await, before);
}

// M15
pub async fn a_delivered_event_is_kept_or_deleted_as_asked(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&store, &Claim::new(2)).await;
    settle(&store, &events[0], Verdict::Delivered { keep: true }).await;
    settle(&store, &events[1], Verdict::Delivered { keep: false }).await;
    let kept = record(&store, events[0].id).await;
    assert_eq!(kept.status, Status::Delivered);
    assert!(kept.delivered_at.is_some());
    assert_eq!((kept.lease_owner, kept.lease_until), (None, None));
    assert_eq!(kept.attempts, 1);
    assert_eq!(store.show(events[1].id).await.unwrap(), None);
}

pub async fn a_mixed_batch_is_settled_each_in_its_way(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(5)).await;
    let events = claim_all(&store, &Claim::new(5)).await;
    let settlements: Vec<Settlement> = events
        .iter()
        .zip(verdicts())
        .map(|(event, verdict)| Settlement {
            lease: event.lease,
            tried: None,
            verdict,
        })
        .collect();
    let settled = store.settle(&settlements).await.unwrap();
    assert_eq!((settled.applied, settled.lost), (5, Vec::new()));
    let left = all(&store).await;
    let left: Vec<(Uuid, Status)> = left
        .iter()
        .map(|record| (record.id, record.status))
        .collect();
    assert_eq!(
        left,
        [
            (events[0].id, Status::Delivered),
            (events[2].id, Status::Pending),
            (events[3].id, Status::Dead),
            (events[4].id, Status::Pending),
        ]
    );
    assert_eq!(store.settle(&[]).await.unwrap().applied, 0);
}

// M10
pub async fn a_retry_waits_for_its_delay(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    retry(&store, &event, 2 * HOUR).await;
    let waiting = record(&store, event.id).await;
    assert_eq!((waiting.status, waiting.attempts), (Status::Pending, 1));
    assert_eq!(waiting.last_error.as_deref(), Some("no answer"));
    let delay = waiting
        .next_attempt_at
        .duration_since(waiting.updated_at)
        .unwrap();
    assert!(
        delay > 2 * HOUR - Duration::from_secs(60) && delay < 2 * HOUR + Duration::from_secs(60)
    );
    bed.pass(HOUR).await;
    assert!(claim_all(&store, &Claim::new(1)).await.is_empty());
    bed.pass(HOUR).await;
    let again = claim_all(&store, &Claim::new(1)).await.remove(0);
    assert_eq!((again.attempts, again.lease.epoch), (2, 2));
    settle(&store, &again, Verdict::Delivered { keep: true }).await;
    assert_eq!(record(&store, event.id).await.last_error, None);
}

// M16: what was never tried costs no attempt.
pub async fn a_released_event_is_due_at_once_with_its_attempt_back(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&one, &Claim::new(1)).await.remove(0);
    settle(&one, &event, Verdict::Release).await;
    assert_eq!(record(&one, event.id).await.attempts, 0);
    let again = claim_all(&other, &Claim::new(1)).await.remove(0);
    assert_eq!((again.attempts, again.lease.epoch), (1, 2));
}

// F9: what its destination does not take costs no attempt.
pub async fn a_postponed_event_waits_for_its_delay_with_its_attempt_back(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    retry(&store, &event, Duration::ZERO).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    settle(&store, &event, Verdict::Postpone { delay: HOUR }).await;
    let record = record(&store, event.id).await;
    assert_eq!((record.status, record.attempts), (Status::Pending, 1));
    assert_eq!(record.last_error.as_deref(), Some("no answer"));
    assert!(claim_all(&store, &Claim::new(1)).await.is_empty());
    bed.pass(HOUR).await;
    let again = claim_all(&store, &Claim::new(1)).await.remove(0);
    assert_eq!((again.attempts, again.lease.epoch), (2, 3));
}

// F6
pub async fn a_rejected_event_is_dead_with_its_reason(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    let verdict = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "a\0b".to_owned(),
        letter: None,
    };
    settle(&store, &event, verdict).await;
    let dead = record(&store, event.id).await;
    assert_eq!(dead.status, Status::Dead);
    assert_eq!(dead.dead_reason, Some(DeadReason::Rejected));
    assert_eq!(dead.last_error.as_deref(), Some("a\u{fffd}b"));
    assert_eq!((dead.lease_owner, dead.lease_until), (None, None));
}

// M9
pub async fn an_old_epoch_changes_nothing(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let old = claim_all(&store, &Claim::new(1)).await.remove(0);
    bed.pass(HOUR).await;
    let new = claim_all(&store, &Claim::new(1)).await.remove(0);
    can_do_nothing(&store, old.lease).await;
    settle(&store, &new, Verdict::Delivered { keep: true }).await;
}

// M9
pub async fn another_owner_changes_nothing(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&one, &Claim::new(1)).await.remove(0);
    let forged = Lease {
        owner: other.owner(),
        ..event.lease
    };
    can_do_nothing(&other, forged).await;
    settle(&one, &event, Verdict::Delivered { keep: true }).await;
}

// M9
pub async fn a_lease_that_another_relay_took_is_lost(bed: impl Bed) {
    let (slow, quick) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    let lost = claim_all(&slow, &Claim::new(1)).await.remove(0);
    bed.pass(HOUR).await;
    let event = claim_all(&quick, &Claim::new(1)).await.remove(0);
    can_do_nothing(&slow, lost.lease).await;
    settle(&quick, &event, Verdict::Delivered { keep: true }).await;
    can_do_nothing(&slow, lost.lease).await;
}

// M9: a relay may hold both, and gather them into one batch.
pub async fn of_an_old_and_a_new_lease_only_the_old_is_lost(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(4)).await;
    let old = claim_all(&store, &Claim::new(4)).await;
    bed.pass(HOUR).await;
    let new = claim_all(&store, &Claim::new(4)).await;
    let leases = [old[0].lease, new[0].lease];
    assert_eq!(store.extend(&leases, HOUR).await.unwrap(), [old[0].lease]);
    for (n, verdict) in verdicts().into_iter().enumerate().skip(1) {
        let both = [old[n - 1].lease, new[n - 1].lease].map(|lease| Settlement {
            lease,
            tried: None,
            verdict: verdict.clone(),
        });
        let settled = store.settle(&both).await.unwrap();
        assert_eq!((settled.applied, settled.lost), (1, vec![old[n - 1].lease]));
    }
}

// M9, M15
pub async fn a_settled_lease_is_over(bed: impl Bed) {
    let store = bed.relay().await;
    for verdict in verdicts() {
        enqueue(&bed, &[message()]).await;
        let event = claim_all(&store, &Claim::new(1)).await.remove(0);
        settle(&store, &event, verdict).await;
        can_do_nothing(&store, event.lease).await;
        // Out of the way of the next.
        deliver(&store, &claim_all(&store, &Claim::new(1)).await).await;
    }
}

// M9: the fence is the epoch, not the clock.
pub async fn an_expired_lease_that_nobody_took_still_settles(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&store, &Claim::new(2)).await;
    bed.pass(HOUR).await;
    assert!(
        store
            .extend(&[events[0].lease], HOUR)
            .await
            .unwrap()
            .is_empty()
    );
    settle(&store, &events[1], Verdict::Delivered { keep: true }).await;
    assert!(claim_all(&store, &Claim::new(2)).await.is_empty());
}

// logistics-3.3, M9
pub async fn an_extended_lease_keeps_others_away(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&one, &Claim::new(2)).await;
    assert!(
        one.extend(&[events[0].lease], 3 * HOUR)
            .await
            .unwrap()
            .is_empty()
    );
    bed.pass(HOUR).await;
    let taken = claim_all(&other, &Claim::new(2)).await;
    assert_eq!(ids(&taken), [events[1].id]);
    assert_eq!(record(&one, events[0].id).await.attempts, 1);
    assert!(one.extend(&[], HOUR).await.unwrap().is_empty());
}

// M15
pub async fn delivered_and_dead_events_are_never_claimed(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    let events = claim_all(&store, &Claim::new(2)).await;
    settle(&store, &events[0], Verdict::Delivered { keep: true }).await;
    reject(&store, &events[1]).await;
    bed.pass(1000 * HOUR).await;
    assert!(claim_all(&store, &Claim::new(10)).await.is_empty());
}
