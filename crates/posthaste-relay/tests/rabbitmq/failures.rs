//! What a server refuses, and what comes of it for the event and for its neighbours.

use std::sync::Arc;
use std::time::Instant;

use posthaste::Message;
use posthaste_relay::sink::{Outcome, RabbitMq, Sink};
use posthaste_testkit::server::{Proxy, RabbitMq as Server};
use posthaste_testkit::sink_contract;

use crate::place::*;

const CANARY: &str = "canary-of-a-password";

fn is_down(outcome: &Outcome, parts: &[&str]) {
    let Outcome::Unavailable(why) = outcome else {
        panic!("{outcome:?}");
    };
    for part in parts {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    assert!(!why.contains(CANARY), "{why}");
}

/// Twenty messages that have to arrive while something goes wrong beside them.
async fn neighbours(place: &Place) -> Vec<Message> {
    vec![message().aggregate(&place.name, "1"); 20]
}

// F6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_may_be_as_large_as_the_server_says_and_not_a_byte_larger() {
    let place = Place::new().await;
    let sink = Arc::new(place.sink());
    let limit = Server::MAX_MESSAGE_SIZE;
    let fits = event_of_size(limit).await;
    assert_eq!(deliver(&sink, fits.clone()).await, Outcome::Delivered);
    // Twice: the second is not even sent.
    for _ in 0..2 {
        let large = event_of_size(limit + 1).await;
        let mut events = sink_contract::events(&neighbours(&place).await).await;
        events.insert(10, large);
        let mut outcomes = deliver_all(&sink, &events).await;
        let Outcome::Reject(why) = outcomes.remove(10) else {
            panic!("not rejected");
        };
        assert!(why.contains(&limit.to_string()), "{why}");
        assert!(outcomes.iter().all(|one| *one == Outcome::Delivered));
    }
    let ids = place.ids().await;
    // Neighbours may be there twice, as they were sent again.
    assert!(ids.contains(&fits.id) && ids.len() >= 41, "{}", ids.len());
}

// F9: nothing can be delivered there, whatever the event.
#[tokio::test]
async fn without_its_exchange_a_destination_is_down() {
    let place = Place::bare(Place::new().await.url);
    let sink = place.builder().declare(false).build().unwrap();
    is_down(&outcome(&sink).await, &[&place.name, "NOT_FOUND"]);
    // It is used as soon as it is there, and was not made by us.
    place.act(&["place", &place.name]).await;
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    // It goes while we are connected, and comes back.
    place.act(&["delete_exchange", &place.name]).await;
    is_down(&outcome(&sink).await, &[&place.name, "NOT_FOUND"]);
    place.act(&["place", &place.name]).await;
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    assert_eq!(place.ids().await.len(), 2);
}

// F9: made anew it would have no bindings, and its events would be returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_deleted_is_left_to_whoever_deleted_it() {
    let place = Place::new().await;
    let proxy = Proxy::start(place.port()).unwrap();
    let for_all = place.through(proxy.port()).sink();
    let by_event = RabbitMq::builder(&place.url, "{aggregate_type}");
    let by_event = by_event.build().unwrap();
    let there = event_of(message().aggregate(&place.name, "1")).await;
    assert_eq!(outcome(&for_all).await, Outcome::Delivered);
    assert_eq!(deliver(&by_event, there.clone()).await, Outcome::Delivered);
    place.act(&["delete_exchange", &place.name]).await;
    // Nor does another connection declare it.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = outcome(&for_all).await;
        is_down(&outcome, &[]);
        if matches!(&outcome, Outcome::Unavailable(why) if why.contains("cannot be used")) {
            break;
        }
        assert!(Instant::now() < deadline, "{outcome:?}");
        proxy.cut();
    }
    for _ in 0..3 {
        let outcome = deliver(&by_event, there.clone()).await;
        assert!(
            matches!(&outcome, Outcome::Retry(why) if why.contains("NOT_FOUND")),
            "{outcome:?}"
        );
    }
    let looked = for_all.check().await.unwrap_err();
    assert!(looked.contains("NOT_FOUND"), "{looked}");
    place.act(&["place", &place.name]).await;
    until_delivered(&for_all).await;
    while deliver(&by_event, there.clone()).await != Outcome::Delivered {
        assert!(Instant::now() < deadline + PATIENCE, "not delivered");
        tokio::time::sleep(MS(50)).await;
    }
}

