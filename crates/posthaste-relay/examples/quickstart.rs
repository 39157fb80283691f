//! A small order service. Each order is committed together with its event, and a relay in the
//! same process delivers the events: as JSON lines on standard output. The summary goes to
//! standard error.
//!
//!     cargo xtask quickstart                                       # on a PostgreSQL started for it
//!     cargo run --example quickstart -- postgres://localhost/shop  # on yours, in schema quickstart

use std::sync::Arc;
use std::time::Duration;

use posthaste::store::postgres::Postgres;
use posthaste::{Event, Message, Outbox, Record, Status, Store, schema};
use posthaste_relay::sink::{self, Outcome, Sink};
use posthaste_relay::{Relay, Retry};
use serde_json::json;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const ORDERS: &str = "create table if not exists quickstart.orders
    (id bigint generated always as identity, item text not null)";
const ITEMS: &str = "book lamp vase chair anvil unicorn kettle globe";
const MOMENT: Duration = Duration::from_millis(250);

#[tokio::main]
async fn main() -> Result {
    let given = std::env::args().nth(1);
    let given = given.or_else(|| std::env::var("DATABASE_URL").ok());
    let address = given.ok_or("give the database's address as argument or in DATABASE_URL")?;
    let (mut client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    tokio::spawn(connection);

    // The outbox comes first, as that makes the schema, too.
    let outbox = Outbox::new("quickstart.orders_outbox")?;
    schema::apply(&mut client, outbox.table()).await?;
    client.batch_execute(ORDERS).await?;

    // The relay. It could as well run in another process.
    let store = Postgres::connect(&address, outbox.table().clone()).await?;
    let store: Arc<dyn Store> = Arc::new(store);
    let relay = Relay::builder_on(store.clone())
        .destination("courier", courier())
        .retry(Retry::Fixed { delay: MOMENT })
        .build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relay = tokio::spawn(relay.run(async { drop(stopped.await) }));

    // The service.
    let (mut committed, mut rolled_back) = (Vec::new(), Vec::new());
    for item in ITEMS.split(' ') {
        match order(&mut client, &outbox, item).await? {
            (event, true) => committed.push(event),
            (event, false) => rolled_back.push(event),
        }
        tokio::time::sleep(MOMENT).await;
    }

    // What became of it all, as the database has it.
    let (mut delivered, mut dead) = (0, Vec::new());
    for event in &committed {
        let record = settled(&*store, *event).await?;
        match (record.dead_reason, record.last_error) {
            (Some(reason), error) => dead.push(format!("{reason}: {}", error.unwrap_or_default())),
            (None, _) => delivered += 1,
        }
    }
    for event in &rolled_back {
        if store.show(*event).await?.is_some() {
            return Err(format!("event {event} is there, and its order is not").into());
        }
    }
    let _ = stop.send(());
    relay.await?;
    eprintln!("committed    {}", committed.len());
    eprintln!("rolled back  {}", rolled_back.len());
    eprintln!("delivered    {delivered}");
    eprintln!("dead         {} ({})", dead.len(), dead.join("; "));
    eprintln!("Nothing was lost: each committed order has its event, and no other has one.");
    Ok(())
}

/// Writes an order and its event in one transaction: both are there afterwards, or neither.
/// Gives back the event's id, and whether it was committed.
async fn order(client: &mut Client, outbox: &Outbox, item: &str) -> Result<(Uuid, bool)> {
    let transaction = client.transaction().await?;
    let insert = "insert into quickstart.orders (item) values ($1) returning id";
    let number: i64 = transaction.query_one(insert, &[&item]).await?.get(0);
    let payload = json!({"order": number, "item": item});
    let message = Message::json("shop.order.placed.v1", &payload)?
        .aggregate("Order", number.to_string())
        .header("item", item);
    let receipt = outbox.enqueue(&transaction, &message).await?;
    if item == "unicorn" {
        // There are none, which was noticed late: the order goes, and its event with it.
        transaction.rollback().await?;
        return Ok((receipt.id, false));
    }
    transaction.commit().await?;
    Ok((receipt.id, true))
}

/// Where events go: to standard output. A vase needs three attempts, an anvil never arrives.
fn courier() -> impl Sink {
    let lines = Arc::new(sink::stdout());
    sink::from_fn(move |event: Arc<Event>| {
        let lines = lines.clone();
        async move {
            match event.headers.get("item").map(String::as_str) {
                Some("vase") if event.attempts < 3 => Outcome::Retry("it slipped".into()),
                Some("anvil") => Outcome::Reject("too heavy for any courier".into()),
                _ => lines.deliver(event).await,
            }
        }
    })
}

/// The event, once it is delivered or dead.
async fn settled(store: &dyn Store, event: Uuid) -> Result<Record> {
    for _ in 0..200 {
        let record = store.show(event).await?.ok_or("an event was lost")?;
        if matches!(record.status, Status::Delivered | Status::Dead) {
            return Ok(record);
        }
        tokio::time::sleep(MOMENT).await;
    }
    Err(format!("event {event} is still not settled").into())
}
