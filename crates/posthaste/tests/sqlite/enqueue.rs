//! Enqueue and inbox, with every driver for SQLite.

use posthaste::store::{Claim, Filter, Store};
use posthaste::{Inbox, Message, Once, Outbox, StoreError, Table, TopicRule, TraceContext, schema};
use posthaste_testkit::file::FreshFile;
use uuid::Uuid;

use crate::drivers::{Driver, Step, for_every_driver};

const TOPIC: &str = "shop.order.placed.v1";

fn message() -> Message {
    Message::json(TOPIC, &serde_json::json!({"order": 42})).unwrap()
}

for_every_driver!(
    the_event_exists_if_and_only_if_its_transaction_commits,
    what_may_be_there_already_is_met,
    many_messages_are_numbered_in_order,
    what_is_refused_leaves_the_transaction_usable,
    everything_that_a_message_says_arrives,
    an_event_is_handled_once,
    a_name_that_sqlite_cannot_tell_apart_is_refused,
);

// M3, M6
async fn the_event_exists_if_and_only_if_its_transaction_commits<D: Driver>() {
    let file = FreshFile::new();
    file.open()
        .execute_batch("create table orders (id integer)")
        .unwrap();
    let mut driver = D::connect(&file).await;
    let message = message();
    for (commits, expected) in [(false, 0), (true, 1)] {
        let steps = [
            Step::Sql("insert into orders values (42)"),
            Step::Enqueue(&file.outbox, &message),
        ];
        let played = driver.play(&steps, commits).await;
        assert!(played.all()[0].new);
        let sql = "select (select count(*) from orders), (select count(*) from {outbox})";
        let found: (i64, i64) = file
            .open()
            .query_row(&file.sql(sql), [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(found, (expected, expected));
    }
}

// M5, B4
async fn what_may_be_there_already_is_met<D: Driver>() {
    let file = FreshFile::new();
    let mut driver = D::connect(&file).await;
    let by_id = message().id(Uuid::new_v4());
    let by_key = message().dedupe_key("k");
    let steps = || {
        [
            Step::Enqueue(&file.outbox, &by_id),
            Step::Enqueue(&file.outbox, &by_key),
        ]
    };
    let first = driver.play(&steps(), true).await;
    let second = driver.play(&steps(), true).await;
    for (first, second) in first.receipts.iter().zip(&second.receipts) {
        let (first, second) = (first.as_ref().unwrap()[0], second.as_ref().unwrap()[0]);
        assert!(first.new && !second.new);
        assert_eq!((first.id, first.sequence), (second.id, second.sequence));
    }
    // The same in one call, among others.
    let other = message().dedupe_key("other");
    let messages = [other.clone(), by_id.clone(), by_key, other, message()];
    let played = driver
        .play(&[Step::EnqueueAll(&file.outbox, &messages)], true)
        .await;
    let new: Vec<bool> = played.all().iter().map(|receipt| receipt.new).collect();
    assert_eq!(new, [true, false, false, false, true]);
    assert_eq!(played.all()[0].id, played.all()[3].id);
    assert_eq!(played.all()[1].id, first.all()[0].id);
    let store = file.store().await;
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 4);
}

// P1
async fn many_messages_are_numbered_in_order<D: Driver>() {
    let file = FreshFile::new();
    let mut driver = D::connect(&file).await;
    let messages: Vec<Message> = (0..5000)
        .map(|n| Message::json(TOPIC, &n).unwrap())
        .collect();
    let played = driver
        .play(&[Step::EnqueueAll(&file.outbox, &messages)], true)
        .await;
    assert!(played.all().iter().all(|receipt| receipt.new));
    assert!(played.all().is_sorted_by(|a, b| a.sequence < b.sequence));
    let store = file.store().await;
    let events = store.claim(&Claim::new(5000)).await.unwrap().events;
    for (n, (event, receipt)) in events.iter().zip(played.all()).enumerate() {
        assert_eq!((event.id, event.sequence), (receipt.id, receipt.sequence));
        assert_eq!(event.payload, n.to_string().as_bytes());
    }
    assert_eq!(events.len(), 5000);
}

// M4, B10
async fn what_is_refused_leaves_the_transaction_usable<D: Driver>() {
    let file = FreshFile::new();
    let mut driver = D::connect(&file).await;
    let (good, bad) = (message(), Message::bytes("Orders!", "text/plain", "x"));
    let steps = [
        Step::Enqueue(&file.outbox, &bad),
        Step::Enqueue(&file.outbox, &good),
    ];
    let played = driver.play(&steps, true).await;
    let refused = played.receipts[0].as_ref().unwrap_err();
    assert_eq!(refused.code(), "outbox.topic_invalid");
    let store = file.store().await;
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 1);
}

