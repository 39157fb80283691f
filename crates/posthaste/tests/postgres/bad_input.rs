//! Bad input: a typed error with a stable code, no row, and a transaction that can go on.

use std::time::{Duration, SystemTime};

use posthaste::store::postgres::Postgres;
use posthaste::store::{Claim, Settlement, Store, Verdict};
use posthaste::{EnqueueError, Message, Outbox, Table, TopicRule, TraceContext, schema};
use posthaste_testkit::outbox::{Fresh, connect};
use posthaste_testkit::server::postgres_url;
use serde_json::json;
use uuid::Uuid;

use crate::drivers::{Driver, Script, for_every_driver};

const TOPIC: &str = "shop.order.placed.v1";

for_every_driver! {
    a_refused_message_leaves_no_row_and_a_usable_transaction,
}

fn message() -> Message {
    Message::json(TOPIC, &json!({"order": 42})).unwrap()
}

fn about(topic: &str) -> Message {
    Message::json(topic, &1).unwrap()
}

fn traced(traceparent: &str, tracestate: Option<&str>) -> Message {
    message().trace(TraceContext {
        traceparent: traceparent.to_owned(),
        tracestate: tracestate.map(str::to_owned),
    })
}

/// An array of this number, so many times.
fn numbers(times: usize, number: &str) -> Message {
    let array = format!("[{}]", vec![number; times].join(","));
    Message::json_text(TOPIC, array).unwrap()
}

/// Messages that must be refused, with the code of the error.
fn refused() -> Vec<(&'static str, Message)> {
    let long = |n| "x".repeat(n);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let tenant = Uuid::new_v4();
    let deep = (0..600).fold(json!(1), |inner, _| json!([inner]));
    vec![
        ("outbox.topic_invalid", about("")),
        ("outbox.topic_invalid", about("orders")),
        ("outbox.topic_invalid", about("Shop.Order.Placed.v1")),
        ("outbox.topic_invalid", about("shop.order.placed")),
        ("outbox.topic_invalid", about("shop.order.pla\0ced.v1")),
        ("outbox.topic_invalid", about(&long(65_536))),
        (
            "outbox.topic_invalid",
            about("shop.order.placed.v1'; drop table x"),
        ),
        (
            "outbox.dedupe_tenant_mismatch",
            message().tenant(tenant).dedupe_key("k"),
        ),
        (
            "outbox.dedupe_tenant_mismatch",
            message().tenant(tenant).dedupe_key(tenant.to_string()),
        ),
        (
            "outbox.dedupe_tenant_mismatch",
            message()
                .tenant(tenant)
                .dedupe_key(format!("{}/k", tenant.to_string().to_uppercase())),
        ),
        (
            "outbox.dedupe_tenant_mismatch",
            message()
                .tenant(tenant)
                .dedupe_key(format!("{}/k", Uuid::new_v4())),
        ),
        (
            "outbox.payload_too_large",
            Message::bytes(TOPIC, "text/plain", vec![0; 1024 * 1024 + 1]),
        ),
        (
            "outbox.payload_too_large",
            Message::json(TOPIC, &long(1024 * 1024 - 1)).unwrap(),
        ),
        ("outbox.json_invalid", Message::json(TOPIC, &deep).unwrap()),
        (
            "outbox.json_invalid",
            Message::json_text(TOPIC, "1e-20000").unwrap(),
        ),
        (
            "outbox.json_invalid",
            Message::json_text(TOPIC, format!("0.{}", "1".repeat(20_000))).unwrap(),
        ),
        ("outbox.json_invalid", numbers(131_071, "1e-9999")),
        ("outbox.json_invalid", numbers(105, "1e-9999")),
        ("outbox.json_invalid", numbers(3427, "1e300")),
        (
            "outbox.nul_character",
            Message::json(TOPIC, &"a\0b").unwrap(),
        ),
        (
            "outbox.nul_character",
            Message::json(TOPIC, &json!({"a\0b": 1})).unwrap(),
        ),
        ("outbox.nul_character", message().namespace("a\0")),
        ("outbox.nul_character", message().aggregate("a\0", "1")),
        ("outbox.nul_character", message().aggregate("Order", "\0")),
        ("outbox.nul_character", message().event_type("a\0")),
        ("outbox.nul_character", message().ordering_key("a\0")),
        ("outbox.nul_character", message().dedupe_key("a\0")),
        (
            "outbox.nul_character",
            Message::bytes(TOPIC, "text/\0", "x"),
        ),
        ("outbox.too_long", message().namespace(long(256))),
        ("outbox.too_long", message().aggregate(long(256), "1")),
        ("outbox.too_long", message().aggregate("Order", long(256))),
        ("outbox.too_long", message().event_type(long(256))),
        ("outbox.too_long", message().ordering_key(long(1025))),
        ("outbox.too_long", message().dedupe_key(long(1025))),
        ("outbox.too_long", message().header("a", long(16 * 1024))),
        ("outbox.too_long", Message::bytes(TOPIC, long(256), "x")),
        ("outbox.too_long", traced(parent, Some(&long(9_000)))),
        ("outbox.field_invalid", Message::bytes(TOPIC, "", "x")),
        (
            "outbox.field_invalid",
            Message::bytes(TOPIC, "text/plain\r\nx: y", "x"),
        ),
        ("outbox.header_invalid", message().header("", "x")),
        ("outbox.header_invalid", message().header("two words", "x")),
        ("outbox.header_invalid", message().header("nul\0", "x")),
        ("outbox.header_invalid", message().header("naïve", "x")),
        (
            "outbox.header_invalid",
            message().header("a", "line\r\nbreak: x"),
        ),
        ("outbox.header_invalid", message().header("a", "nul\0")),
        ("outbox.header_invalid", message().header("a", "ünï")),
        ("outbox.header_invalid", message().header("ce-id", "x")),
        (
            "outbox.header_invalid",
            message().header("Source", "x").header("source", "y"),
        ),
        ("outbox.field_invalid", message().namespace("a\r\nb")),
        ("outbox.field_invalid", message().aggregate("Order", "\n")),
        ("outbox.field_invalid", message().event_type("\u{7f}")),
        ("outbox.field_invalid", message().ordering_key("a\tb")),
        ("outbox.field_invalid", traced("", None)),
        ("outbox.field_invalid", traced("00-xyz-1-2", None)),
        ("outbox.field_invalid", traced(&format!("{parent}\0"), None)),
        (
            "outbox.field_invalid",
            traced(&format!("{parent}-\0"), None),
        ),
        (
            "outbox.field_invalid",
            traced(&format!("{parent}-\t"), None),
        ),
        ("outbox.field_invalid", traced(parent, Some("a=\0"))),
        ("outbox.field_invalid", traced(parent, Some("a=ü"))),
        (
            "outbox.field_invalid",
            message().deliver_after(Duration::MAX),
        ),
        (
            "outbox.field_invalid",
            message().deliver_at(SystemTime::now() + Duration::from_secs(200 * 365 * 86_400)),
        ),
    ]
}

