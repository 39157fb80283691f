//! What operators steer: pauses are obeyed by every relay, jobs are worked on, attempts are told.

use std::sync::Arc;

use posthaste::store::{Act, Ending, Filter, JobState, Redelivery, Target};
use posthaste::{Status, Store, header};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

const MAIL: &str = "shop.mail.sent.v1";

fn ann() -> Act {
    Act {
        actor: "ann".to_owned(),
        why: "their release".to_owned(),
    }
}

#[tokio::test]
async fn a_paused_outbox_is_left_in_peace_by_every_relay_until_it_is_resumed() {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    store.pause(&Target::Outbox, &ann()).await.unwrap();
    let sink = Witness::willing();
    // Also by relays that start while it is paused.
    let relays = [
        relay_to(&fresh, sink.clone()).await,
        relay_to(&fresh, sink.clone()).await,
    ];
    fresh.enqueue(&messages(20)).await;
    tokio::time::sleep(MS(1500)).await;
    assert!(sink.seen().is_empty());
    let waiting = with_status(&store, Status::Pending).await;
    assert!(waiting.iter().all(|record| record.lease_epoch == 0));
    store.resume(&Target::Outbox, &ann()).await.unwrap();
    sink.until_delivered(20).await;
    store.pause(&Target::Outbox, &ann()).await.unwrap();
    // A relay looks twice a second, on a machine that has time for it.
    tokio::time::sleep(MS(5000)).await;
    fresh.enqueue(&messages(5)).await;
    tokio::time::sleep(MS(700)).await;
    assert_eq!(sink.seen().len(), 20);
    for relay in relays {
        relay.stop().await;
    }
}

#[tokio::test]
async fn what_was_claimed_and_not_started_is_handed_back_by_a_pause() {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    let (go, sink) = Witness::held();
    let builder = brisk(&fresh).await.max_attempts(1);
    let builder = builder.destination("w", sink.clone()).concurrency(2);
    let relay = Running::start(builder.build().unwrap());
    fresh.enqueue(&messages(20)).await;
    eventually("two are under way", async || sink.seen().len() == 2).await;
    store.pause(&Target::Outbox, &ann()).await.unwrap();
    // A relay looks twice a second, on a machine that has time for it.
    tokio::time::sleep(MS(5000)).await;
    go.send(true).unwrap();
    eventually("all others are back", async || {
        with_status(&store, Status::Pending).await.len() == 18
    })
    .await;
    assert_eq!(sink.delivered().len(), 2);
    let waiting = with_status(&store, Status::Pending).await;
    assert!(waiting.iter().all(|record| record.attempts == 0));
    relay.stop().await;
}

#[tokio::test]
async fn a_paused_destination_costs_its_events_no_attempt_and_others_nothing() {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    let mail = Target::Destination("mail".to_owned());
    store.pause(&mail, &ann()).await.unwrap();
    let (paused, other) = (Witness::willing(), Witness::willing());
    // With one attempt in all, a pause that cost one would show at once.
    let builder = brisk(&fresh).await.max_attempts(1);
    let builder = builder
        .destination("mail", paused.clone())
        .route(MAIL, "mail")
        .destination("other", other.clone())
        .route("*", "other");
    let relay = Running::start(builder.build().unwrap());
    for round in 1..=5 {
        let mails = (0..20).map(|_| message(MAIL));
        let batch: Vec<_> = mails.chain(messages(20)).collect();
        fresh.enqueue(&batch).await;
        other.until_delivered(round * 20).await;
    }
    assert!(paused.seen().is_empty());
    store.resume(&mail, &ann()).await.unwrap();
    paused.until_delivered(100).await;
    until_settled(&store).await;
    assert!(with_status(&store, Status::Dead).await.is_empty());
    relay.stop().await;
}