// M1, B12
async fn everything_that_a_message_says_arrives<D: Driver>() {
    let file = FreshFile::new();
    let mut driver = D::connect(&file).await;
    let tenant = Uuid::new_v4();
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("a=1".to_owned()),
    };
    let text = r#"{"note": "naïve \"quotes\" 😀", "lines": [1.50, null]}"#;
    let json = |key: &str| {
        Message::json_text(TOPIC, text)
            .unwrap()
            .namespace("shop")
            .tenant(tenant)
            .aggregate("Order", "42")
            .event_type("OrderPlaced")
            .ordering_key("42")
            .dedupe_key(format!("{tenant}/{key}"))
            .header("source", "\"check'out\"")
            .trace(trace.clone())
    };
    let odd: Vec<u8> = (0..=255).collect();
    let bytes = || Message::bytes(TOPIC, "application/x-odd", odd.clone());
    let (one, other) = (json("one"), bytes());
    let many = [json("many"), bytes()];
    let steps = [
        Step::Enqueue(&file.outbox, &one),
        Step::Enqueue(&file.outbox, &other),
        Step::EnqueueAll(&file.outbox, &many),
    ];
    driver.play(&steps, true).await;
    let events = file
        .store()
        .await
        .claim(&Claim::new(10))
        .await
        .unwrap()
        .events;
    for event in [&events[0], &events[2]] {
        assert_eq!((&*event.namespace, &*event.topic), ("shop", TOPIC));
        assert_eq!(event.tenant_id, Some(tenant));
        assert_eq!(event.aggregate_type.as_deref(), Some("Order"));
        assert_eq!(event.aggregate_id.as_deref(), Some("42"));
        assert_eq!(event.event_type.as_deref(), Some("OrderPlaced"));
        assert_eq!(event.ordering_key.as_deref(), Some("42"));
        assert_eq!(event.headers["source"], "\"check'out\"");
        assert_eq!(event.content_type, "application/json");
        // The very text: SQLite does not write it anew.
        assert_eq!(event.payload, text.as_bytes());
        assert_eq!(event.trace.as_ref(), Some(&trace));
    }
    for event in [&events[1], &events[3]] {
        assert_eq!(event.payload, odd);
        assert_eq!(event.content_type, "application/x-odd");
        assert_eq!((&event.trace, &event.dedupe_key), (&None, &None));
    }
}

async fn an_event_is_handled_once<D: Driver>() {
    let file = FreshFile::new();
    let table = Table::parse("billing.inbox").unwrap();
    schema::sqlite::apply_inbox(&mut file.open(), &table).unwrap();
    schema::sqlite::check_inbox(&file.open(), &table).unwrap();
    let inbox = Inbox::of(table);
    let mut driver = D::connect(&file).await;
    let event = Uuid::new_v4();
    let twice = [Step::Once(&inbox, event), Step::Once(&inbox, event)];
    for (commits, first) in [
        (false, Once::First),
        (true, Once::First),
        (true, Once::Again),
    ] {
        let played = driver.play(&twice, commits).await;
        assert_eq!(played.once[0].as_ref().unwrap(), &first);
        assert_eq!(played.once[1].as_ref().unwrap(), &Once::Again);
    }
    let clean = [Step::Clean(&inbox), Step::Clean(&inbox)];
    assert_eq!(driver.play(&clean, true).await.cleaned, 1);
}

