//! What steers relays: pause and resume.

use posthaste::store::{Store, Target};

use crate::support::{Place, Shop, every_place, run};

every_place! {
    an_outbox_is_paused_and_resumed
    a_sink_is_paused_and_shown_in_the_status
}

async fn an_outbox_is_paused_and_resumed(place: impl Place) {
    let shop = Shop::open(&place).await;
    let table = place.address().1;
    let paused = run(&place, &["pause", "--why", "moving", "--as", "ann"]);
    assert_eq!(paused.ok(), format!("paused {table}\n"));
    let again = run(&place, &["pause"]);
    assert_eq!(again.ok(), format!("{table} is paused already\n"));
    let pauses = shop.store.pauses().await.unwrap();
    assert_eq!((pauses.len(), &pauses[0].target), (1, &Target::Outbox));
    assert_eq!(
        (pauses[0].actor.as_str(), pauses[0].why.as_str()),
        ("ann", "moving")
    );
    let resumed = run(&place, &["resume", "--json"]).json();
    assert_eq!(resumed[0]["changed"], true);
    assert_eq!(resumed[0]["paused"], false);
    let again = run(&place, &["resume"]);
    assert_eq!(again.ok(), format!("{table} is not paused\n"));
    assert!(shop.store.pauses().await.unwrap().is_empty());
}

async fn a_sink_is_paused_and_shown_in_the_status(place: impl Place) {
    Shop::open(&place).await;
    let table = place.address().1;
    let arguments = [
        "pause",
        "--sink",
        "mail",
        "--why",
        "their release",
        "--as",
        "ann",
    ];
    let paused = run(&place, &arguments);
    assert_eq!(paused.ok(), format!("paused sink mail of {table}\n"));
    let status = run(&place, &["status"]).ok();
    assert!(
        status.contains("sink mail is paused by ann: their release"),
        "{status}"
    );
    let json = run(&place, &["status", "--json"]).json();
    assert_eq!(json[0]["paused"][0]["sink"], "mail");
    assert_eq!(json[0]["healthy"], true, "a pause is what somebody wants");
    run(&place, &["resume", "--sink", "mail"]).ok();
    let json = run(&place, &["status", "--json"]).json();
    assert_eq!(json[0].get("paused"), None);
}
