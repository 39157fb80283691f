//! A turn and its event: both are there, or neither, and the event only once.

use mini_chat::{
    ANSWER_LIMIT, ChatError, Ending, NAMESPACE, OUTBOX, Request, TOPIC, TurnKey, TurnOutcome, Usage,
};
use posthaste::store::Claim;
use posthaste::{EnqueueError, Outbox, Status};
use posthaste_relay::sink::Outcome;
use posthaste_testkit::outbox::connect;
use uuid::Uuid;

use crate::support::*;

const SETTLED: &str = "select count(*) from chat.turns where outcome is not null";
const EVENTS: &str = "select count(*) from modkit_outbox_events";
const USED: &str = "select sum(used)::bigint from chat.quotas";
const RESERVED: &str = "select sum(reserved)::bigint from chat.quotas";

/// Settles a turn in a transaction of the test's own, which it gives back.
macro_rules! settling {
    ($scene:ident, $turn:ident => $transaction:ident) => {
        let pool = pool(&$scene.address);
        let mut connection = pool.get().await.unwrap();
        let $transaction = connection.transaction().await.unwrap();
        let settled = $scene
            .chat
            .settle_in(&$transaction, $turn, &answered())
            .await;
        settled.unwrap();
    };
}

// mini-chat-1.2.1, mini-chat-1.3.1, mini-chat-1.5.1, mini-chat-1.5.2, mini-chat-2.1.1, mini-chat-2.1.3,
// mini-chat-3.1.3, mini-chat-5.1, mini-chat-6.1, M3, M6
#[tokio::test]
async fn a_settled_turn_and_its_event_commit_together() {
    let scene = Scene::new().await;
    let turn = scene.begin().await;
    settling!(scene, turn => transaction);
    for count in [SETTLED, EVENTS, USED] {
        assert_eq!(
            scene.number(count).await,
            0,
            "{count}: not before the commit"
        );
    }
    transaction.commit().await.unwrap();
    assert_eq!(scene.number(SETTLED).await, 1);
    assert_eq!(scene.number(EVENTS).await, 1);
    assert_eq!(scene.number(USED).await, 6);
    assert_eq!(scene.number(RESERVED).await, 0);
}

// mini-chat-2.1.2, mini-chat-2.1.6, M6
#[tokio::test]
async fn a_turn_that_rolls_back_leaves_neither_effect_nor_event() {
    let scene = Scene::new().await;
    let turn = scene.begin().await;
    settling!(scene, turn => transaction);
    transaction.rollback().await.unwrap();
    settling!(scene, turn => transaction);
    drop(transaction);
    settling!(scene, turn => transaction);
    let row = transaction.query_one("select pg_backend_pid()", &[]).await;
    let pid: i32 = row.unwrap().get(0);
    let cut = "select pg_terminate_backend($1)";
    scene.client.execute(cut, &[&pid]).await.unwrap();
    assert!(transaction.commit().await.is_err());
    assert_eq!(scene.number(SETTLED).await, 0);
    assert_eq!(scene.number(EVENTS).await, 0);
    assert_eq!(scene.number(USED).await, 0);
    assert_eq!(scene.number(RESERVED).await, ANSWER_LIMIT + 4);
    assert!(scene.chat.settle(turn, &answered()).await.unwrap().new);
}

// mini-chat-1.7.2, mini-chat-2.1.4, mini-chat-2.1.5, mini-chat-3.1.5, mini-chat-3.1.6, M5
#[tokio::test]
async fn settling_again_finds_the_event_that_is_there_and_changes_nothing() {
    let scene = Scene::new().await;
    let first = scene.turn().await;
    assert!(first.new);
    for ending in [answered(), Ending::Failed] {
        let again = scene.chat.settle(first.usage.key.turn_id, &ending).await;
        let again = again.unwrap();
        assert_eq!((again.event, again.new), (first.event, false));
        assert_eq!(again.usage, first.usage, "the first ending counts");
    }
    assert_eq!(scene.number(EVENTS).await, 1);
    assert_eq!(scene.number(USED).await, 6);
}