// B2
async fn a_name_that_sqlite_cannot_tell_apart_is_refused<D: Driver>() {
    let file = FreshFile::new();
    let mut driver = D::connect(&file).await;
    let outbox = Outbox::new("\"a.b\".c").unwrap();
    let message = message();
    let played = driver.play(&[Step::Enqueue(&outbox, &message)], true).await;
    let refused = played.receipts[0].as_ref().unwrap_err();
    assert_eq!(refused.code(), "outbox.table_invalid");
}

#[test]
fn without_a_runtime_the_same_is_to_be_had() {
    let file = FreshFile::new();
    let mut connection = file.open();
    let transaction = connection.transaction().unwrap();
    let receipt = file.outbox.enqueue_sync(&transaction, &message()).unwrap();
    assert!(receipt.new);
    let all = file
        .outbox
        .enqueue_all_sync(&transaction, &[message(), message()]);
    assert_eq!(all.unwrap().len(), 2);
    transaction.commit().unwrap();
}

/// An order that is there already, written so that SQLite rolls the transaction back by itself.
const TWICE: &str = "insert or rollback into orders values (1)";

fn with_an_order() -> FreshFile {
    let file = FreshFile::new();
    let orders = "create table orders (id integer primary key); insert into orders values (1)";
    file.open().execute_batch(orders).unwrap();
    file
}

fn events(file: &FreshFile) -> i64 {
    let count = file.sql("select count(*) from {outbox}");
    let counted = file.open().query_row(&count, [], |row| row.get(0));
    counted.unwrap()
}

// What SQLite has rolled back by itself must not go on statement by statement.
#[test]
fn a_transaction_that_sqlite_ended_is_noticed() {
    let file = with_an_order();
    let mut connection = file.open();
    let transaction = connection.transaction().unwrap();
    transaction.execute_batch(TWICE).unwrap_err();
    let refused = file.outbox.enqueue_sync(&transaction, &message());
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "outbox.not_in_transaction");
    assert_eq!(events(&file), 0);
}

#[cfg(feature = "sqlx-sqlite")]
#[tokio::test]
async fn a_transaction_that_sqlite_ended_is_noticed_with_sqlx() {
    use sqlx::Connection;

    let file = with_an_order();
    let connected = sqlx::SqliteConnection::connect(&file.address()).await;
    let mut connection = connected.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let twice = sqlx::query(TWICE).execute(&mut *transaction).await;
    twice.unwrap_err();
    for _ in 0..2 {
        let refused = file.outbox.enqueue(&mut transaction, &message()).await;
        assert_eq!(refused.unwrap_err().code(), "outbox.not_in_transaction");
    }
    drop(transaction);
    assert_eq!(events(&file), 0);
    // Asked, a transaction stays open and goes on.
    let connected = sqlx::SqliteConnection::connect(&file.address()).await;
    let mut connection = connected.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    for _ in 0..2 {
        let enqueued = file.outbox.enqueue(&mut transaction, &message()).await;
        enqueued.unwrap();
    }
    transaction.rollback().await.unwrap();
    assert_eq!(events(&file), 0);
}

// A statement that stops midway leaves what it wrote until then, unless all is rolled back.
#[tokio::test]
async fn what_a_store_could_not_enqueue_is_not_there() {
    for how in ["fail", "rollback"] {
        let file = FreshFile::new();
        let trigger = format!(
            "create trigger odd before insert on {{outbox}} when new.topic like '%odd%' \
             begin select raise({how}, 'too odd'); end"
        );
        file.open().execute_batch(&file.sql(&trigger)).unwrap();
        let store = file.store().await;
        let odd = Message::json("shop.odd.placed.v1", &1).unwrap();
        let batch = [message(), odd, message()];
        let error = store.enqueue(&batch, TopicRule::Strict).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap();
        let source = source.downcast_ref::<StoreError>().unwrap();
        assert_eq!(source.code(), "store.refused");
        let why = std::error::Error::source(source).unwrap().to_string();
        assert!(why.contains("too odd"), "{why}");
        assert_eq!(events(&file), 0, "{how}");
        let enqueued = store.enqueue(&batch[..1], TopicRule::Strict).await;
        assert_eq!(enqueued.unwrap().len(), 1);
    }
}
