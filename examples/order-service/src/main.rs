//! Runs the order service for some seconds: customers order, the publisher sends events to Kafka, and
//! billing writes invoices. Then it counts.
//!
//!     cargo xtask example order-service              # on servers started for it
//!     cargo run -p order-service -- --for 30s        # on yours: DATABASE_URL, KAFKA_BROKERS

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use order_service::publisher::publisher;
use order_service::{Billing, Line, NewOrder, OrderError, Orders};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CUSTOMERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(tracing::Level::WARN)
        .init();
    let show = duration(std::env::args().skip(1))?;
    let address = variable("DATABASE_URL", "postgres://user@host/database")?;
    let brokers = variable("KAFKA_BROKERS", "host:port")?;

    let orders = Orders::open(&address).await?;
    let billing = Arc::new(Billing::open(&address, &brokers).await?);
    let publisher = publisher(&address, &brokers).await?;
    let orders = orders.waking(publisher.waker());
    orders.stock("lamp", 1_000_000).await?;

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let publishing = tokio::spawn(publisher.run(async { drop(stopped.await) }));
    let at_billing = billing.clone();
    let billing_works = tokio::spawn(async move { at_billing.run().await });

    println!("customers order for {show:?}");
    let shopping: Vec<_> = (0..CUSTOMERS)
        .map(|_| tokio::spawn(shop(orders.clone(), Instant::now() + show)))
        .collect();
    let (mut placed, mut refused) = (0, 0);
    for customer in shopping {
        let (some, others) = customer.await??;
        placed += some;
        refused += others;
    }

    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    tokio::spawn(connection);
    let deadline = Instant::now() + PATIENCE;
    let totals = loop {
        let totals = totals(&client).await?;
        if totals.agree() || billing_works.is_finished() || Instant::now() > deadline {
            break totals;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let _ = stop.send(());
    publishing.await?;
    if billing_works.is_finished() {
        billing_works.await??;
    }

    println!("orders placed now      {placed}");
    println!("orders refused now     {refused} (sold out: rolled back, without an event)");
    println!("orders in all          {}", totals.orders);
    println!("events NEW             {}", totals.new);
    println!("events SENT, and kept  {}", totals.sent);
    println!("events FAILED          {}", totals.failed);
    println!("invoices               {}", totals.invoices);
    println!("events that came twice {}", billing.duplicates());
    match totals.agree() {
        true => println!("Nothing was lost: each order has one invoice, and no event waits."),
        false => return Err("orders and invoices do not agree".into()),
    }
    Ok(())
}

/// One customer: orders a lamp now and then, and sometimes more of them than there are.
async fn shop(orders: Orders, until: Instant) -> Result<(u64, u64)> {
    let (customer, mut placed, mut refused) = (Uuid::now_v7(), 0, 0);
    while Instant::now() < until {
        let quantity = if placed % 10 == 9 && refused < placed / 10 + 1 {
            i32::MAX
        } else {
            1
        };
        let lines = vec![Line {
            sku: "lamp".to_owned(),
            quantity,
            cents: 2990,
        }];
        match orders.place(&NewOrder { customer, lines }).await {
            Ok(_) => placed += 1,
            Err(OrderError::SoldOut { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((placed, refused))
}

/// What there is, as the database has it.
struct Totals {
    orders: i64,
    new: i64,
    sent: i64,
    failed: i64,
    invoices: i64,
}

impl Totals {
    /// SENT events do not count: they are cleaned away in time, and orders and invoices are not.
    fn agree(&self) -> bool {
        self.orders == self.invoices && self.new + self.failed == 0
    }
}

async fn totals(client: &Client) -> Result<Totals> {
    let sql = "select (select count(*) from orders),
                      count(*) filter (where status = 'NEW'),
                      count(*) filter (where status = 'SENT'),
                      count(*) filter (where status = 'FAILED'),
                      (select count(*) from invoices)
               from order_events";
    let row = client.query_one(sql, &[]).await?;
    Ok(Totals {
        orders: row.get(0),
        new: row.get(1),
        sent: row.get(2),
        failed: row.get(3),
        invoices: row.get(4),
    })
}

fn variable(name: &str, form: &str) -> Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        format!("set {name} to {form}, or run `cargo xtask example order-service`").into()
    })
}

/// Reads `--for 30s`. Five seconds without it.
fn duration(mut arguments: impl Iterator<Item = String>) -> Result<Duration> {
    let seconds = match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, ..) => Some(5),
        (Some("--for"), Some(time), None) => time.trim_end_matches('s').parse().ok(),
        _ => None,
    };
    let seconds =
        seconds.ok_or("the only argument is --for, with a number of seconds: --for 30s")?;
    Ok(Duration::from_secs(seconds))
}
