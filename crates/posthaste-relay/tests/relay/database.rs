//! What a database does to a relay costs no event anything that can be helped.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste::Status;
use posthaste::store::postgres::Postgres;
use posthaste_relay::sink::Outcome;
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::outbox::Fresh;
use posthaste_testkit::server::Proxy;

use crate::support::*;

// M9: a log-in that is refused, as with a new password, says nothing about what is to be settled.
#[tokio::test]
async fn a_relay_that_may_not_log_in_for_a_while_settles_all_that_it_delivered() {
    let mut fresh = Fresh::new().await;
    let role = format!("relay_{}", uuid::Uuid::new_v4().simple());
    let make = format!("create role {role} superuser login password 'secret'");
    fresh.client.batch_execute(&make).await.unwrap();
    fresh.enqueue(&messages(300)).await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(500)).await;
        Outcome::Delivered
    });
    let (_, place) = fresh.url.rsplit_once('@').unwrap();
    let url = format!("postgres://{role}:secret@{place}");
    let store = Postgres::connect(&url, fresh.table.clone()).await.unwrap();
    let builder = Relay::builder(store).retry(Retry::Fixed { delay: MS(50) });
    let builder = builder.poll_interval(MS(50)).max_attempts(1);
    let relay = Running::start(builder.destination("slow", slow.clone()).build().unwrap());
    eventually("all are on their way", async || slow.seen().len() == 300).await;
    let lock_out = format!(
        "alter role {role} nologin;
         select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
    );
    fresh.client.batch_execute(&lock_out).await.unwrap();
    slow.until_delivered(300).await;
    tokio::time::sleep(MS(1500)).await;
    let let_in = format!("alter role {role} login");
    fresh.client.batch_execute(&let_in).await.unwrap();
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    let ids: HashSet<_> = slow.seen().iter().map(|event| event.id).collect();
    assert_eq!(
        (slow.seen().len(), ids.len()),
        (300, 300),
        "none came twice"
    );
    assert_eq!(with_status(&store, Status::Delivered).await.len(), 300);
}

// M8 F10
#[tokio::test]
async fn an_event_whose_letter_is_refused_holds_up_no_other() {
    let mut fresh = Fresh::new().await;
    let used_up = fresh.enqueue(&[message("shop.bad.used-up.v1")]).await[0];
    let sql = fresh.sql(
        "update {outbox} set attempts = 25;
         alter table {outbox} add check (topic <> 'letters')",
    );
    fresh.client.batch_execute(&sql).await.unwrap();
    fresh.enqueue(&messages(50)).await;
    let witness = Witness::new(|event| async move {
        match event.topic == TOPIC {
            true => Outcome::Delivered,
            false => Outcome::Reject("too odd".to_owned()),
        }
    });
    let builder = brisk(&fresh).await.dead_letters("letters");
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    witness.until_delivered(50).await;
    let store = fresh.store().await;
    eventually("its rejection", async || {
        witness.seen().iter().any(|event| event.id == used_up.id)
    })
    .await;
    assert_ne!(
        record(&store, used_up.id).await.status,
        Status::Dead,
        "it has no letter"
    );
    // It is put down, though it could not be settled.
    eventually("an empty hand", async || {
        view.look().is_some_and(|standing| standing.in_flight == 0)
    })
    .await;
    assert_eq!(
        view.look().unwrap().died,
        0,
        "nothing is told that is not so"
    );
    let allow = fresh.sql("alter table {outbox} drop constraint outbox_topic_check");
    fresh.client.batch_execute(&allow).await.unwrap();
    relay.stop().await;
}

// B16: the server has done what it was asked to, and the relay never heard of it.
#[tokio::test]
async fn deaths_are_counted_even_if_the_answer_got_lost() {
    const EVENTS: usize = 10;
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(EVENTS)).await;
    let (front, rest) = fresh.url.rsplit_once(':').unwrap();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let (port, database) = rest.split_at(digits);
    let proxy = Arc::new(Proxy::start(port.parse().unwrap()).unwrap());
    let url = format!("{front}:{}{database}", proxy.port());
    let store = Postgres::connect(&url, fresh.table.clone()).await.unwrap();
    let between = proxy.clone();
    let witness = Witness::new(move |_| {
        // With one event in hand at most, the next answer is about this one: nearly always.
        between.lose_an_answer();
        async { Outcome::Reject("too odd".to_owned()) }
    });
    let builder = Relay::builder(store).poll_interval(MS(50));
    let builder = builder.in_flight(1).batch_size(1);
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    let store = fresh.store().await;
    eventually("all are dead", async || {
        with_status(&store, Status::Dead).await.len() == EVENTS
    })
    .await;
    eventually("all deaths are told", async || {
        view.look()
            .is_some_and(|standing| standing.died == EVENTS as u64)
    })
    .await;
    proxy.heal();
    relay.stop().await;
}
