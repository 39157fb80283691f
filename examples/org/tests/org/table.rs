//! The tables of both modules: one structure, as the document gives it.

use std::collections::BTreeMap;

use org::{HRM_OUTBOX, ORG_OUTBOX};
use posthaste::{Table, schema};
use tokio_postgres::error::SqlState;

use crate::support::*;

// org-2.2, org-3.2, org-4.1.1, org-4.1.2, org-4.1.3, org-4.1.4, org-4.1.5, org-4.1.6, org-4.1.7, org-4.1.8, org-4.1.9,
// org-4.1.10, org-4.1.11, org-4.1.12, org-5.4.2, B3
#[tokio::test]
async fn both_outboxes_have_every_column_of_the_document() {
    let scene = Scene::new().await;
    let select = "select column_name::text, data_type::text, is_nullable = 'YES'
                  from information_schema.columns where table_name = $1";
    let mut structures = Vec::new();
    for table in ["org_outbox", "hrm_outbox"] {
        let rows = scene.client.query(select, &[&table]).await.unwrap();
        let columns: BTreeMap<String, (String, bool)> = rows
            .iter()
            .map(|row| (row.get(0), (row.get(1), row.get(2))))
            .collect();
        structures.push(columns);
    }
    assert_eq!(structures[0], structures[1], "one structure");
    let time = "timestamp with time zone";
    for (name, kind, nullable) in [
        ("id", "uuid", false),
        ("tenant_id", "uuid", true),
        ("topic", "text", false),
        ("payload", "jsonb", true),
        ("sequence", "bigint", false),
        ("created_at", time, false),
        ("delivered_at", time, true),
        ("attempts", "integer", false),
        ("next_attempt_at", time, false),
        ("lease_until", time, true),
        ("last_error", "text", true),
        ("traceparent", "text", true),
        ("tracestate", "text", true),
    ] {
        let found = structures[0].get(name);
        assert_eq!(found, Some(&(kind.to_owned(), nullable)), "{name}");
    }
}

// org-4.1.13, org-4.1.14, org-4.1.5, B4
#[tokio::test]
async fn an_event_id_is_there_once_and_attempts_are_never_negative() {
    let scene = Scene::new().await;
    let event = scene.create("Nuts").await;
    let copy =
        "insert into org_outbox (id, topic, payload) select id, topic, payload from org_outbox";
    let refused = scene.client.batch_execute(copy).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let negative = "update org_outbox set attempts = -1 where id = $1";
    let refused = scene.client.execute(negative, &[&event]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
}

// org-4.1.15, org-4.1.16, org-4.1.17
#[tokio::test]
async fn what_is_pending_and_what_was_published_are_indexed_apart() {
    let scene = Scene::new().await;
    let select = "select indexdef from pg_indexes where indexname = $1";
    for (index, columns, only) in [
        (
            "org_outbox_due",
            "(next_attempt_at, sequence)",
            "(delivered_at IS NULL)",
        ),
        (
            "hrm_outbox_due",
            "(next_attempt_at, sequence)",
            "(delivered_at IS NULL)",
        ),
        (
            "org_outbox_delivered",
            "(delivered_at, sequence)",
            "(delivered_at IS NOT NULL)",
        ),
        (
            "hrm_outbox_delivered",
            "(delivered_at, sequence)",
            "(delivered_at IS NOT NULL)",
        ),
    ] {
        let row = scene.client.query_one(select, &[&index]).await.unwrap();
        let definition: &str = row.get(0);
        assert!(
            definition.contains(columns) && definition.contains(only),
            "{definition}"
        );
    }
}

// org-4.1.17
#[tokio::test]
async fn the_backlog_of_one_tenant_can_be_found() {
    let scene = Scene::new().await;
    scene.create("ours").await;
    let other = org::Command::of(uuid::Uuid::new_v4());
    let created = scene
        .organizations
        .create(&other, uuid::Uuid::now_v7(), "theirs")
        .await;
    let theirs = created.unwrap().id;
    let filter = posthaste::store::Filter {
        scope: posthaste::store::Scope {
            tenant_id: Some(other.tenant_id),
            ..Default::default()
        },
        ..Default::default()
    };
    let found = scene.store.list(&filter, 10).await.unwrap();
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), [theirs]);
}

// org-4.2.1, org-4.2.2, org-4.2.3, B2
#[tokio::test]
async fn an_outbox_is_made_by_a_migration_that_can_be_printed_and_run_again() {
    let address = database().await;
    let client = posthaste_testkit::outbox::connect(&address).await;
    let table = Table::parse(ORG_OUTBOX).unwrap();
    // By the migration tool of the module.
    client.batch_execute(&schema::sql(&table)).await.unwrap();
    schema::check(&client, &table).await.unwrap();
    // And by the service, at every start.
    for _ in 0..2 {
        org::set_up(&address).await.unwrap();
    }
    let hrm = Table::parse(HRM_OUTBOX).unwrap();
    schema::check(&client, &hrm).await.unwrap();
}
