//! The dispatcher: publishes what is the chat's, once each, until it is told to stop.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use mini_chat::{Dispatcher, NAMESPACE, OUTBOX, TOPIC, Usage, settings};
use posthaste::store::Scope;
use posthaste::{Event, Message, Outbox, Status};
use posthaste_relay::Settings;
use posthaste_relay::sink::{self, Outcome};
use posthaste_testkit::outbox::connect;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::*;

// mini-chat-1.3.2, mini-chat-1.5.3, mini-chat-2.2.2, mini-chat-2.2.5, mini-chat-2.2.6, mini-chat-2.2.15, mini-chat-5.2.1
#[tokio::test]
async fn the_dispatcher_is_a_task_that_publishes_until_its_token_is_cancelled() {
    let scene = Scene::new().await;
    let dispatcher = scene.dispatcher(scene.billing().sink()).await;
    for _ in 0..3 {
        let turn = scene.turn().await;
        let event = scene.until(turn.event, Status::Delivered).await;
        assert_eq!((event.attempts, event.lease_owner), (1, None));
        assert!(event.delivered_at.is_some());
    }
    dispatcher.stop().await;
    let late = scene.turn().await;
    tokio::time::sleep(MS(300)).await;
    assert_eq!(scene.event(late.event).await.status, Status::Pending);
    assert_eq!(
        scene.number("select count(*) from billing.charges").await,
        3
    );
}

// mini-chat-1.7.5, mini-chat-2.2.12, mini-chat-2.2.13, mini-chat-2.2.14, M12
#[tokio::test]
async fn the_callback_gets_each_message_as_it_is_and_says_what_became_of_it() {
    let scene = Scene::new().await;
    let turn = scene.turn().await;
    let outbox = Outbox::new(OUTBOX).unwrap();
    let mut client = connect(&scene.address).await;
    let transaction = client.transaction().await.unwrap();
    // No JSON, no text: nothing that somebody could have looked into.
    let odd = Message::bytes("mini-chat.sound.said.v1", "audio/x", vec![0, 159, 146, 150]);
    let odd = outbox
        .enqueue(&transaction, &odd.namespace(NAMESPACE))
        .await;
    transaction.commit().await.unwrap();
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let keep = seen.clone();
    let publish = answer(move |event| {
        keep.lock().unwrap().push(event.clone());
        match event.topic.as_str() {
            TOPIC => Outcome::from(Ok::<(), std::io::Error>(())),
            _ => Outcome::from(Err(std::io::Error::other("nobody listens"))),
        }
    });
    let dispatcher = scene.dispatcher(publish).await;
    scene.until(turn.event, Status::Delivered).await;
    let odd = odd.unwrap().id;
    eventually("the other one failed", async || {
        scene.event(odd).await.last_error.as_deref() == Some("nobody listens")
    })
    .await;
    dispatcher.stop().await;
    let seen = seen.lock().unwrap();
    let message = seen.iter().find(|event| event.id == turn.event).unwrap();
    assert_eq!((&*message.namespace, &*message.topic), (NAMESPACE, TOPIC));
    assert_eq!(message.tenant_id, Some(scene.tenant));
    assert_eq!(message.dedupe_key, Some(turn.usage.key.to_string()));
    assert_eq!(message.attempts, 1);
    let payload: Usage = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(payload, turn.usage);
    let message = seen.iter().find(|event| event.id == odd).unwrap();
    assert_eq!(message.payload[..], [0, 159, 146, 150]);
}

// mini-chat-1.1.2, mini-chat-1.6.19, mini-chat-1.7.6
#[tokio::test]
async fn events_of_other_modules_and_of_tenants_that_are_not_its_own_are_left_in_peace() {
    let scene = Scene::new().await;
    let (ours, theirs) = (scene.turn().await, Uuid::new_v4());
    scene.chat.grant(theirs, 1000).await.unwrap();
    let request = mini_chat::Request {
        tenant_id: theirs,
        ..scene.request()
    };
    let turn = scene.chat.begin(&request).await.unwrap();
    let theirs = scene.chat.settle(turn, &answered()).await.unwrap();
    let other = Message::json("mail.letter.sent.v1", &1).unwrap();
    let outbox = Outbox::new(OUTBOX).unwrap();
    let mut client = connect(&scene.address).await;
    let transaction = client.transaction().await.unwrap();
    let other = outbox.enqueue(&transaction, &other.namespace("mail")).await;
    transaction.commit().await.unwrap();
    let settings = Settings {
        scope: Scope {
            tenant_id: Some(scene.tenant),
            ..settings().scope
        },
        ..brisk()
    };
    let one_tenant = scene
        .dispatcher_with(settings, answer(|_| Outcome::Delivered))
        .await;
    scene.until(ours.event, Status::Delivered).await;
    assert_eq!(scene.event(theirs.event).await.attempts, 0);
    one_tenant.stop().await;
    let all_tenants = scene.dispatcher(answer(|_| Outcome::Delivered)).await;
    scene.until(theirs.event, Status::Delivered).await;
    all_tenants.stop().await;
    assert_eq!(scene.event(other.unwrap().id).await.attempts, 0);
}

// mini-chat-2.2.7, mini-chat-2.2.8, M11
#[tokio::test]
async fn a_poll_interval_is_given_to_each_dispatcher_and_must_fit_the_lease() {
    let scene = Scene::new().await;
    let start = async |poll_interval| {
        let settings = Settings {
            poll_interval,
            ..settings()
        };
        let sink = answer(|_| Outcome::Delivered);
        Dispatcher::start(&scene.address, settings, sink, CancellationToken::new()).await
    };
    let third = settings().lease / 3;
    assert!(start(third).await.is_ok());
    let refused = start(third + MS(1)).await.err().expect("it is refused");
    assert!(
        refused
            .to_string()
            .contains("poll_interval must be at most a third of lease"),
        "{refused}"
    );
}

// mini-chat-6.3, mini-chat-2.2.1, mini-chat-2.2.9, mini-chat-3.2.5, mini-chat-3.2.10, mini-chat-5.2.1, M7, M13
#[tokio::test]
async fn replicas_share_the_work_and_publish_nothing_twice() {
    let scene = Scene::new().await;
    let calls: Arc<Mutex<HashMap<Uuid, Vec<usize>>>> = Arc::default();
    let mut replicas = Vec::new();
    for replica in 0..3 {
        let calls = calls.clone();
        let publish = sink::from_fn(move |event: Arc<Event>| {
            let mut calls = calls.lock().unwrap();
            calls.entry(event.id).or_default().push(replica);
            async {
                tokio::time::sleep(MS(20)).await;
                Outcome::Delivered
            }
        });
        // Small batches, and slow: none takes it all.
        let settings = Settings {
            batch_size: 5,
            in_flight: 5,
            ..brisk()
        };
        replicas.push(scene.dispatcher_with(settings, publish).await);
    }
    let turns = scene.turns(200).await;
    eventually("all are delivered", async || {
        let stats = scene.store.stats().await.unwrap();
        stats.pending + stats.processing == 0
    })
    .await;
    for replica in replicas {
        replica.stop().await;
    }
    let events = scene.events().await;
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len(), turns.len());
    assert!(calls.values().all(|replicas| replicas.len() == 1));
    let at_work: BTreeSet<&usize> = calls.values().flatten().collect();
    assert!(at_work.len() >= 2, "only {at_work:?} worked");
    assert!(
        events
            .iter()
            .all(|event| event.attempts == 1 && event.status == Status::Delivered)
    );
}