// mini-chat-6.2, mini-chat-6.1, mini-chat-1.6.23, M5
#[tokio::test]
async fn of_many_who_settle_a_turn_at_once_one_enqueues_and_the_others_see_it_already_enqueued() {
    let scene = Scene::new().await;
    let turn = scene.begin().await;
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let chat = scene.chat.clone();
        racers.spawn(async move { chat.settle(turn, &answered()).await.unwrap() });
    }
    let settled = racers.join_all().await;
    assert_eq!(settled.iter().filter(|it| it.new).count(), 1);
    assert!(settled.iter().all(|it| it.event == settled[0].event));
    assert_eq!(scene.number(EVENTS).await, 1);
    assert_eq!(scene.number(USED).await, 6);
}

// mini-chat-1.2.2, mini-chat-3.1.1, mini-chat-3.1.2
#[tokio::test]
async fn every_outcome_of_a_turn_has_its_event_and_nothing_else_has_one() {
    let scene = Scene::new().await;
    let poor = Request {
        tenant_id: Uuid::new_v4(),
        ..scene.request()
    };
    let refused = scene.chat.begin(&poor).await.unwrap_err();
    assert!(
        matches!(refused, ChatError::QuotaExceeded { .. }),
        "{refused}"
    );
    for prompt in [String::new(), "word ".repeat(201)] {
        let request = Request {
            prompt,
            ..scene.request()
        };
        let refused = scene.chat.begin(&request).await.unwrap_err();
        let invalid = matches!(
            refused,
            ChatError::PromptEmpty | ChatError::PromptTooLong { .. }
        );
        assert!(invalid, "{refused}");
    }
    let request = scene.request();
    let turn = scene.chat.begin(&request).await.unwrap();
    let again = scene.chat.begin(&request).await.unwrap();
    assert_eq!(turn, again, "the same request is the same turn");
    assert_eq!(scene.number(RESERVED).await, ANSWER_LIMIT + 4);
    scene.chat.used(scene.tenant).await.unwrap();
    assert_eq!(scene.number("select count(*) from chat.turns").await, 1);
    assert_eq!(scene.number(EVENTS).await, 0);
    let endings = [
        (
            Ending::Completed("fine".to_owned()),
            TurnOutcome::Completed,
            5,
        ),
        (
            Ending::Aborted("well I".to_owned()),
            TurnOutcome::Aborted,
            6,
        ),
        (Ending::Failed, TurnOutcome::Failed, 0),
    ];
    for (events, (ending, outcome, tokens)) in (1..).zip(endings) {
        let turn = scene.begin().await;
        let settled = scene.chat.settle(turn, &ending).await.unwrap();
        assert_eq!(
            (settled.usage.outcome, settled.usage.tokens),
            (outcome, tokens)
        );
        assert_eq!(scene.number(EVENTS).await, events);
    }
    assert_eq!(scene.chat.used(scene.tenant).await.unwrap(), 11);
}

// mini-chat-3.1.4
#[test]
fn a_client_has_no_say_in_what_its_turn_costs() {
    let ids = r#""tenant_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
                 "request_id": "7d444841-9dc0-11d1-b245-5ffdce74fad2", "prompt": "hello""#;
    let plain = serde_json::from_str::<Request>(&format!("{{{ids}}}"));
    assert_eq!(plain.unwrap().prompt, "hello");
    for field in ["tokens", "usage", "outcome"] {
        let text = format!("{{{ids}, \"{field}\": 1}}");
        let refused = serde_json::from_str::<Request>(&text).unwrap_err();
        assert!(refused.to_string().contains("unknown field"), "{refused}");
    }
}

