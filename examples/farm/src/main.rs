//! Runs the farm for some seconds: farmers sow and harvest, the publisher tells RabbitMQ, and a subscriber
//! writes everything down. Then it counts.
//!
//!     cargo xtask example farm                # on servers started for it
//!     cargo run -p farm -- --for 30s          # on yours: DATABASE_URL, AMQP_URL
//!
//! With METRICS_LISTEN=127.0.0.1:9464 it answers Prometheus there.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use farm::aggregate::{Barn, Field};
use farm::event::Catalogue;
use farm::monitor::{Limits, Monitor};
use farm::publisher::{Publisher, relay, settings};
use farm::subscriber::Subscriber;
use farm::{Farm, FarmError, OUTBOX};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use posthaste::{Table, store};
use posthaste_relay::{METRICS, describe_metrics};
use tokio_postgres::{Client, NoTls};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result {
    log();
    let show = duration(std::env::args().skip(1))?;
    let address = variable("DATABASE_URL", "postgres://user@host/database")?;
    let url = variable("AMQP_URL", "amqp://user:password@host:5672")?;
    if let Ok(listen) = std::env::var("METRICS_LISTEN") {
        export(listen.parse()?)?;
    }

    let farm = Farm::open(&address).await?;
    let store = store::connect(&address, Table::parse(OUTBOX)?).await?;
    let publisher = Publisher::new(&url, Catalogue::new())?;
    let mut settings = settings();
    // A show is short: what it counts should be fresh.
    settings.stats_interval = Duration::from_secs(1);
    let relay = relay(store.clone(), publisher, settings)?;
    let mut farm = farm.waking(relay.waker());
    let monitor = Monitor::new(store, relay.view());
    let subscriber = tokio::spawn(Subscriber::open(&address, &url, "farm.ledger").await?.run());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let publishing = tokio::spawn(relay.run(async { drop(stopped.await) }));

    println!("the farm works for {show:?}");
    let refused = work(&mut farm, Instant::now() + show).await?;

    let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
    tokio::spawn(connection);
    let deadline = Instant::now() + PATIENCE;
    let totals = loop {
        let totals = totals(&client).await?;
        if totals.agree() || subscriber.is_finished() || Instant::now() > deadline {
            break totals;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let report = monitor.look().await?;
    let _ = stop.send(());
    publishing.await?;
    if subscriber.is_finished() {
        subscriber.await??;
    }

    println!("harvests that did not fit  {refused} (rolled back, without an event)");
    println!("events that wait           {}", totals.waiting);
    println!("events Processed           {}", totals.processed);
    println!("events Processed, archived {}", totals.archived);
    println!("events Failed              {}", totals.failed);
    println!("events handled             {}", totals.handled);
    println!(
        "95 % took at most          {:?}",
        report.latency.unwrap_or_default()
    );
    println!(
        "alerts                     {:?}",
        report.alerts(&Limits::default())
    );
    match totals.agree() {
        true => println!("Nothing was lost: each event was handled, and once."),
        false => return Err("events in the outbox and at the subscriber do not agree".into()),
    }
    Ok(())
}

/// Sows and harvests, until the barn is full; then builds another one. Gives back how often it was full.
async fn work(farm: &mut Farm, until: Instant) -> Result<u64> {
    let mut field = Field::new("north");
    let mut barn = Barn::new(10_000);
    farm.save_changes(&mut [&mut field, &mut barn]).await?;
    let mut refused = 0;
    while Instant::now() < until {
        farm.sow(field.id, "barley").await?;
        match farm.harvest(field.id, barn.id, 900).await {
            Ok(()) => {}
            Err(FarmError::BarnFull) => {
                refused += 1;
                barn = Barn::new(10_000);
                farm.save_changes(&mut [&mut barn]).await?;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(refused)
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
    waiting: i64,
    processed: i64,
    archived: i64,
    failed: i64,
    handled: i64,
}

impl Totals {
    fn agree(&self) -> bool {
        self.processed + self.archived == self.handled && self.waiting + self.failed == 0
    }
}

async fn totals(client: &Client) -> Result<Totals> {
    let sql = r#"select count(*) filter (where "Status" in ('Pending', 'Processing')),
                        count(*) filter (where "Status" = 'Processed'),
                        (select count(*) from outbox_messages_archive where status = 'delivered'),
                        count(*) filter (where "Status" = 'Failed'),
                        (select count(*) from deliveries)
                 from "OutboxMessage""#;
    let row = client.query_one(sql, &[]).await?;
    Ok(Totals {
        waiting: row.get(0),
        processed: row.get(1),
        archived: row.get(2),
        failed: row.get(3),
        handled: row.get(4),
    })
}

/// Answers Prometheus.
fn export(listen: SocketAddr) -> Result {
    let mut builder = PrometheusBuilder::new().with_http_listener(listen);
    for metric in METRICS.iter().filter(|metric| !metric.classes().is_empty()) {
        let name = Matcher::Full(metric.name.to_owned());
        builder = builder.set_buckets_for_metric(name, metric.classes())?;
    }
    builder.install()?;
    describe_metrics();
    Ok(())
}

fn variable(name: &str, form: &str) -> Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("set {name} to {form}, or run `cargo xtask example farm`").into())
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
