//! Making, checking and printing the structure of an outbox.

use posthaste::schema::{self, SchemaError};
use posthaste::store::{Filter, connect};
use posthaste::{Message, Outbox, Table};
use posthaste_testkit::file::FreshFile;
use rusqlite::Connection;

fn table(name: &str) -> Table {
    Table::parse(name).unwrap()
}

/// All that the file says about its tables and indexes.
fn structure(connection: &Connection) -> Vec<String> {
    let sql =
        "select type || ' ' || name || ' ' || coalesce(sql, '') from sqlite_master order by 1";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn applying_again_changes_nothing() {
    let file = FreshFile::new();
    let before = structure(&file.open());
    assert!(before.len() > 10, "{before:#?}");
    assert_eq!(
        schema::sqlite::apply(&mut file.open(), &file.table).unwrap(),
        3
    );
    schema::sqlite::check(&file.open(), &file.table).unwrap();
    assert_eq!(structure(&file.open()), before);
    let mode: String = file
        .open()
        .query_row("pragma journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

// B2
#[test]
fn many_may_apply_at_once() {
    for _ in 0..5 {
        let file = FreshFile::new();
        let path = file.dir.join("new.db");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let mut connection = Connection::open(path).unwrap();
                    connection.busy_timeout(std::time::Duration::ZERO).unwrap();
                    let name = table(["orders", "billing.orders", "inbox", "orders"][n % 4]);
                    match name.name() {
                        "inbox" => schema::sqlite::apply_inbox(&mut connection, &name),
                        _ => schema::sqlite::apply(&mut connection, &name),
                    }
                    .unwrap()
                });
            }
        });
        let connection = Connection::open(&path).unwrap();
        schema::sqlite::check(&connection, &table("orders")).unwrap();
        schema::sqlite::check(&connection, &table("billing.orders")).unwrap();
        schema::sqlite::check_inbox(&connection, &table("inbox")).unwrap();
    }
}

#[test]
fn the_printed_sql_makes_the_same_structure() {
    let (mut applied, printed) = (
        Connection::open_in_memory().unwrap(),
        Connection::open_in_memory().unwrap(),
    );
    let (outbox, inbox) = (table("shop.orders"), table("inbox"));
    schema::sqlite::apply(&mut applied, &outbox).unwrap();
    schema::sqlite::apply_inbox(&mut applied, &inbox).unwrap();
    printed
        .execute_batch(&schema::sqlite::sql(&outbox).unwrap())
        .unwrap();
    printed
        .execute_batch(&schema::sqlite::inbox_sql(&inbox).unwrap())
        .unwrap();
    assert_eq!(structure(&applied), structure(&printed));
    schema::sqlite::check(&printed, &outbox).unwrap();
    schema::sqlite::check_inbox(&printed, &inbox).unwrap();
}

