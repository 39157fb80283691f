//! What a look at the destination finds.

use posthaste_relay::sink::{RabbitMq, Sink};
use posthaste_testkit::server::RabbitMq as Server;

use crate::place::*;

#[tokio::test]
async fn a_check_says_what_is_there_and_publishes_and_makes_nothing() {
    let place = Place::new().await;
    let found = place.sink().check().await.unwrap();
    for part in [
        &*place.name,
        "is there",
        "may write there",
        "acknowledgement",
        "durable",
        "quorum",
    ] {
        assert!(found.contains(part), "{part} is not in {found}");
    }
    assert!(!found.contains("guest:"), "{found}");
    assert!(place.found().await.is_empty());

    let missing = Place::bare(place.url.clone());
    let found = missing.sink().check().await.unwrap();
    assert!(found.contains("not there yet"), "{found}");
    let unmade = missing.builder().declare(false).build().unwrap();
    let why = unmade.check().await.unwrap_err();
    assert!(
        why.contains(&missing.name) && why.contains("NOT_FOUND"),
        "{why}"
    );

    let other = place.builder().exchange_type("fanout").build().unwrap();
    let why = other.check().await.unwrap_err();
    assert!(why.contains("inequivalent"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_finds_who_may_not_write() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let (name, password) = Server::USERS[1];
    let reader = place.builder().user(name, password).declare(false);
    let why = reader.build().unwrap().check().await.unwrap_err();
    for part in [&*place.name, "may not be written to", "ACCESS_REFUSED"] {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    assert!(place.ids().await.is_empty());
}

// B13
#[tokio::test]
async fn a_check_of_what_cannot_be_used_says_why_without_secrets() {
    let place = Place::new().await;
    let canary = "canary-of-a-password";
    let wrong = place.builder().user("guest", canary).build().unwrap();
    let why = wrong.check().await.unwrap_err();
    assert!(why.contains("ACCESS_REFUSED"), "{why}");
    assert!(!why.contains(canary), "{why}");
    let nowhere = RabbitMq::builder("amqp://127.0.0.1:1/", "orders");
    let why = nowhere.build().unwrap().check().await.unwrap_err();
    assert!(why.contains("cannot connect"), "{why}");
}
