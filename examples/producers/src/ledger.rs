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
        let mut orders = Vec::new();
        for &source in sources {
            let numbers = format!("select number from {source}_orders");
            for row in client.query(&numbers, &[]).await? {
                orders.push((source.to_owned(), row.get(0)));
            }
        }
        let races: Vec<i64> = races.iter().copied().map(i64::from).collect();
        let mut delivered = Vec::new();
        for event in self.events() {
            let (source, number) = origin(&event)?;
            delivered.push((event.id, source, number));
        }
        let wrong = differences(&orders, &delivered, &races);
        match wrong.is_empty() {
            true => Ok(Totals {
                orders: orders.len(),
                delivered: delivered.len(),
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

/// What is lost, what nobody ordered, and what came more than once.
fn differences(
    orders: &[(String, i64)],
    delivered: &[(Uuid, String, i64)],
    races: &[i64],
) -> Vec<String> {
    let whose = |source: &str, number: i64| match races.contains(&number) {
        true => format!("race {number}"),
        false => format!("order {number} of {source}"),
    };
    let mut due: BTreeMap<String, usize> = BTreeMap::new();
    for (source, number) in orders {
        due.insert(whose(source, *number), 0);
    }
    let mut wrong = Vec::new();
    let mut times: BTreeMap<Uuid, usize> = BTreeMap::new();
    for (event, source, number) in delivered {
        *times.entry(*event).or_default() += 1;
        let order = whose(source, *number);
        match due.get_mut(&order) {
            Some(events) => *events += 1,
            None => wrong.push(format!("event {event} is of {order}, which nobody placed")),
        }
    }
    for (order, events) in due.iter().filter(|(_, events)| **events != 1) {
        wrong.push(format!("{order} has {events} events"));
    }
    for (event, times) in times.iter().filter(|(_, times)| **times != 1) {
        wrong.push(format!("event {event} was delivered {times} times"));
    }
    wrong
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

#[cfg(test)]
mod tests {
    use super::differences;
    use uuid::Uuid;

    const FIRST: Uuid = Uuid::from_u128(1);
    const SECOND: Uuid = Uuid::from_u128(2);

    fn told(orders: &[(&str, i64)], delivered: &[(Uuid, &str, i64)], races: &[i64]) -> String {
        let orders: Vec<(String, i64)> = orders.iter().map(|(s, n)| ((*s).into(), *n)).collect();
        let delivered: Vec<(Uuid, String, i64)> = delivered
            .iter()
            .map(|(id, source, number)| (*id, (*source).into(), *number))
            .collect();
        differences(&orders, &delivered, races).join("; ")
    }

    // M6
    #[test]
    fn every_difference_between_orders_and_deliveries_is_told() {
        let orders = [("go", 1), ("java", 1)];
        let both = [(FIRST, "go", 1), (SECOND, "java", 1)];
        assert_eq!(told(&orders, &both, &[]), "");
        assert_eq!(
            told(&orders, &both[..1], &[]),
            "order 1 of java has 0 events"
        );
        let phantom = told(&orders[..1], &both, &[]);
        assert!(
            phantom.contains("order 1 of java, which nobody placed"),
            "{phantom}"
        );
        let two = [(FIRST, "go", 1), (SECOND, "go", 1)];
        assert_eq!(told(&orders[..1], &two, &[]), "order 1 of go has 2 events");
        let twice = told(&orders[..1], &[two[0], two[0]], &[]);
        assert!(twice.contains("delivered 2 times"), "{twice}");
    }

    // M5
    #[test]
    fn all_orders_of_a_race_have_one_event() {
        let orders = [("go", 1), ("java", 1)];
        assert_eq!(told(&orders, &[(FIRST, "java", 1)], &[1]), "");
        let both = [(FIRST, "go", 1), (SECOND, "java", 1)];
        assert_eq!(told(&orders, &both, &[1]), "race 1 has 2 events");
        assert_eq!(told(&orders, &[], &[1]), "race 1 has 0 events");
    }
}
