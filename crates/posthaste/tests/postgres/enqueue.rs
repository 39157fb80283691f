//! Enqueue in the caller's transaction, with every driver.

use std::time::{Duration, SystemTime};

use posthaste::store::{Claim, Store};
use posthaste::{Event, Message, Outbox, TraceContext};
use posthaste_testkit::outbox::Fresh;
use serde_json::json;
use uuid::Uuid;

use crate::drivers::{Driver, Script, for_every_driver};
use crate::wire::Wire;

const TOPIC: &str = "shop.order.placed.v1";

for_every_driver! {
    a_new_event_is_pending_due_and_unleased,
    the_event_exists_if_and_only_if_its_transaction_commits,
    a_savepoint_that_is_rolled_back_takes_its_event_with_it,
    everything_that_a_message_says_arrives,
    payloads_arrive_as_they_were,
    an_event_can_be_delayed,
    a_thousand_events_keep_their_order,
    nothing_to_enqueue_is_no_statement,
    every_call_is_one_statement,
}

fn message() -> Message {
    Message::json(TOPIC, &json!({"order": 42})).unwrap()
}

async fn count(fresh: &Fresh) -> i64 {
    let sql = fresh.sql("select count(*) from {outbox}");
    fresh.client.query_one(&sql, &[]).await.unwrap().get(0)
}

async fn claim(fresh: &Fresh) -> Vec<Event> {
    let claimed = fresh.store().await.claim(&Claim::new(2_000)).await.unwrap();
    assert!(claimed.malformed.is_empty(), "{:?}", claimed.malformed);
    claimed.events
}

// M3
async fn a_new_event_is_pending_due_and_unleased<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let script = Script::new()
        .enqueue(&fresh.outbox, message())
        .enqueue_all(&fresh.outbox, vec![message()])
        .enqueue(&fresh.outbox, message().id(Uuid::new_v4()));
    let played = driver.play(script).await;
    for receipts in &played.receipts {
        assert!(receipts.as_ref().unwrap()[0].new);
    }
    let sql = fresh.sql(
        "select status = 'pending' and attempts = 0 and lease_epoch = 0 \
           and num_nonnulls(lease_owner, lease_until, delivered_at, dead_at, last_error, dead_reason) = 0 \
           and next_attempt_at <= clock_timestamp() \
           and next_attempt_at > clock_timestamp() - interval '1 minute' from {outbox}",
    );
    let rows = fresh.client.query(&sql, &[]).await.unwrap();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row.get(0)));
}

// M6
async fn the_event_exists_if_and_only_if_its_transaction_commits<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let script = || Script::new().enqueue(&fresh.outbox, message());
    assert!(driver.play(script().roll_back()).await.receipt().new);
    assert_eq!(count(&fresh).await, 0);
    let receipt = driver.play(script()).await.receipt();
    assert_eq!(count(&fresh).await, 1);
    let events = claim(&fresh).await;
    assert_eq!(
        (events[0].id, events[0].sequence),
        (receipt.id, receipt.sequence)
    );
}

// M6
async fn a_savepoint_that_is_rolled_back_takes_its_event_with_it<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let kept = Uuid::new_v4();
    let script = Script::new()
        .enqueue(&fresh.outbox, message().id(kept))
        .sql("savepoint here")
        .enqueue(&fresh.outbox, message())
        .enqueue_all(&fresh.outbox, vec![message(), message()])
        .sql("rollback to savepoint here");
    driver.play(script).await;
    let ids: Vec<Uuid> = claim(&fresh).await.iter().map(|event| event.id).collect();
    assert_eq!(ids, [kept]);
}

