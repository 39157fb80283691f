//! The shop: takes orders, each in one transaction with its event. It knows nothing of the relay.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posthaste::{Message, Outbox, schema};
use rusqlite::TransactionBehavior::Immediate;
use rusqlite::{Connection, Transaction};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use super::ledger::Ledger;
use crate::failure::Failure;

const ORDERS: &str = "create table if not exists orders (number integer primary key, item text not null, paid integer not null)";
const ITEMS: [&str; 10] = [
    "book", "lamp", "chair", "kettle", "globe", "radio", "clock", "teapot", "mirror", "carpet",
];
/// What no courier will ever take, what breaks twice before it arrives, and below which of all
/// chances each of them comes.
const ODD_ITEMS: [(&str, f64); 3] = [("piano", 0.01), ("anvil", 0.03), ("vase", 0.06)];

/// Makes the shop's own table and the outbox in one file.
pub(super) fn set_up(file: &Path, outbox: &Outbox) -> Result<(), Failure> {
    let mut connection = connect(file)?;
    schema::sqlite::apply(&mut connection, outbox.table())?;
    connection.execute(ORDERS, []).map_err(Failure::other)?;
    Ok(())
}

/// Takes orders until told to close.
pub(super) fn open(
    file: &Path,
    outbox: &Outbox,
    rate: u32,
    ledger: Arc<Ledger>,
    closed: watch::Receiver<bool>,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let mut connection = connect(file)?;
    let outbox = outbox.clone();
    let pause = Duration::from_secs(1) / rate;
    Ok(std::thread::spawn(move || {
        let mut next = Instant::now();
        while !*closed.borrow() {
            let item = item(rand::random(), rand::random_range(0..ITEMS.len()));
            let transaction = connection
                .transaction_with_behavior(Immediate)
                .map_err(Failure::other)?;
            let event = order(&transaction, &outbox, item)?;
            // The card is declined after all is written: the order goes, and its event with it.
            if rand::random::<f64>() < 0.05 {
                transaction.rollback().map_err(Failure::other)?;
                ledger.rolled_back(event, item);
            } else {
                transaction.commit().map_err(Failure::other)?;
                ledger.committed(event);
            }
            next += pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }))
}

fn item(chance: f64, usual: usize) -> &'static str {
    let odd = ODD_ITEMS.iter().find(|(_, share)| chance < *share);
    odd.map_or(ITEMS[usual], |(item, _)| item)
}

/// The order and its event, in the same transaction.
fn order(transaction: &Transaction<'_>, outbox: &Outbox, item: &str) -> Result<Uuid, Failure> {
    let insert = "insert into orders (item, paid) values (?, 1)";
    transaction
        .execute(insert, [item])
        .map_err(Failure::other)?;
    let number = transaction.last_insert_rowid();
    let message = Message::json(
        "shop.order.placed.v1",
        &json!({"order": number, "item": item}),
    )
    .map_err(Failure::other)?
    .aggregate("Order", number.to_string())
    .header("item", item);
    let receipt = outbox
        .enqueue_sync(transaction, &message)
        .map_err(Failure::other)?;
    Ok(receipt.id)
}

fn connect(file: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(file).map_err(Failure::other)?;
    connection
        .busy_timeout(Duration::from_secs(10))
        .map_err(Failure::other)?;
    Ok(connection)
}