// F5: of many exchanges, one that is missing is that event's trouble.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_exchange_among_others_harms_no_neighbour() {
    let place = Place::new().await;
    let builder = RabbitMq::builder(&place.url, "{aggregate_type}").declare(false);
    let sink = Arc::new(builder.build().unwrap());
    let missing = Place::bare(place.url.clone());
    let gone = Place::at(place.url.clone()).await;
    let to = |place: &Place| message().aggregate(&place.name, "1");
    let first = sink_contract::events(&[to(&gone)]).await.remove(0);
    assert_eq!(deliver(&sink, first).await, Outcome::Delivered);
    gone.act(&["delete_exchange", &gone.name]).await;
    let mut messages = neighbours(&place).await;
    messages.insert(3, to(&missing));
    messages.insert(11, to(&gone));
    messages.insert(12, to(&missing));
    let events = sink_contract::events(&messages).await;
    let outcomes = deliver_all(&sink, &events).await;
    for (event, outcome) in events.iter().zip(outcomes) {
        let exchange = event.aggregate_type.as_deref().unwrap();
        match exchange == place.name {
            true => assert_eq!(outcome, Outcome::Delivered),
            false => assert!(
                matches!(&outcome, Outcome::Retry(why) if why.contains(exchange)),
                "{outcome:?}"
            ),
        }
    }
    assert!(place.ids().await.len() >= 20);
}

// F9
#[tokio::test]
async fn an_exchange_of_another_type_is_told_and_not_replaced() {
    let place = Place::new().await;
    let sink = place.builder().exchange_type("fanout").build().unwrap();
    is_down(
        &outcome(&sink).await,
        &[&place.name, "cannot be declared", "inequivalent"],
    );
    let used_as_it_is = place.builder().exchange_type("fanout").declare(false);
    assert_eq!(
        outcome(&used_as_it_is.build().unwrap()).await,
        Outcome::Delivered
    );
}

// F9 B13
#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let place = Place::new().await;
    let sink = place.builder().user("guest", CANARY).build().unwrap();
    let outcome = outcome(&sink).await;
    is_down(&outcome, &["ACCESS_REFUSED", "Login was refused"]);
    assert!(!format!("{sink:?}").contains(CANARY));
}

// F9
#[tokio::test]
async fn an_unknown_vhost_is_told() {
    let place = Place::new().await;
    let url = place.url.replace("%2f", "no-such-vhost");
    let sink = RabbitMq::builder(url, &place.name).build().unwrap();
    is_down(&outcome(&sink).await, &["no-such-vhost"]);
}

// F9: somebody may read but not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_permission_to_write_a_destination_is_down() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let (name, password) = Server::USERS[1];
    let reader = || place.builder().user(name, password);
    let cannot_declare = reader().build().unwrap();
    is_down(
        &outcome(&cannot_declare).await,
        &[&place.name, "ACCESS_REFUSED", name],
    );
    let cannot_write = reader().declare(false).build().unwrap();
    is_down(
        &outcome(&cannot_write).await,
        &[&place.name, "ACCESS_REFUSED", name],
    );
    // The server has another name for the one without a name.
    let by_default = RabbitMq::builder(server.url(), "").user(name, password);
    is_down(
        &outcome(&by_default.build().unwrap()).await,
        &["amq.default", "ACCESS_REFUSED", name],
    );
    assert!(place.ids().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_passwords_may_have_any_character() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let (name, password) = Server::USERS[2];
    let by_setting = place.builder().user(name, password).build().unwrap();
    assert_eq!(outcome(&by_setting).await, Outcome::Delivered);
    let url = format!(
        "amqp://od%3Ad%40us%2Fer:p%2540%3A%2F%40ss%3F%23w%C3%B6rd@127.0.0.1:{}/%2f",
        server.port()
    );
    let by_address = RabbitMq::builder(url, &place.name).build().unwrap();
    assert_eq!(outcome(&by_address).await, Outcome::Delivered);
}

// F9
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_unavailable() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for url in [
        format!("amqp://guest:{CANARY}@127.0.0.1:{port}/"),
        format!("amqps://guest:{CANARY}@127.0.0.1:{port}/"),
        format!("amqp://guest:{CANARY}@no-such-host.invalid/"),
    ] {
        let sink = RabbitMq::builder(url, "orders").build().unwrap();
        is_down(&outcome(&sink).await, &["cannot connect"]);
    }
}

// One event twice at the same time: ids tell messages apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_event_delivered_many_times_at_once_is_confirmed_each_time() {
    let place = Place::new().await;
    let sink = Arc::new(place.sink());
    let events = vec![event().await; 50];
    let outcomes = deliver_all(&sink, &events).await;
    assert!(outcomes.iter().all(|one| *one == Outcome::Delivered));
    assert_eq!(place.ids().await, vec![events[0].id; 50]);
}
