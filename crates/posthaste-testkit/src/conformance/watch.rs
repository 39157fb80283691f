//! Watch: relays and their leases, keys that are held up, and how the database copes.

use posthaste::store::{BlockedKey, Claim, OnFailure::Block, RelayInfo};
use posthaste::{DeadReason, Status, Store};

use super::{
    HOUR, ann, by_key, claim_all, deliver, enqueue, eventually, keyed, messages, reject, retry,
};
use crate::bed::Bed;

async fn relay(store: &impl Store, owner: uuid::Uuid) -> Option<RelayInfo> {
    let relays = store.relays().await.unwrap();
    relays.into_iter().find(|relay| relay.owner == owner)
}

// N4
pub async fn relays_are_told_with_their_leases(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(5)).await;
    let events = one.claim(&Claim::new(3)).await.unwrap().events;
    other.claim(&Claim::new(1)).await.unwrap();
    deliver(&one, &events[..1]).await;
    let found = relay(&other, one.owner()).await.unwrap();
    assert_eq!((found.leases, found.alive, found.leads), (2, true, false));
    assert!(found.oldest_lease.is_some());
    assert!(found.host.is_some());
    assert_eq!(found.pid, Some(std::process::id()));
    assert_eq!(relay(&one, other.owner()).await.unwrap().leases, 1);
    assert_eq!(one.relays().await.unwrap().len(), 2);
}

// N4
pub async fn a_relay_that_is_gone_is_told_as_such(bed: impl Bed) {
    let (victim, heir) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &messages(2)).await;
    victim.claim(&Claim::new(2)).await.unwrap();
    heir.take_over().await.unwrap();
    let owner = victim.owner();
    bed.kill(victim);
    let found = eventually("the news of its end", || async {
        relay(&heir, owner).await.filter(|relay| !relay.alive)
    })
    .await;
    assert_eq!((found.leases, found.leads), (2, false));
    assert!(relay(&heir, heir.owner()).await.unwrap().alive);
}

// B7
pub async fn the_leader_is_told(bed: impl Bed) {
    let (one, other) = (bed.relay().await, bed.relay().await);
    assert!(one.lead().await.unwrap());
    assert!(!other.lead().await.unwrap());
    assert!(relay(&other, one.owner()).await.unwrap().leads);
    assert!(!relay(&other, other.owner()).await.unwrap().leads);
}

pub async fn keys_whose_head_is_dead_or_waits_are_told(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &keyed(&["a", "b", "c", "d", "a", "a", "b", "d"])).await;
    let events = store.claim(&by_key(4, Block)).await.unwrap().events;
    let of = |key: &str| {
        let found = events
            .iter()
            .find(|e| e.ordering_key.as_deref() == Some(key));
        found.unwrap()
    };
    reject(&store, of("a")).await;
    retry(&store, of("b"), HOUR).await;
    reject(&store, of("c")).await;
    let blocked = store.blocked(10).await.unwrap();
    let told: Vec<_> = blocked
        .iter()
        .map(|blocked| (blocked.key.as_str(), blocked.status, blocked.waiting))
        .collect();
    assert_eq!(
        told,
        [("a", Status::Dead, 2), ("b", Status::Pending, 1)],
        "nobody waits behind c, and d is under way"
    );
    let BlockedKey { head, reason, .. } = &blocked[0];
    assert_eq!((*head, *reason), (of("a").id, Some(DeadReason::Rejected)));
    assert!(blocked[0].error.is_some() && blocked[0].next_attempt_at.is_none());
    assert!(blocked[1].next_attempt_at > Some(blocked[1].since));
    assert_eq!(store.blocked(1).await.unwrap().len(), 1);
}

pub async fn a_discarded_head_blocks_nobody(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &keyed(&["a", "a"])).await;
    let head = claim_all(&store, &by_key(1, Block)).await.remove(0);
    reject(&store, &head).await;
    assert_eq!(store.blocked(10).await.unwrap().len(), 1);
    store.discard(&[head.id], &ann()).await.unwrap();
    assert!(store.blocked(10).await.unwrap().is_empty());
}

pub async fn health_tells_what_the_database_is(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &messages(2)).await;
    let health = store.health().await.unwrap();
    assert!(!health.server.is_empty());
}

// B16
pub async fn stats_tell_how_much_was_enqueued(bed: impl Bed) {
    let store = bed.relay().await;
    assert_eq!(store.stats().await.unwrap().enqueued, Some(0));
    enqueue(&bed, &messages(3)).await;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.enqueued, stats.at_least), (Some(3), false));
}
