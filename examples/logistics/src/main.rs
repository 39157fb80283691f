//! Runs the system for some seconds: orders come in, eight workers publish their events in parallel, some of
//! the workers are killed, and the warehouse ships. Then it counts.
//!
//!     cargo xtask example logistics                # on servers started for it
//!     cargo run -p logistics -- --for 30s          # on yours: DATABASE_URL, AMQP_URL
//!     cargo run -p logistics -- worker             # one worker, until Ctrl-C or SIGTERM
//!
//! A worker with METRICS_LISTEN=127.0.0.1:9464 answers Prometheus there.

mod crew;

use std::io::{self, IsTerminal as _};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use logistics::warehouse::Warehouse;
use logistics::worker::{export_metrics, settings, worker};
use logistics::{Order, Orders};
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::{Client, NoTls};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use uuid::Uuid;

use crew::Crew;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const WORKERS: usize = 8;
const KILLED: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result {
    log();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["worker"] => work(std::future::pending()).await,
        ["worker", "--with-parent"] => work(crew::parent_is_gone()).await,
        [] => show(Duration::from_secs(5)).await,
        ["--for", time] => show(seconds(time)?).await,
        _ => Err(usage()),
    }
}

/// One worker, until it is told to stop.
async fn work(until: impl Future<Output = ()>) -> Result {
    if let Ok(listen) = std::env::var("METRICS_LISTEN") {
        export_metrics(listen.parse()?)?;
    }
    let (address, url) = (database()?, broker()?);
    let mut terminated = signal(SignalKind::terminate())?;
    let worker = worker(&address, &url, settings()).await?;
    let stop = async {
        tokio::select! {
            () = until => {}
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    worker.run(stop).await;
    Ok(())
}

/// The whole system, for some time.
async fn show(time: Duration) -> Result {
    let (address, url) = (database()?, broker()?);
    let mut orders = Orders::open(&address).await?;
    let warehouse = Warehouse::open(&address, &url, "warehouse").await?;
    let duplicates = warehouse.duplicates();
    let shipping = tokio::spawn(warehouse.run());
    let mut crew = Crew::start(WORKERS)?;

    println!("{WORKERS} workers publish orders for {time:?}");
    let started = Instant::now();
    while started.elapsed() < time {
        let order = Order {
            id: Uuid::now_v7(),
            destination: "Bremen".to_owned(),
            kilograms: 12,
        };
        orders.create(&order).await?;
        // At regular moments, until some are gone.
        let due = started.elapsed().as_millis() * (KILLED as u128 + 1) / time.as_millis().max(1);
        if (crew.killed() as u128) < due && crew.killed() < KILLED {
            crew.kill_one()?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A machine that is busy may have missed such a moment.
    while crew.killed() < KILLED {
        crew.kill_one()?;
    }

    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    tokio::spawn(connection);
    let deadline = Instant::now() + PATIENCE;
    let totals = loop {
        let totals = totals(&client).await?;
        if totals.agree() || shipping.is_finished() || Instant::now() > deadline {
            break totals;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let killed = crew.killed();
    crew.end()?;
    if shipping.is_finished() {
        shipping.await??;
    }

    println!("workers killed         {killed} of {WORKERS}");
    println!("orders                 {}", totals.orders);
    println!("events PENDING         {}", totals.pending);
    println!("events PUBLISHED, kept {}", totals.published);
    println!("events FAILED          {}", totals.failed);
    println!("shipments              {}", totals.shipments);
    println!(
        "events that came twice {}",
        duplicates.load(Ordering::Relaxed)
    );
    match totals.agree() {
        true => println!("Nothing was lost: each order has one shipment, and no event waits."),
        false => return Err("orders and shipments do not agree".into()),
    }
    Ok(())
}

/// What goes wrong is told on standard error.
fn log() {
    let targets = Targets::new()
        .with_default(Level::WARN)
        // What it warns of are returned messages, with their payload. The relay says the same without it.
        .with_target("lapin", Level::ERROR);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(targets)
        .with(lines)
        .init();
}

/// What there is, as the database has it.
struct Totals {
    orders: i64,
    pending: i64,
    published: i64,
    failed: i64,
    shipments: i64,
}

impl Totals {
    /// PUBLISHED events do not count: they are cleaned away in time, and orders and shipments are not.
    fn agree(&self) -> bool {
        self.orders == self.shipments && self.pending + self.failed == 0
    }
}

async fn totals(client: &Client) -> Result<Totals> {
    let sql = "select (select count(*) from orders),
                      count(*) filter (where status = 'PENDING'),
                      count(*) filter (where status = 'PUBLISHED'),
                      count(*) filter (where status = 'FAILED'),
                      (select count(*) from shipments)
               from outbox_events_view";
    let row = client.query_one(sql, &[]).await?;
    Ok(Totals {
        orders: row.get(0),
        pending: row.get(1),
        published: row.get(2),
        failed: row.get(3),
        shipments: row.get(4),
    })
}

fn database() -> Result<String> {
    variable("DATABASE_URL", "postgres://user@host/database")
}

fn broker() -> Result<String> {
    variable("AMQP_URL", "amqp://user:password@host:5672")
}

fn variable(name: &str, form: &str) -> Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        format!("set {name} to {form}, or run `cargo xtask example logistics`").into()
    })
}

/// Reads `30s`.
fn seconds(text: &str) -> Result<Duration> {
    let seconds = text.trim_end_matches('s').parse().map_err(|_| usage())?;
    Ok(Duration::from_secs(seconds))
}

fn usage() -> Box<dyn std::error::Error + Send + Sync> {
    "write nothing, `--for 30s`, or `worker`".into()
}