// M1 B3 K1 N1 B12
async fn everything_that_a_message_says_arrives<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let tenant = Uuid::new_v4();
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("vendor=a,other=b".to_owned()),
    };
    let odd = r#"it's "odd", \back, {brace}, NULL, ü"#;
    let plain = r#"it's "odd", \back, {brace}, NULL, %20"#;
    let full = |id| {
        message()
            .id(id)
            .namespace("billing")
            .tenant(tenant)
            .aggregate("Order", odd)
            .event_type("OrderPlaced")
            .ordering_key("NULL")
            .dedupe_key(format!("{tenant}/{id}"))
            .header("source", plain)
            .header("empty", "")
            .trace(trace.clone())
    };
    let ids = [Uuid::new_v4(), Uuid::new_v4()];
    let script = Script::new()
        .enqueue(&fresh.outbox, full(ids[0]))
        .enqueue_all(&fresh.outbox, vec![full(ids[1]), message()]);
    driver.play(script).await;
    let events = claim(&fresh).await;
    assert_eq!(events.len(), 3);
    for (event, id) in events.iter().zip(ids) {
        assert_eq!(event.id, id);
        assert_eq!(*event.table, fresh.table);
        assert_eq!((&*event.namespace, &*event.topic), ("billing", TOPIC));
        assert_eq!(event.tenant_id, Some(tenant));
        assert_eq!(event.aggregate_type.as_deref(), Some("Order"));
        assert_eq!(event.aggregate_id.as_deref(), Some(odd));
        assert_eq!(event.event_type.as_deref(), Some("OrderPlaced"));
        assert_eq!(event.ordering_key.as_deref(), Some("NULL"));
        assert_eq!(event.dedupe_key, Some(format!("{tenant}/{id}")));
        assert_eq!(event.headers["source"], plain);
        assert_eq!(event.headers["empty"], "");
        assert_eq!(event.trace.as_ref(), Some(&trace));
    }
    let bare = &events[2];
    assert_eq!((&*bare.namespace, bare.tenant_id), ("", None));
    assert!(bare.aggregate_id.is_none() && bare.ordering_key.is_none());
    assert!(bare.headers.is_empty() && bare.trace.is_none());
}

async fn payloads_arrive_as_they_were<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let binary: Vec<u8> = (0..=255).cycle().take(1024 * 1024).collect();
    let json = json!({"text": "ünï\"\\\n", "n": [1, -2.5, null], "deep": {"a": {}}});
    let messages = || {
        vec![
            Message::bytes(TOPIC, "application/octet-stream", Vec::new()),
            Message::bytes(TOPIC, "image/png", binary.clone()),
            Message::bytes(TOPIC, "application/json", "{ \"kept\" : 1 }"),
            Message::json(TOPIC, &json).unwrap(),
            Message::json_text(TOPIC, " 1 ").unwrap(),
            Message::json_text(TOPIC, "null").unwrap(),
            Message::json(TOPIC, &"x".repeat(1024 * 1024 - 2)).unwrap(),
        ]
    };
    let mut script = Script::new().enqueue_all(&fresh.outbox, messages());
    for message in messages() {
        script = script.enqueue(&fresh.outbox, message);
    }
    driver.play(script).await;
    let events = claim(&fresh).await;
    assert_eq!(events.len(), 14);
    for events in events.chunks(7) {
        assert!(events[0].payload.is_empty());
        assert_eq!(events[1].payload, binary);
        assert_eq!(events[1].content_type, "image/png");
        assert_eq!(&*events[2].payload, b"{ \"kept\" : 1 }");
        let read: serde_json::Value = serde_json::from_slice(&events[3].payload).unwrap();
        assert_eq!(read, json);
        assert_eq!(events[3].content_type, "application/json");
        assert_eq!(
            (&*events[4].payload, &*events[5].payload),
            (&b"1"[..], &b"null"[..])
        );
        assert_eq!(events[6].payload.len(), 1024 * 1024);
    }
}

async fn an_event_can_be_delayed<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let hour = Duration::from_secs(3600);
    let now = SystemTime::now();
    let messages = vec![
        message().deliver_after(hour),
        message().deliver_at(now + hour),
        message().deliver_at(now - hour),
        message(),
    ];
    let script = Script::new()
        .enqueue(&fresh.outbox, message().deliver_after(hour))
        .enqueue(&fresh.outbox, message().deliver_at(now + hour))
        .enqueue(&fresh.outbox, message().deliver_at(SystemTime::UNIX_EPOCH))
        .enqueue_all(&fresh.outbox, messages);
    driver.play(script).await;
    let sql = fresh.sql(
        "select round(extract(epoch from next_attempt_at - created_at) / 60)::integer from {outbox} order by sequence",
    );
    let rows = fresh.client.query(&sql, &[]).await.unwrap();
    let minutes: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    // What was due in the past is due now: it does not overtake what has waited for longer.
    assert_eq!(minutes, [60, 60, 0, 60, 60, 0, 0]);
    assert_eq!(claim(&fresh).await.len(), 3);
}

