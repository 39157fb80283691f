//! Producers that commit and roll back, and keep a ledger of it, through any outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste::{Message, Outbox, Table};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::ledger::Produced;

const TOPIC: &str = "shop.order.placed.v1";
const KEYS: usize = 7;

/// Producers at work, each with a connection and keys of its own.
pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Produced>>,
}

impl Producers {
    /// Starts this many. Each makes about 250 events a second.
    pub(crate) fn start(url: &str, table: &Table, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..count).map(|place| {
            let outbox = Outbox::of(table.clone());
            tokio::spawn(produce(url.to_owned(), outbox, place, stop.clone()))
        });
        Self {
            tasks: tasks.collect(),
            stop,
        }
    }

    /// Stops them, and gives back what they did.
    pub(crate) async fn stop(self) -> Produced {
        self.stop.store(true, Ordering::SeqCst);
        let mut produced = Produced::default();
        for task in self.tasks {
            produced.add(task.await.unwrap());
        }
        produced
    }
}

/// Enqueues this many events at once.
pub(crate) async fn produce_at_once(client: &mut Client, table: &Table, count: usize) -> Produced {
    let mut produced = Produced::default();
    let messages: Vec<Message> = (0..count).map(|n| message(0, n)).collect();
    let transaction = client.transaction().await.unwrap();
    let receipts = Outbox::of(table.clone())
        .enqueue_all(&transaction, &messages)
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    produced
        .committed
        .extend(receipts.iter().map(|receipt| receipt.id));
    produced
}

fn message(producer: usize, n: usize) -> Message {
    Message::json_text(TOPIC, format!("{{\"n\":{n}}}"))
        .unwrap()
        .ordering_key(format!("{producer}-{}", n % KEYS))
}

async fn produce(url: String, outbox: Outbox, place: usize, stop: Arc<AtomicBool>) -> Produced {
    let mut produced = Produced::default();
    let mut connection: Option<Client> = None;
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let Some(client) = connection.as_mut().filter(|client| !client.is_closed()) else {
            connection = reconnect(&url).await;
            continue;
        };
        // Whatever fails before the commit is sent leaves no event.
        let Ok(transaction) = client.transaction().await else {
            continue;
        };
        let size = 1 + round % 4;
        let messages: Vec<Message> = (0..size).map(|n| message(place, round * 4 + n)).collect();
        let Ok(receipts) = outbox.enqueue_all(&transaction, &messages).await else {
            continue;
        };
        let ids = receipts.iter().map(|receipt| receipt.id);
        if round % 6 == 5 {
            let _ = transaction.rollback().await;
            produced.rolled_back.extend(ids);
        } else {
            match transaction.commit().await {
                Ok(()) => produced.committed.extend(ids),
                Err(_) => produced.unsure.extend(ids),
            }
        }
    }
    produced
}

async fn reconnect(url: &str) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}
