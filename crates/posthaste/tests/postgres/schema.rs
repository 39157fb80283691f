//! Making, checking and printing the structure of an outbox.

use posthaste::schema::{self, SchemaError};
use posthaste::store::Store;
use posthaste::store::postgres::Postgres;
use posthaste::{Message, Outbox, Table};
use posthaste_testkit::outbox::{Fresh, connect};
use posthaste_testkit::server::postgres_url;
use tokio_postgres::Client;
use uuid::Uuid;

fn some_schema() -> String {
    format!("t{}", Uuid::new_v4().simple())
}

fn table(name: &str) -> Table {
    Table::parse(name).unwrap()
}

/// All that the catalogs say about the objects of a schema, without the schema's name.
async fn structure(client: &Client, schema: &str) -> Vec<String> {
    let sql = "
        select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
               || a.attnotnull::text || a.attidentity::text || a.attnum::text || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = $1::text::regnamespace and c.relkind = 'r'
        union all
        select 'relation ' || relname || relkind::text || coalesce(reloptions::text, '')
        from pg_class where relnamespace = $1::text::regnamespace
        union all
        select 'index ' || indexdef from pg_indexes where schemaname = $1
        union all
        select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid)
        from pg_constraint where connamespace = $1::text::regnamespace
        union all
        select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace = $1::text::regnamespace
        union all
        select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = $1::text::regnamespace
        order by 1";
    let rows = client.query(sql, &[&schema]).await.unwrap();
    rows.iter()
        .map(|row| row.get::<_, String>(0).replace(schema, "schema"))
        .collect()
}

#[tokio::test]
async fn applying_again_changes_nothing() {
    let mut fresh = Fresh::new().await;
    let before = structure(&fresh.client, fresh.table.schema()).await;
    assert!(before.len() > 60, "{before:#?}");
    let version = schema::apply(&mut fresh.client, &fresh.table)
        .await
        .unwrap();
    assert_eq!(version, 3);
    schema::check(&fresh.client, &fresh.table).await.unwrap();
    assert_eq!(structure(&fresh.client, fresh.table.schema()).await, before);
}

// B2
#[tokio::test]
async fn eight_processes_may_apply_at_once() {
    apply_at_once(&postgres_url()).await;
}

// B2: the second must see what the first one did while it waited for it.
#[tokio::test]
async fn eight_processes_may_apply_at_once_whatever_isolation_the_database_prefers() {
    let url = postgres_url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let default = "options=-c%20default_transaction_isolation%3Dserializable";
    apply_at_once(&format!("{url}{separator}{default}")).await;
}

async fn apply_at_once(url: &str) {
    let schema = some_schema();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            // Two outboxes and an inbox in a schema that does not exist yet.
            let name = table(&format!(
                "{schema}.{}",
                ["orders", "billing", "inbox", "orders"][n % 4]
            ));
            let url = url.to_owned();
            tokio::spawn(async move {
                let mut client = connect(&url).await;
                match name.name() {
                    "inbox" => schema::apply_inbox(&mut client, &name).await,
                    _ => schema::apply(&mut client, &name).await,
                }
            })
        })
        .collect();
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(task.await.unwrap().unwrap());
    }
    assert_eq!(versions, [3, 3, 1, 3, 3, 3, 1, 3]);
    let client = connect(url).await;
    for name in ["orders", "billing"] {
        schema::check(&client, &table(&format!("{schema}.{name}")))
            .await
            .unwrap();
    }
    schema::check_inbox(&client, &table(&format!("{schema}.inbox")))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_printed_sql_makes_the_same_structure() {
    let url = postgres_url();
    let mut client = connect(&url).await;
    let (applied, printed) = (some_schema(), some_schema());
    let names = |schema: &str| {
        (
            table(&format!("{schema}.orders")),
            table(&format!("{schema}.inbox")),
        )
    };
    let (outbox, inbox) = names(&applied);
    schema::apply(&mut client, &outbox).await.unwrap();
    schema::apply_inbox(&mut client, &inbox).await.unwrap();
    let (outbox, inbox) = names(&printed);
    client
        .batch_execute(&format!("create schema {printed}"))
        .await
        .unwrap();
    client.batch_execute(&schema::sql(&outbox)).await.unwrap();
    client
        .batch_execute(&schema::inbox_sql(&inbox))
        .await
        .unwrap();
    assert_eq!(
        structure(&client, &applied).await,
        structure(&client, &printed).await
    );
    schema::check(&client, &outbox).await.unwrap();
    schema::check_inbox(&client, &inbox).await.unwrap();
    // And apply finds that there is nothing left to do.
    assert_eq!(schema::apply(&mut client, &outbox).await.unwrap(), 3);
}

