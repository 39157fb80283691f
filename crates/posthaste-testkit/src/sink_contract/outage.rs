//! Outage: a server that is down is nobody's fault but its own, and is used again once it is back.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_relay::Envelope;
use posthaste_relay::sink::{Outcome, Sink};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Arrived, Place, arrived, deliver, delivered, event, events, load, message};

/// Tries until it is delivered, as a relay would. Whatever else comes is no rejection.
async fn until_delivered(sink: &impl Sink, event: &Arc<posthaste::Event>) {
    let mut failures = Vec::new();
    load::until_delivered(sink, event, &mut failures).await;
    let rejected = failures
        .iter()
        .find(|outcome| matches!(outcome, Outcome::Reject(_)));
    assert_eq!(rejected, None);
}

// F9
pub async fn while_the_server_is_down_nothing_is_delivered_and_nothing_is_the_events_fault<
    P: Place,
>(
    place: P,
) {
    let sink = place.sink(Envelope::raw()).await;
    let first = event(message()).await;
    delivered(&sink, &first).await;
    place.stop().await;
    for event in events(&vec![message(); 5]).await {
        let outcome = deliver(&sink, &event).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
    place.start().await;
    assert_eq!(arrived(&place, 1).await.len(), 1);
}

// F9
pub async fn a_sink_made_while_the_server_is_down_works_once_it_is_up<P: Place>(place: P) {
    place.stop().await;
    let sink = place.sink(Envelope::raw()).await;
    let event = event(message()).await;
    let outcome = deliver(&sink, &event).await;
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    place.start().await;
    until_delivered(&sink, &event).await;
    assert_eq!(arrived(&place, 1).await[0].id(), Some(event.id));
}

// F9
pub async fn a_server_that_is_back_is_used_again_by_the_same_sink<P: Place>(place: P) {
    let sink = place.sink(Envelope::raw()).await;
    let events = events(&vec![message(); 4]).await;
    for event in &events[..2] {
        until_delivered(&sink, event).await;
        place.stop().await;
        place.start().await;
    }
    for event in &events[2..] {
        until_delivered(&sink, event).await;
    }
    let ids: HashSet<_> = arrived(&place, 4).await.iter().map(Arrived::id).collect();
    assert!(events.iter().all(|event| ids.contains(&Some(event.id))));
}

// F9
pub async fn a_server_that_goes_down_under_load_loses_nothing_that_it_acknowledged<P: Place>(
    place: P,
) {
    let sink = Arc::new(place.sink(Envelope::raw()).await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut producers = JoinSet::new();
    for _ in 0..16 {
        let (sink, stop) = (sink.clone(), stop.clone());
        producers.spawn(async move {
            let mut acknowledged: Vec<Uuid> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let event = event(message()).await;
                match deliver(&*sink, &event).await {
                    Outcome::Delivered => acknowledged.push(event.id),
                    Outcome::Reject(why) => panic!("rejected: {why}"),
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
            acknowledged
        });
    }
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        place.stop().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        place.start().await;
    }
    // It must be back to work before the load ends.
    until_delivered(&*sink, &event(message()).await).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    while let Some(ended) = producers.join_next().await {
        acknowledged.extend(ended.unwrap());
    }
    assert!(!acknowledged.is_empty());
    let ids: HashSet<_> = arrived(&place, acknowledged.len())
        .await
        .iter()
        .map(Arrived::id)
        .collect();
    let lost = acknowledged
        .iter()
        .filter(|id| !ids.contains(&Some(**id)))
        .count();
    assert_eq!(lost, 0, "of {} acknowledged events", acknowledged.len());
}
