//! What each refusal of a server means.

use std::cell::Cell;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use posthaste::Message;
use posthaste_relay::sink::{Nats, Outcome};
use posthaste_testkit::sink_contract;

use crate::stream::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_without_a_stream_is_named_and_works_once_there_is_one() {
    let server = private(&[]);
    let sink = Nats::builder(server.url()).build().unwrap();
    let missing = outcome(&sink).await;
    assert!(
        is_retry(
            &missing,
            "no stream stores subject \"shop.order.placed.v1\""
        ),
        "{missing:?}"
    );
    add(&server.url(), usual()).await;
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

// F9: a full stream passes, once its consumers have caught up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_that_refuses_new_messages_is_an_outage() {
    for limit in [
        Config {
            max_messages: 3,
            ..Config::default()
        },
        Config {
            max_bytes: 2000,
            ..Config::default()
        },
    ] {
        let stream = Stream::with(Config {
            discard: DiscardPolicy::New,
            ..limit
        })
        .await;
        let sink = stream.sink();
        let mut delivered = 0;
        let full = loop {
            match outcome(&sink).await {
                Outcome::Delivered => delivered += 1,
                full => break full,
            }
        };
        assert!(is_unavailable(&full, "exceeded"), "{full:?}");
        assert_eq!(stream.arrived().await.len(), delivered);
        let jetstream = jetstream(&stream.url).await;
        jetstream
            .get_stream(&stream.name)
            .await
            .unwrap()
            .purge()
            .await
            .unwrap();
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
    }
}

// F9: its streams have room, and it has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_has_used_up_its_quota_is_an_outage() {
    let accounts = "{ A: { jetstream: { max_file: 4000 }, users: [ { user: a, password: b } ] } }";
    let server = private(&[("accounts", accounts)]);
    let client = async_nats::ConnectOptions::with_user_and_password("a".into(), "b".into());
    let client = client.connect(server.url()).await.unwrap();
    let jetstream = async_nats::jetstream::new(client);
    let stream = jetstream.create_stream(usual()).await.unwrap();
    let sink = Nats::builder(server.url()).user("a", "b").build().unwrap();
    let mut delivered = 0;
    let used_up = loop {
        match outcome(&sink).await {
            Outcome::Delivered => delivered += 1,
            used_up => break used_up,
        }
    };
    assert!(delivered > 0);
    assert!(
        is_unavailable(&used_up, "resource limits exceeded for account"),
        "{used_up:?}"
    );
    stream.purge().await.unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_is_full_costs_only_its_own_events_an_attempt() {
    let stream = Stream::with(Config {
        discard: DiscardPolicy::New,
        max_messages_per_subject: 1,
        discard_new_per_subject: true,
        ..Config::default()
    })
    .await;
    let sink = stream.sink();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    let full = outcome(&sink).await;
    assert!(is_retry(&full, "per subject"), "{full:?}");
    let other = Message::json_text("shop.order.paid.v1", "{}").unwrap();
    assert_eq!(outcome_of(&sink, other).await, Outcome::Delivered);
}

// F6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_larger_than_its_stream_takes_is_rejected() {
    let stream = Stream::with(Config {
        max_message_size: 2000,
        ..Config::default()
    })
    .await;
    let sink = stream.sink();
    let large = Message::bytes("shop.order.placed.v1", "text/plain", vec![b'x'; 2000]);
    let refused = outcome_of(&sink, large).await;
    assert!(is_reject(&refused, "exceeds maximum"), "{refused:?}");
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

// B8: the connection works, so its neighbours are not disturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_is_heard_but_not_stored_costs_its_own_events_an_attempt() {
    let stream = Stream::new().await;
    let client = async_nats::connect(&stream.url).await.unwrap();
    let heard = format!("heard-{}", stream.name);
    let _listener = client.subscribe(format!("{heard}.>")).await.unwrap();
    client.flush().await.unwrap();
    let template = "{aggregate_id}.{topic}";
    let sink = Nats::builder(&stream.url)
        .subject(template)
        .timeout(MS(3000))
        .build()
        .unwrap();
    let to = |first: &str| sink_contract::message().aggregate("Order", first);
    let answered = Cell::new(false);
    let unheard = async {
        let outcome = outcome_of(&sink, to(&heard)).await;
        answered.set(true);
        outcome
    };
    let neighbours = async {
        // And some after it, when the connection would be gone.
        let mut left = 50;
        while left > 0 {
            left -= i32::from(answered.get());
            assert_eq!(
                outcome_of(&sink, to(&stream.name)).await,
                Outcome::Delivered
            );
            tokio::time::sleep(MS(3)).await;
        }
    };
    let (unheard, ()) = tokio::join!(unheard, neighbours);
    assert!(is_retry(&unheard, "no stream stores"), "{unheard:?}");
}

// Somebody who answers, and is no stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_somebody_else_is_no_acknowledgement() {
    use futures_util::StreamExt;
    let stream = Stream::new().await;
    let client = async_nats::connect(&stream.url).await.unwrap();
    let subject = format!("echo-{}", stream.name);
    let mut listener = client.subscribe(subject.clone()).await.unwrap();
    client.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(message) = listener.next().await {
            client
                .publish(message.reply.unwrap(), "thank you".into())
                .await
                .unwrap();
        }
    });
    let sink = Nats::builder(&stream.url).subject(subject).build().unwrap();
    let answered = outcome(&sink).await;
    assert!(
        is_retry(&answered, "no acknowledgement of JetStream"),
        "{answered:?}"
    );
}