// K6, B18, M15
#[tokio::test]
async fn a_relay_works_on_jobs_and_what_it_redelivers_says_so() {
    let mut fresh = Fresh::new().await;
    let sink = Witness::new(|event: Arc<posthaste::Event>| async move {
        match event.headers.contains_key(header::REDELIVERED) {
            true => Outcome::Delivered,
            false => Outcome::Reject("not yet".to_owned()),
        }
    });
    let relay = relay_to(&fresh, sink.clone()).await;
    let store = fresh.store().await;
    let ids: Vec<_> = fresh
        .enqueue(&messages(700))
        .await
        .into_iter()
        .map(|receipt| receipt.id)
        .collect();
    eventually("all are dead", async || {
        store.stats().await.unwrap().dead == 700
    })
    .await;
    let redelivery = Redelivery {
        filter: Filter {
            error: Some("not yet".to_owned()),
            ..Filter::default()
        },
        rate: None,
    };
    let job = store.start_job(&redelivery, &ann()).await.unwrap();
    assert_eq!(job.total, 700);
    eventually("the job is done", async || {
        let job = store.job(job.id).await.unwrap().unwrap();
        job.state == JobState::Done && job.redelivered == 700
    })
    .await;
    sink.until_delivered(700).await;
    until_settled(&store).await;
    let history = store.history(ids[0]).await.unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|attempt| (attempt.ending, attempt.destination.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (Ending::Rejected, Some("witness")),
            (Ending::Delivered, Some("witness"))
        ]
    );
    relay.stop().await;
}

// K6
#[tokio::test]
async fn no_job_waits_for_those_that_are_paused_or_cannot_be_worked_on() {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    let reject = Witness::new(|event: Arc<posthaste::Event>| async move {
        match event.headers.contains_key(header::REDELIVERED) {
            true => Outcome::Delivered,
            false => Outcome::Reject("not yet".to_owned()),
        }
    });
    let relay = relay_to(&fresh, reject.clone()).await;
    fresh.enqueue(&messages(3)).await;
    eventually("all are dead", async || {
        store.stats().await.unwrap().dead == 3
    })
    .await;
    relay.stop().await;
    let begin = async || {
        let filter = Filter::default();
        let redelivery = Redelivery { filter, rate: None };
        store.start_job(&redelivery, &ann()).await.unwrap().id
    };
    let first = begin().await;
    for _ in 0..20 {
        let paused = begin().await;
        let set = store.set_job(paused, JobState::Paused, &ann()).await;
        set.unwrap();
    }
    let odd = begin().await;
    let table = &fresh.table;
    let spoil = format!("update {table}_jobs set filter = '{{\"colour\": \"red\"}}' where id = $1");
    fresh.client.execute(&spoil, &[&odd]).await.unwrap();
    assert_eq!(store.jobs(100).await.unwrap().len(), 21);
    let relay = relay_to(&fresh, reject.clone()).await;
    eventually("the first job is done", async || {
        let job = store.job(first).await.unwrap().unwrap();
        job.state == JobState::Done && job.redelivered == 3
    })
    .await;
    relay.stop().await;
}

// B8
#[tokio::test]
async fn a_delivery_that_takes_too_long_is_told_as_such() {
    let mut fresh = Fresh::new().await;
    let sink = Witness::new(|event: Arc<posthaste::Event>| async move {
        if event.attempts == 1 {
            std::future::pending::<()>().await;
        }
        Outcome::Delivered
    });
    let builder = brisk(&fresh).await.dispatch_timeout(MS(100));
    let builder = builder.destination("witness", sink.clone());
    let relay = Running::start(builder.build().unwrap());
    let id = fresh.enqueue(&messages(1)).await[0].id;
    let store = fresh.store().await;
    sink.until_delivered(1).await;
    until_settled(&store).await;
    let history = store.history(id).await.unwrap();
    let endings: Vec<Ending> = history.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Ending::TimedOut, Ending::Delivered]);
    assert!(history[0].took >= Some(MS(100)));
    relay.stop().await;
}
