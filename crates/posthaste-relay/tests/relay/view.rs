//! A relay as others of its process see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_relay::CircuitState;
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

// B16 F8 F9
#[tokio::test]
async fn a_view_tells_how_destinations_stand_and_does_not_outlive_its_relay() {
    let mut fresh = Fresh::new().await;
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let witness = Witness::new(move |event| {
        let is_up = is_up.load(Ordering::SeqCst);
        async move {
            match event.topic.as_str() {
                _ if !is_up => Outcome::Unavailable("password=hunter2 refused".to_owned()),
                TOPIC => Outcome::Delivered,
                _ => Outcome::Reject("too heavy".to_owned()),
            }
        }
    });
    let builder = brisk(&fresh).await.destination("mail", witness);
    let relay = builder.build().unwrap();
    let view = relay.view();
    let before = view.look().unwrap();
    assert!(before.leads && before.in_flight == 0);
    assert_eq!(before.destinations[0].circuit, CircuitState::Closed);
    let relay = Running::start(relay);
    fresh.enqueue(&messages(3)).await;
    fresh.enqueue(&[message("shop.anvil.sent.v1")]).await;
    eventually("the outage is seen", async || {
        let mail = &view.look().unwrap().destinations[0];
        mail.outage.is_some() && mail.deliveries.unavailable > 0
    })
    .await;
    let outage = view.look().unwrap().destinations[0].outage.clone().unwrap();
    assert!(outage.why.contains("refused") && !outage.why.contains("hunter2"));
    up.store(true, Ordering::SeqCst);
    eventually("all that came is told", async || {
        let look = view.look().unwrap();
        let deliveries = &look.destinations[0].deliveries;
        look.died == 1 && deliveries.delivered == 3 && deliveries.rejected == 1
    })
    .await;
    let mail = view.look().unwrap().destinations.remove(0);
    assert_eq!(mail.deliveries.end_to_end.count(), 3);
    assert_eq!(mail.topics, ["shop.anvil.sent.v1", TOPIC]);
    relay.stop().await;
    assert!(view.look().is_none(), "the relay is gone");
}