// mini-chat-1.5.4, mini-chat-1.6.21, mini-chat-1.7.1, mini-chat-2.1.7, mini-chat-2.1.8, mini-chat-3.1.7,
// mini-chat-3.1.8, mini-chat-4.1, M3
#[tokio::test]
async fn a_new_event_is_pending_due_and_unleased_and_says_all_that_billing_needs() {
    let scene = Scene::new().await;
    let settled = scene.turn().await;
    let TurnKey {
        tenant_id,
        turn_id,
        request_id,
    } = settled.usage.key;
    assert_eq!(tenant_id, scene.tenant);
    let event = scene.event(settled.event).await;
    assert_eq!((&*event.namespace, &*event.topic), (NAMESPACE, TOPIC));
    assert_eq!(event.tenant_id, Some(tenant_id));
    let key = format!("{tenant_id}/{turn_id}/{request_id}");
    assert_eq!(event.dedupe_key.as_ref(), Some(&key));
    assert_eq!(key.parse(), Ok(settled.usage.key), "and back");
    assert_eq!((event.status, event.attempts), (Status::Pending, 0));
    assert_eq!((event.lease_owner, event.lease_until), (None, None));
    let due =
        "select count(*) from modkit_outbox_events where next_attempt_at <= clock_timestamp()";
    assert_eq!(scene.number(due).await, 1);
    let content = scene.store.content(settled.event).await.unwrap().unwrap();
    let payload: Usage = serde_json::from_slice(&content.payload).unwrap();
    assert_eq!(payload, settled.usage);
}

// mini-chat-1.6.24, mini-chat-1.6.25, M4
#[tokio::test]
async fn an_event_whose_key_begins_with_another_tenant_is_refused_and_costs_no_transaction() {
    let scene = Scene::new().await;
    let settled = scene.turn().await;
    let outbox = Outbox::new(OUTBOX).unwrap();
    let pool = pool(&scene.address);
    let mut connection = pool.get().await.unwrap();
    let transaction = connection.transaction().await.unwrap();
    let mut usage = settled.usage;
    usage.key.request_id = Uuid::new_v4();
    let stranger = usage.message().unwrap().tenant(Uuid::new_v4());
    let refused = outbox.enqueue(&transaction, &stranger).await.unwrap_err();
    assert!(matches!(refused, EnqueueError::DedupeTenantMismatch { .. }));
    assert_eq!(refused.code(), "outbox.dedupe_tenant_mismatch");
    let receipt = outbox
        .enqueue(&transaction, &usage.message().unwrap())
        .await;
    assert!(receipt.unwrap().new, "the transaction goes on");
    transaction.commit().await.unwrap();
    assert_eq!(scene.number(EVENTS).await, 2);
}

// mini-chat-1.1.1, mini-chat-1.2.3
#[tokio::test]
async fn turns_are_settled_while_nobody_publishes_and_their_events_arrive_later() {
    let scene = Scene::new().await;
    let turns = scene.turns(20).await;
    assert!(
        scene
            .events()
            .await
            .iter()
            .all(|it| it.status == Status::Pending)
    );
    let dispatcher = scene.dispatcher(answer(|_| Outcome::Delivered)).await;
    for turn in turns {
        scene.until(turn.event, Status::Delivered).await;
    }
    dispatcher.stop().await;
}

// mini-chat-3.2.9, mini-chat-1.7.3, M7
#[tokio::test]
async fn events_are_claimed_oldest_first_as_many_as_asked_for() {
    let scene = Scene::new().await;
    let turns = scene.turns(7).await;
    let mut claimed = Vec::new();
    for expected in [3, 3, 1, 0] {
        let batch = scene.store.claim(&Claim::new(3)).await.unwrap().events;
        assert_eq!(batch.len(), expected);
        claimed.extend(batch.iter().map(|event| event.id));
    }
    let enqueued: Vec<Uuid> = turns.iter().map(|turn| turn.event).collect();
    assert_eq!(claimed, enqueued);
}

// mini-chat-1.6.20
#[tokio::test]
async fn an_event_of_no_tenant_can_have_any_key_or_none() {
    let scene = Scene::new().await;
    let outbox = Outbox::new(OUTBOX).unwrap();
    let mut client = connect(&scene.address).await;
    let transaction = client.transaction().await.unwrap();
    let message = |topic| {
        posthaste::Message::json(topic, &1)
            .unwrap()
            .namespace(NAMESPACE)
    };
    let messages = [
        message("mini-chat.model.changed.v1"),
        message("mini-chat.model.changed.v1").dedupe_key("model-7"),
    ];
    let receipts = outbox.enqueue_all(&transaction, &messages).await.unwrap();
    transaction.commit().await.unwrap();
    for receipt in receipts {
        assert_eq!(scene.event(receipt.id).await.tenant_id, None);
    }
}
