//! The examples of docs/other-languages.md for SQLite, run as they stand.

use posthaste::store::{Claim, Store};
use posthaste::{Table, schema};
use posthaste_testkit::file::FreshFile;

/// The blocks of SQL after the heading about SQLite.
fn examples() -> Vec<&'static str> {
    let document = include_str!("../../../../docs/other-languages.md");
    let (_, about) = document.split_once("\n## SQLite\n").expect("a heading");
    about
        .split("```sql\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

// P1
#[tokio::test]
async fn a_plain_insert_makes_an_event_once() {
    let file = FreshFile::new();
    let table = Table::parse("orders_outbox").unwrap();
    schema::sqlite::apply(&mut file.open(), &table).unwrap();
    let connection = file.open();
    let examples = examples();
    assert_eq!(examples.len(), 2);
    for _ in 0..2 {
        connection.execute_batch(examples[0]).unwrap();
    }
    let address = file.address();
    let store = posthaste::store::connect(&address, table).await.unwrap();
    let events = store.claim(&Claim::new(10)).await.unwrap().events;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].topic, "shop.order.placed.v1");
    assert_eq!(&events[0].payload[..], br#"{"order": 43}"#);
    assert_eq!(events[0].dedupe_key.as_deref(), Some("order-43-placed"));
    // And what an operator types into the shell.
    let mut look = connection.prepare(examples[1]).unwrap();
    let seen: Vec<String> = look
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("20"), "{seen:?}");
}

#[tokio::test]
async fn an_insert_without_an_id_gets_a_uuid() {
    let file = FreshFile::new();
    let insert = "insert into {outbox} (topic, payload) select 'a.b.c.v1', value from generate";
    let many = format!(
        "with recursive generate (value) as (select 1 union all select value + 1 from generate where value < 500) {insert}"
    );
    // A recursive query comes before the insert in SQLite.
    file.open().execute_batch(&file.sql(&many)).unwrap();
    let store = file.store().await;
    let events = store.claim(&Claim::new(500)).await.unwrap().events;
    assert_eq!(events.len(), 500);
    for event in events {
        assert_eq!(event.id.get_version_num(), 4);
        assert_eq!(event.id.get_variant(), uuid::Variant::RFC4122);
    }
}