#[tokio::test]
async fn an_address_says_where_to_apply_and_to_check() {
    let file = FreshFile::new();
    let address = format!("sqlite:{}", file.dir.join("other.db").display());
    let orders = table("orders");
    let missing = schema::check_at(&address, &orders).await.unwrap_err();
    assert_eq!(missing.code(), "schema.missing");
    assert!(missing.to_string().contains("other.db"), "{missing}");
    let store = connect(&address, orders.clone()).await.map(drop);
    assert_eq!(store.unwrap_err().code(), "schema.missing");
    assert!(!file.dir.join("other.db").exists(), "to look makes no file");
    assert_eq!(schema::apply_at(&address, &orders).await.unwrap(), 3);
    schema::check_at(&address, &orders).await.unwrap();
    assert_eq!(
        schema::sql_at(&address, &orders).unwrap(),
        schema::sqlite::sql(&orders).unwrap()
    );
    let store = connect(&address, orders.clone()).await.unwrap();
    assert_eq!(store.table(), &orders);
    let neighbour = schema::check_at(&address, &table("billing.orders")).await;
    assert_eq!(neighbour.unwrap_err().code(), "schema.missing");
    let dotted = schema::apply_at(&address, &table("\"a.b\".c")).await;
    assert_eq!(dotted.unwrap_err().code(), "outbox.table_invalid");
    for unknown in [
        "mysql://root:secret@host/shop",
        "sqlite:",
        "sqlite::memory:",
        "shop.db",
    ] {
        let error = connect(unknown, orders.clone())
            .await
            .map(drop)
            .unwrap_err();
        assert_eq!(error.code(), "store.settings", "{unknown}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_newer_or_edited_schema_is_refused() {
    for (change, code) in [
        (
            "insert into posthaste_migrations (object, version, name, checksum) values ('shop.outbox', 4, 'next', 'x')",
            "schema.newer",
        ),
        (
            "update posthaste_migrations set checksum = 'edited'",
            "schema.changed",
        ),
        ("delete from posthaste_migrations", "schema.missing"),
        ("drop table posthaste_migrations", "schema.missing"),
    ] {
        let file = FreshFile::new();
        file.open().execute_batch(change).unwrap();
        let by_check = schema::sqlite::check(&file.open(), &file.table).unwrap_err();
        assert_eq!(by_check.code(), code);
        let by_connect = connect(&file.address(), file.table.clone()).await.map(drop);
        assert_eq!(by_connect.unwrap_err().code(), code);
        if code != "schema.missing" {
            let by_apply = schema::sqlite::apply(&mut file.open(), &file.table).unwrap_err();
            assert_eq!(by_apply.code(), code);
        }
    }
}

#[test]
fn damage_is_told_and_its_remedy_mends_it() {
    let file = FreshFile::new();
    let before = structure(&file.open());
    for damage in [
        "drop index \"shop.outbox_due\"",
        "drop index \"shop.outbox_keyed\"",
        "drop index \"shop.outbox_event\"",
        "drop index \"shop.outbox_dedupe\"",
        "drop index \"shop.outbox_delivered\"",
        "drop index \"shop.outbox_dead\"",
        "drop index \"shop.outbox_audit_event\"",
        "drop index \"shop.outbox_audit_at\"",
        "drop table \"shop.outbox_archive\"",
        "drop table \"shop.outbox_attempts\"",
        "drop table \"shop.outbox_pauses\"",
        "drop table \"shop.outbox_jobs\"",
        "alter table \"shop.outbox_archive\" drop column redeliveries",
    ] {
        file.open().execute_batch(damage).unwrap();
        let error = schema::sqlite::check(&file.open(), &file.table).unwrap_err();
        let SchemaError::Damaged { remedy, .. } = &error else {
            panic!("{damage}: {error}");
        };
        assert!(error.to_string().contains(remedy));
        file.open()
            .execute_batch(remedy)
            .unwrap_or_else(|error| panic!("{remedy}: {error}"));
        assert_eq!(structure(&file.open()), before, "{damage}");
    }
}

// B2
#[tokio::test]
async fn outboxes_of_one_file_do_not_know_of_each_other() {
    let file = FreshFile::new();
    let tables = ["orders", "orders_2", "billing.orders"].map(table);
    let message = Message::json("shop.order.placed.v1", &1)
        .unwrap()
        .dedupe_key("same");
    for table in &tables {
        schema::sqlite::apply(&mut file.open(), table).unwrap();
        let mut connection = file.open();
        let transaction = connection.transaction().unwrap();
        let outbox = Outbox::of(table.clone());
        assert!(outbox.enqueue_sync(&transaction, &message).unwrap().new);
        transaction.commit().unwrap();
    }
    for table in tables {
        let store = connect(&file.address(), table).await.unwrap();
        assert_eq!(store.count(&Filter::default()).await.unwrap(), 1);
        assert!(store.lead().await.unwrap(), "each has a leader of its own");
    }
}