// B10 M4 B22
async fn a_refused_message_leaves_no_row_and_a_usable_transaction<D: Driver>() {
    let fresh = Fresh::new().await;
    let mut driver = D::connect(&fresh.url).await;
    let mut script = Script::new();
    for (_, bad) in refused() {
        script = script
            .enqueue(&fresh.outbox, bad.clone())
            // One bad message refuses its whole batch.
            .enqueue_all(&fresh.outbox, vec![message(), bad, message()]);
    }
    let played = driver.play(script.enqueue(&fresh.outbox, message())).await;
    let (last, bad) = played.receipts.split_last().unwrap();
    assert!(last.as_ref().unwrap()[0].new);
    for (results, (code, message)) in bad.chunks(2).zip(refused()) {
        for result in results {
            let error = result.as_ref().expect_err(code);
            assert_eq!(error.code(), code, "{error}, {message:?}");
            assert!(error.to_string().len() < 300, "{error}");
        }
    }
    let sql = fresh.sql("select count(*) from {outbox}");
    let count: i64 = fresh.client.query_one(&sql, &[]).await.unwrap().get(0);
    assert_eq!(count, 1);
}

// Whatever passes the checks must be taken by the database, at the very limits, too.
#[tokio::test]
async fn what_is_within_the_limits_is_enqueued() {
    let mut fresh = Fresh::new().await;
    let long = |n: usize| "ü".repeat(n / 2);
    // Not compressible, as an index entry is limited after compression.
    let random = |n: usize| {
        let text: String = std::iter::repeat_with(|| Uuid::new_v4().simple().to_string())
            .take(n / 32 + 1)
            .collect();
        text[..n].to_owned()
    };
    let deep = (0..500).fold(json!(1), |inner, _| json!([inner]));
    fresh.outbox = Outbox::of(fresh.table.clone()).topics(TopicRule::Relaxed);
    let messages = [
        Message::bytes(TOPIC, "text/plain", vec![0; 1024 * 1024]),
        Message::json(TOPIC, &"x".repeat(1024 * 1024 - 2)).unwrap(),
        Message::json(TOPIC, &deep).unwrap(),
        Message::json_text(
            TOPIC,
            "[1e-300, 1e300, -0.0, 123456789012345678901234567890]",
        )
        .unwrap(),
        numbers(104, "1e-9999"),
        numbers(3426, "1e300"),
        Message::json_text(TOPIC, r#""\ud83d\ude00 \\u0000""#).unwrap(),
        about(&long(254)),
        about("Order Placed; drop table x"),
        about(&random(255))
            .namespace(random(255))
            .dedupe_key(random(1024))
            .ordering_key(random(1024)),
        message()
            .aggregate(long(254), long(254))
            .event_type(long(254)),
        message().header("a", random(16 * 1024 - 1)),
        message().header("!#$%&'*+-.^_`|~", ""),
        message()
            .namespace("")
            .dedupe_key("")
            .ordering_key("")
            .aggregate("", "")
            .event_type(""),
        traced(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            Some("a=b"),
        ),
        message().deliver_after(Duration::from_secs(99 * 365 * 86_400)),
        message().deliver_at(SystemTime::UNIX_EPOCH - Duration::from_secs(20_000 * 365 * 86_400)),
    ];
    for message in &messages {
        let transaction = fresh.client.transaction().await.unwrap();
        let enqueued = fresh.outbox.enqueue(&transaction, message).await;
        assert!(enqueued.is_ok(), "{enqueued:?}: {message:?}");
        transaction.commit().await.unwrap();
    }
    assert_eq!(fresh.enqueue(&messages).await.len(), messages.len());
    let claimed = fresh.store().await.claim(&Claim::new(100)).await.unwrap();
    assert!(claimed.malformed.is_empty(), "{:?}", claimed.malformed);
    // All but the delayed one, and what has an id of its own is there once.
    assert_eq!(claimed.events.len(), 2 * (messages.len() - 1) - 2);
}

#[test]
fn invalid_json_is_no_message() {
    for text in [
        "",
        "{",
        "{'a': 1}",
        "[1,]",
        "nul",
        "1 2",
        "\"\\ud800\"",
        "1e400",
        "\u{0}",
    ] {
        let error = Message::json_text(TOPIC, text).expect_err(text);
        assert_eq!(error.code(), "outbox.json_invalid");
    }
    let not_a_text = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = Message::json(TOPIC, &not_a_text).unwrap_err();
    assert!(matches!(error, EnqueueError::JsonInvalid(_)));
}

#[tokio::test]
async fn the_payload_limit_can_be_set() {
    let mut fresh = Fresh::new().await;
    let outbox = Outbox::of(fresh.table.clone()).payload_limit(10);
    let transaction = fresh.client.transaction().await.unwrap();
    let with = |n| Message::bytes(TOPIC, "text/plain", vec![b'x'; n]);
    outbox.enqueue(&transaction, &with(10)).await.unwrap();
    let error = outbox.enqueue(&transaction, &with(11)).await.unwrap_err();
    assert!(matches!(
        error,
        EnqueueError::PayloadTooLarge {
            size: 11,
            limit: 10
        }
    ));
    assert!(error.to_string().contains("11 bytes"), "{error}");
}

// B2
#[tokio::test]
async fn a_hostile_name_that_is_quoted_works_from_end_to_end() {
    let url = postgres_url();
    let mut client = connect(&url).await;
    let unique = Uuid::new_v4().simple();
    for name in [
        format!(r#""t{unique}""; drop schema public; --"."o'x""; drop table y; --""#),
        format!(r#""{{outbox}} $1 {unique}"."{{schema}} $ {{literal}}""#),
        format!(r#""Ünï {unique}"."a.b (c) \ %s""#),
    ] {
        let table = Table::parse(&name).unwrap();
        schema::apply(&mut client, &table).await.unwrap();
        schema::apply(&mut client, &table).await.unwrap();
        schema::check(&client, &table).await.unwrap();
        schema::notify(&mut client, &table, true).await.unwrap();
        let roles = schema::Roles {
            producer: format!("p\"'; $$ {{relay}} {unique}"),
            relay: format!("relay\n-- $$; {unique}"),
            reader: format!("reader' {unique}"),
            operator: format!("operator\\ {unique}"),
        };
        client
            .batch_execute(&schema::roles_sql(&table, &roles))
            .await
            .unwrap();
        let outbox = Outbox::new(&*name).unwrap();
        let transaction = client.transaction().await.unwrap();
        for _ in 0..2 {
            outbox.enqueue(&transaction, &message()).await.unwrap();
            outbox
                .enqueue(&transaction, &message().dedupe_key("k"))
                .await
                .unwrap();
            outbox
                .enqueue_all(&transaction, &[message()])
                .await
                .unwrap();
        }
        transaction.commit().await.unwrap();
        let store = Postgres::connect(&url, table).await.unwrap();
        let claimed = store.claim(&Claim::new(10)).await.unwrap();
        assert_eq!(claimed.events.len(), 5);
        let verdict = Verdict::Delivered { keep: false };
        let settlements: Vec<Settlement> = claimed
            .events
            .iter()
            .map(|event| Settlement {
                lease: event.lease,
                tried: None,
                verdict: verdict.clone(),
            })
            .collect();
        assert_eq!(store.settle(&settlements).await.unwrap().applied, 5);
        assert_eq!(store.take_over().await.unwrap(), 0);
        assert!(store.lead().await.unwrap());
        store.leave().await.unwrap();
    }
}