// P1
async fn a_thousand_events_keep_their_order<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let plain: Vec<Message> = (0..1_000)
        .map(|n| Message::json(TOPIC, &n).unwrap())
        .collect();
    let with_ids: Vec<Message> = plain
        .iter()
        .map(|message| message.clone().id(Uuid::new_v4()))
        .collect();
    for messages in [plain, with_ids] {
        let script = Script::new().enqueue_all(&fresh.outbox, messages);
        let receipts = driver.play(script).await.all();
        assert_eq!(receipts.len(), 1_000);
        assert!(receipts.is_sorted_by(|a, b| a.sequence < b.sequence));
        let mut events = claim(&fresh).await;
        events.sort_by_key(|event| event.sequence);
        for (n, (event, receipt)) in events.iter().zip(&receipts).enumerate() {
            assert_eq!(event.id, receipt.id);
            assert_eq!(event.payload, n.to_string());
        }
    }
}

async fn nothing_to_enqueue_is_no_statement<D: Driver>() {
    let fresh = Fresh::new().await;
    let wire = Wire::to(&fresh.url).await;
    let mut driver = D::connect(&wire.url).await;
    driver.play(Script::new()).await;
    wire.statements();
    driver.play(Script::new()).await;
    let bare = wire.statements();
    let script = Script::new().enqueue_all(&fresh.outbox, Vec::new());
    assert!(driver.play(script).await.all().is_empty());
    assert_eq!(wire.statements(), bare);
}

// M3 P1
async fn every_call_is_one_statement<D: Driver>() {
    let fresh = Fresh::new().await;
    let wire = Wire::to(&fresh.url).await;
    let mut driver = D::connect(&wire.url).await;
    driver.play(Script::new()).await;
    wire.statements();
    driver.play(Script::new()).await;
    let bare = wire.statements();
    let outbox = &fresh.outbox;
    let id = Uuid::new_v4();
    for script in [
        Script::new().enqueue(outbox, message()),
        Script::new().enqueue(outbox, message().id(id)),
        Script::new().enqueue(outbox, message().id(id)),
        Script::new().enqueue_all(outbox, vec![message(); 100]),
        Script::new().enqueue_all(outbox, vec![message().dedupe_key("k"); 3]),
    ] {
        driver.play(script).await;
        assert_eq!(wire.statements(), bare + 1);
    }
}

// B12
#[tokio::test]
async fn the_current_trace_is_stored_unless_the_message_has_its_own() {
    fn current() -> Option<TraceContext> {
        Some(TraceContext {
            traceparent: "00-11111111111111111111111111111111-2222222222222222-00".to_owned(),
            tracestate: None,
        })
    }
    let mut fresh = Fresh::new().await;
    fresh.outbox = Outbox::of(fresh.table.clone()).trace_with(current);
    let own = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: None,
    };
    fresh
        .enqueue(&[message(), message().trace(own.clone())])
        .await;
    let events = claim(&fresh).await;
    assert_eq!(events[0].trace, current());
    assert_eq!(events[1].trace, Some(own));
}

// M3
#[tokio::test]
async fn prepared_statements_enqueue_alike() {
    let mut fresh = Fresh::new().await;
    let wire = Wire::to(&fresh.url).await;
    let mut client = posthaste_testkit::outbox::connect(&wire.url).await;
    let prepared = fresh.outbox.prepare(&client).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    wire.statements();
    let outbox = &fresh.outbox;
    outbox
        .enqueue(prepared.on(&transaction), &message())
        .await
        .unwrap();
    let keyed = [message().dedupe_key("a"), message().dedupe_key("a")];
    let receipts = outbox
        .enqueue_all(prepared.on(&transaction), &keyed)
        .await
        .unwrap();
    assert!(receipts[0].new && !receipts[1].new);
    outbox
        .enqueue_all(prepared.on(&transaction), &[message(), message()])
        .await
        .unwrap();
    assert_eq!(wire.statements(), 3);
    transaction.commit().await.unwrap();
    fresh.enqueue(&[message()]).await;
    assert_eq!(count(&fresh).await, 5);
}

#[cfg(feature = "diesel-async")]
#[tokio::test]
async fn diesel_outside_a_transaction_is_refused() {
    use diesel_async::{AsyncConnection, AsyncPgConnection};

    let fresh = Fresh::new().await;
    let mut connection = AsyncPgConnection::establish(&fresh.url).await.unwrap();
    let error = fresh
        .outbox
        .enqueue(&mut connection, &message())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "outbox.not_in_transaction");
    assert_eq!(count(&fresh).await, 0);
    let enqueue = async |connection: &mut AsyncPgConnection| {
        fresh.outbox.enqueue(connection, &message()).await.unwrap();
        Ok::<_, diesel::result::Error>(())
    };
    connection.transaction(enqueue).await.unwrap();
    assert_eq!(count(&fresh).await, 1);
}