#[tokio::test]
async fn what_is_missing_is_told_with_its_remedy() {
    let url = postgres_url();
    let client = connect(&url).await;
    let nowhere = table(&format!("{}.outbox", some_schema()));
    let error = schema::check(&client, &nowhere).await.unwrap_err();
    assert_eq!(error.code(), "schema.missing");
    assert!(
        error.to_string().contains("posthaste::schema::apply"),
        "{error}"
    );
    let error = Postgres::connect(&url, nowhere).await.err().unwrap();
    assert_eq!(error.code(), "schema.missing");
    // A neighbour in the same schema does not count.
    let fresh = Fresh::new().await;
    let neighbour = table(&format!("{}.other", fresh.table.schema()));
    let error = schema::check(&fresh.client, &neighbour).await.unwrap_err();
    assert_eq!(error.code(), "schema.missing");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let mut fresh = Fresh::new().await;
    let insert = format!(
        "insert into {}.posthaste_migrations (object, version, name, checksum) values ('{}', 4, 'next', 'x')",
        fresh.table.schema(),
        fresh.table
    );
    fresh.client.batch_execute(&insert).await.unwrap();
    let by_connect = Postgres::connect(&fresh.url, fresh.table.clone())
        .await
        .err()
        .unwrap();
    let by_check = schema::check(&fresh.client, &fresh.table)
        .await
        .unwrap_err();
    let by_apply = schema::apply(&mut fresh.client, &fresh.table)
        .await
        .unwrap_err();
    assert_eq!(by_connect.code(), "schema.newer");
    assert!(
        by_check.to_string().contains("upgrade posthaste"),
        "{by_check}"
    );
    for error in [by_check, by_apply] {
        assert!(
            matches!(
                error,
                SchemaError::Newer {
                    found: 4,
                    known: 3,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_edited_migration_is_noticed() {
    let mut fresh = Fresh::new().await;
    let update = format!(
        "update {}.posthaste_migrations set checksum = 'edited'",
        fresh.table.schema()
    );
    fresh.client.batch_execute(&update).await.unwrap();
    let by_check = schema::check(&fresh.client, &fresh.table)
        .await
        .unwrap_err();
    let by_apply = schema::apply(&mut fresh.client, &fresh.table)
        .await
        .unwrap_err();
    assert_eq!(
        (by_check.code(), by_apply.code()),
        ("schema.changed", "schema.changed")
    );
    // So is an inbox under the name of an outbox.
    let fresh = Fresh::new().await;
    let error = schema::check_inbox(&fresh.client, &fresh.table)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "schema.changed");
}

#[tokio::test]
async fn damage_is_told_and_its_remedy_mends_it() {
    let fresh = Fresh::new().await;
    let schema = fresh.table.schema();
    let before = structure(&fresh.client, schema).await;
    for damage in [
        "drop index outbox_due",
        "drop index outbox_keyed",
        "drop index outbox_dedupe",
        "drop index outbox_delivered",
        "drop index outbox_dead",
        "drop index outbox_audit_event",
        "drop index outbox_audit_at",
        "drop function outbox_existing",
        "drop function outbox_enqueue",
        "drop function outbox_notify",
        "drop table outbox_relay",
        "drop table outbox_archive",
        "drop table outbox_attempts",
        "drop table outbox_pauses",
        "drop index outbox_jobs_open",
        "alter table outbox_jobs drop constraint outbox_job_state",
        "alter table outbox drop constraint outbox_attempts",
        "alter table outbox drop constraint outbox_lease",
        "alter table outbox drop constraint outbox_pkey",
        "alter table outbox drop constraint outbox_payload",
    ] {
        let batch = format!("set search_path = {schema}; {damage}; reset search_path");
        fresh.client.batch_execute(&batch).await.unwrap();
        let error = schema::check(&fresh.client, &fresh.table)
            .await
            .unwrap_err();
        let SchemaError::Damaged { remedy, .. } = &error else {
            panic!("{damage}: {error}");
        };
        assert!(error.to_string().contains(remedy));
        fresh
            .client
            .batch_execute(remedy)
            .await
            .unwrap_or_else(|error| panic!("{remedy}: {error}"));
        schema::check(&fresh.client, &fresh.table).await.unwrap();
        assert_eq!(structure(&fresh.client, schema).await, before, "{damage}");
    }
}

// farm-12.3, B2
#[tokio::test]
async fn outboxes_do_not_know_of_each_other() {
    let url = postgres_url();
    let mut client = connect(&url).await;
    let (a, b) = (some_schema(), some_schema());
    let tables: Vec<Table> = [(&a, "orders"), (&a, "orders_2"), (&b, "orders")]
        .map(|(schema, name)| table(&format!("{schema}.{name}")))
        .to_vec();
    for table in &tables {
        schema::apply(&mut client, table).await.unwrap();
    }
    let transaction = client.transaction().await.unwrap();
    let message = Message::json("shop.order.placed.v1", &1).unwrap();
    for (n, table) in tables.iter().enumerate() {
        let message = message.clone().dedupe_key("same");
        for _ in 0..=n {
            Outbox::of(table.clone())
                .enqueue(&transaction, &message)
                .await
                .unwrap();
        }
    }
    transaction.commit().await.unwrap();
    for table in &tables {
        let store = Postgres::connect(&url, table.clone()).await.unwrap();
        assert_eq!(store.stats().await.unwrap().pending, 1);
    }
}

#[tokio::test]
async fn rows_that_make_no_sense_are_refused_by_the_table() {
    let fresh = Fresh::new().await;
    let good = "topic, payload) values ('t', '1'";
    for (constraint, columns) in [
        ("attempts", "attempts, topic, payload) values (-1, 't', '1'"),
        ("status", "status, topic, payload) values ('done', 't', '1'"),
        ("payload", "topic) values ('t'"),
        (
            "payload",
            "topic, payload, payload_bytes) values ('t', '1', ''",
        ),
        ("topic", "topic, payload) values ('', '1'"),
        ("topic", "topic, payload) values (repeat('x', 256), '1'"),
        (
            "delivered_at",
            "status, topic, payload) values ('delivered', 't', '1'",
        ),
        (
            "delivered_at",
            "delivered_at, topic, payload) values (now(), 't', '1'",
        ),
        (
            "dead_at",
            "dead_at, topic, payload) values (now(), 't', '1'",
        ),
        (
            "dead_at",
            "status, dead_at, topic, payload) values ('dead', now(), 't', '1'",
        ),
        (
            "lease",
            "status, topic, payload) values ('processing', 't', '1'",
        ),
        (
            "lease",
            "lease_until, topic, payload) values (now(), 't', '1'",
        ),
        (
            "lease",
            "lease_owner, topic, payload) values (gen_random_uuid(), 't', '1'",
        ),
        ("epoch", "lease_epoch, topic, payload) values (-1, 't', '1'"),
        (
            "tenant",
            "tenant_id, dedupe_key, topic, payload) values (gen_random_uuid(), 'k', 't', '1'",
        ),
        (
            "finite",
            "next_attempt_at, topic, payload) values ('infinity', 't', '1'",
        ),
        (
            "finite",
            "created_at, topic, payload) values ('-infinity', 't', '1'",
        ),
    ] {
        let insert = fresh.sql(&format!("insert into {{outbox}} ({columns})"));
        let error = fresh.client.execute(&insert, &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        let name = format!("outbox_{constraint}");
        assert_eq!(error.constraint(), Some(&*name), "{columns}");
    }
    let insert = fresh.sql(&format!("insert into {{outbox}} ({good})"));
    assert_eq!(fresh.client.execute(&insert, &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn notify_can_be_switched_on_and_off() {
    let mut fresh = Fresh::new().await;
    let store = fresh.store().await;
    store.claim(&posthaste::store::Claim::new(1)).await.unwrap();
    let message = Message::json("shop.order.placed.v1", &1).unwrap();
    let moment = std::time::Duration::from_millis(200);
    // Other tests may notify on the same channel; whoever is woken only looks once more.
    schema::notify(&mut fresh.client, &fresh.table, true)
        .await
        .unwrap();
    schema::notify(&mut fresh.client, &fresh.table, true)
        .await
        .unwrap();
    fresh.enqueue(&vec![message.clone(); 10]).await;
    tokio::time::timeout(moment * 25, store.woken())
        .await
        .unwrap();
    schema::check(&fresh.client, &fresh.table).await.unwrap();
    schema::notify(&mut fresh.client, &fresh.table, false)
        .await
        .unwrap();
    let sql = fresh.sql("select count(*) from pg_trigger where tgrelid = '{outbox}'::regclass");
    let triggers: i64 = fresh.client.query_one(&sql, &[]).await.unwrap().get(0);
    assert_eq!(triggers, 0);
}
