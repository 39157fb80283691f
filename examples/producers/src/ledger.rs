//! What was delivered, to be compared with the orders that were committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use posthaste::Event;
use posthaste_relay::sink::{self, Outcome, Sink};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::Result;

/// How long a relay may take with what is in the outbox: far longer than it does.
const PATIENCE: u32 = 1_200;
const MOMENT: std::time::Duration = std::time::Duration::from_millis(25);

/// Every delivery, in the order in which they came.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Arc<Event>>>>);

/// What the ledgers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Orders in the tables of the producers.
    pub orders: usize,
    /// Events that were delivered, each once.
    pub delivered: usize,
}

impl Ledger {
    /// A destination that takes everything.
    pub fn sink(&self) -> impl Sink + use<> {
        let ledger = self.clone();
        sink::from_fn(move |event: Arc<Event>| {
            ledger.lock().push(event);
            async { Outcome::Delivered }
        })
    }

    /// What was delivered up to now.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.lock().clone()
    }

    /// Waits until nothing is left to deliver, then compares the tables of orders with what was
    /// delivered, and says of each difference what it is.
    ///
    /// `races` are the orders that all producers placed with one dedupe key for each: there is one
    /// event for all of them.
    pub async fn compare(
        &self,
        client: &Client,
        sources: &[&str],
        races: &[u32],
    ) -> Result<Totals> {
        settled(client).await?;
        let mut due: BTreeMap<(String, i64), usize> = BTreeMap::new();
        let mut orders = 0;
        for &source in sources {
            let rows = format!("select number from {source}_orders");
            for row in client.query(&rows, &[]).await? {
                let number: i64 = row.get(0);
                let race = u32::try_from(number).is_ok_and(|number| races.contains(&number));
                let who = if race { "anyone" } else { source };
                due.entry((who.to_owned(), number)).or_default();
                orders += 1;
            }
        }
        let mut wrong = Vec::new();
        let mut times: BTreeMap<Uuid, usize> = BTreeMap::new();
        for event in self.events() {
            *times.entry(event.id).or_default() += 1;
            let (source, number) = origin(&event)?;
            let whose = (source, number);
            let anyones = ("anyone".to_owned(), number);
            let place = if due.contains_key(&anyones) {
                anyones
            } else {
                whose
            };
            match due.get_mut(&place) {
                Some(count) => *count += 1,
                None => wrong.push(format!("event {} is of no order: {place:?}", event.id)),
            }
        }
        for (order, events) in &due {
            if *events != 1 {
                wrong.push(format!("{order:?} has {events} events"));
            }
        }
        for (event, times) in times.iter().filter(|(_, times)| **times != 1) {
            wrong.push(format!("event {event} was delivered {times} times"));
        }
        match wrong.is_empty() {
            true => Ok(Totals {
                orders,
                delivered: times.len(),
            }),
            false => Err(wrong.join("\n").into()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Event>>> {
        // Whoever panicked did so elsewhere: pushing does not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which producer made an event, and for which order.
fn origin(event: &Event) -> Result<(String, i64)> {
    let source = event
        .headers
        .get("source")
        .ok_or("an event has no source")?;
    let payload: Value = serde_json::from_slice(&event.payload)?;
    let order = payload["order"].as_i64().ok_or("an event has no order")?;
    Ok((source.clone(), order))
}

async fn settled(client: &Client) -> Result {
    let open = "select count(*) from orders_outbox where status <> 'delivered'";
    for _ in 0..PATIENCE {
        let left: i64 = client.query_one(open, &[]).await?.get(0);
        if left == 0 {
            return Ok(());
        }
        tokio::time::sleep(MOMENT).await;
    }
    Err("not everything was delivered: look for dead events in orders_outbox".into())
}
