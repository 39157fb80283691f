//! The shared table: its columns, what it holds to, and what it finds quickly.

use std::collections::BTreeMap;

use mini_chat::{NAMESPACE, TOPIC};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::support::*;

// mini-chat-1.6.1, mini-chat-1.6.2, mini-chat-1.6.3, mini-chat-1.6.4, mini-chat-1.6.5, mini-chat-1.6.6,
// mini-chat-1.6.7, mini-chat-1.6.8, mini-chat-1.6.9, mini-chat-1.6.10, mini-chat-1.6.11, mini-chat-1.6.12,
// mini-chat-1.6.13, mini-chat-1.6.14, mini-chat-1.6.15
#[tokio::test]
async fn the_table_has_every_column_of_the_document() {
    let scene = Scene::new().await;
    let select =
        "select column_name::text, data_type::text, is_nullable = 'YES', column_default::text
                  from information_schema.columns where table_name = 'modkit_outbox_events'";
    let rows = scene.client.query(select, &[]).await.unwrap();
    let columns: BTreeMap<&str, (&str, bool, Option<&str>)> = rows
        .iter()
        .map(|row| (row.get(0), (row.get(1), row.get(2), row.get(3))))
        .collect();
    let now = Some("clock_timestamp()");
    let time = "timestamp with time zone";
    for (name, kind, nullable, default) in [
        ("id", "uuid", false, Some("gen_random_uuid()")),
        ("namespace", "text", false, Some("''::text")),
        ("topic", "text", false, None),
        ("tenant_id", "uuid", true, None),
        ("dedupe_key", "text", true, None),
        ("payload", "jsonb", true, None),
        ("status", "text", false, Some("'pending'::text")),
        ("attempts", "integer", false, Some("0")),
        ("next_attempt_at", time, false, now),
        ("lease_owner", "uuid", true, None),
        ("lease_until", time, true, None),
        ("last_error", "text", true, None),
        ("created_at", time, false, now),
        ("updated_at", time, false, now),
    ] {
        let found = columns.get(name);
        assert_eq!(found, Some(&(kind, nullable, default)), "{name}");
    }
    let triggers =
        "select count(*) from pg_trigger where tgrelid = 'modkit_outbox_events'::regclass";
    assert_eq!(
        scene.number(triggers).await,
        0,
        "no trigger sets updated_at"
    );
}

/// What an insert into the table is refused for.
async fn refusal(scene: &Scene, columns: &str, values: &str) -> Option<SqlState> {
    let insert = format!(
        "insert into modkit_outbox_events (topic, {columns}) values ('a.b.c.v1', {values})"
    );
    let done = scene.client.batch_execute(&insert).await;
    done.err()
        .map(|error| error.code().cloned().expect("a refusal"))
}

// mini-chat-1.6.2, mini-chat-1.6.7, mini-chat-1.6.8, mini-chat-1.6.9, mini-chat-1.6.24, mini-chat-4.1, M1
#[tokio::test]
async fn the_table_holds_nothing_that_is_no_event() {
    let scene = Scene::new().await;
    let id = Uuid::new_v4();
    let good = format!("'{{}}', '{id}'");
    assert_eq!(refusal(&scene, "payload, id", &good).await, None);
    let again = refusal(&scene, "payload, id", &good).await;
    assert_eq!(
        again,
        Some(SqlState::UNIQUE_VIOLATION),
        "the id is the primary key"
    );
    for (columns, values) in [
        ("headers", "'{}'"),
        ("payload, status", "'{}', 'lost'"),
        ("payload, attempts", "'{}', -1"),
        (
            "payload, tenant_id, dedupe_key",
            "'{}', gen_random_uuid(), 'x/y'",
        ),
        ("payload, status", "'{}', 'processing'"),
    ] {
        let refused = refusal(&scene, columns, values).await;
        assert_eq!(
            refused,
            Some(SqlState::CHECK_VIOLATION),
            "{columns}: {values}"
        );
    }
}

// mini-chat-1.6.18, mini-chat-1.6.23, mini-chat-3.1.6, M5
#[tokio::test]
async fn a_dedupe_key_is_unique_within_its_namespace_and_topic_where_there_is_one() {
    let scene = Scene::new().await;
    let insert = |namespace: &str, topic: &str, key: &str| {
        format!(
            "insert into modkit_outbox_events (namespace, topic, dedupe_key, payload)
             values ('{namespace}', '{topic}', {key}, '{{}}')"
        )
    };
    let twice = [
        insert(NAMESPACE, TOPIC, "null"),
        insert(NAMESPACE, TOPIC, "null"),
        insert(NAMESPACE, TOPIC, "'a'"),
        insert("elsewhere", TOPIC, "'a'"),
        insert(NAMESPACE, "mini-chat.turn.begun.v1", "'a'"),
    ];
    for statement in twice {
        scene.client.batch_execute(&statement).await.unwrap();
    }
    let refused = scene
        .client
        .batch_execute(&insert(NAMESPACE, TOPIC, "'a'"))
        .await;
    let code = refused.unwrap_err().code().cloned();
    assert_eq!(code, Some(SqlState::UNIQUE_VIOLATION));
}

// mini-chat-1.6.16, mini-chat-1.6.17
#[tokio::test]
async fn what_is_due_is_indexed_and_so_are_expired_leases_as_they_are_due_as_well() {
    let scene = Scene::new().await;
    let select = "select indexdef from pg_indexes where indexname = 'modkit_outbox_events_due'";
    let row = scene.client.query_one(select, &[]).await.unwrap();
    let definition: &str = row.get(0);
    assert!(
        definition.contains("(next_attempt_at, sequence)"),
        "{definition}"
    );
    assert!(
        definition.ends_with("WHERE ((delivered_at IS NULL) AND (dead_at IS NULL))"),
        "leased events are in it: {definition}"
    );
}
