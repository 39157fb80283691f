use posthaste::{Message, Outbox};
use rusqlite::TransactionBehavior::Immediate;
use serde_json::json;

fn place_order(
    connection: &mut rusqlite::Connection,
    outbox: &Outbox,
) -> Result<(), Box<dyn std::error::Error>> {
    let transaction = connection.transaction_with_behavior(Immediate)?;
    let insert = "insert into orders (id, item) values (42, 'lamp')";
    transaction.execute(insert, [])?;
    let message = Message::json("shop.order.placed.v1", &json!({"order": 42}))?;
    outbox.enqueue_sync(&transaction, &message)?;
    transaction.commit()?;
    Ok(())
}

// So much for the README.

use posthaste::Store;
use posthaste_testkit::file::FreshFile;

#[tokio::test]
async fn an_order_is_placed_with_its_event_on_sqlite() {
    let file = FreshFile::new();
    let mut connection = file.open();
    let orders = "create table orders (id integer, item text)";
    connection.execute_batch(orders).unwrap();
    place_order(&mut connection, &file.outbox).unwrap();
    let item = connection.query_row("select item from orders", [], |row| row.get(0));
    assert_eq!(item, Ok("lamp".to_owned()));
    assert_eq!(file.store().await.stats().await.unwrap().pending, 1);
}
