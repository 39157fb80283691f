//! `demo`: a small shop on SQLite that commits orders with their events, and a relay that delivers
//! them through every kind of trouble. At the end a ledger decides whether anything was lost.

mod courier;
mod ledger;
mod screen;
mod shop;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste::store::sqlite::Sqlite;
use posthaste::{Outbox, Store};
use posthaste_relay::{Relay, Retry};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinError;

use self::courier::Courier;
use self::ledger::{Ledger, Totals};
use self::screen::Screen;
use super::run::IMPATIENT;
use crate::admin::role::Role;
use crate::admin::{self, Recorder, Served};
use crate::cli::Place;
use crate::config::{self, Admin, Database, Route};
use crate::failure::Failure;
use crate::time::parse_duration;

const OUTBOX: &str = "orders_outbox";
const COURIER: &str = "courier";
/// How often a relay is killed.
const LIFE: Duration = Duration::from_secs(5);
/// How long to wait, after the last order, until everything has arrived.
const PATIENCE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  posthaste demo
  posthaste demo --for 10s --json
  posthaste demo --file shop.db --rate 100

A shop commits orders and their events together; some cards are declined, and those orders are
rolled back. A relay delivers the events by a courier who is away at times, and refuses anvils.
Every few seconds the relay is killed, and another one takes over. At the end a ledger says
whether anything was lost, or made up: the exit code is then 1. Meanwhile, look at it in a browser:
the address is printed first.

Ctrl-C closes the shop, and what is in the outbox is still delivered. Once more ends it at once,
with exit code 130.";

/// What was asked for.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Stop after this long, e.g. 10s [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// The SQLite file to use, and to keep [default: a temporary one]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Orders a second
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Where to look at it in a browser [default: 127.0.0.1:7411, or another port if that is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    listen: Option<SocketAddr>,
}

/// An address of this machine: whoever reaches it may do everything.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "an address and a port, such as 127.0.0.1:7411".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("the demo asks nobody for a token: 127.0.0.1 or ::1 only".to_owned()),
    }
}

/// Plays the demo. It fails if the ledger does not add up.
pub(crate) fn run(place: &Place, demo: &Demo) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(play(demo, place.json))
}

async fn play(demo: &Demo, json: bool) -> Result<(), Failure> {
    let scratch = tempfile::tempdir()?;
    let file = demo.file.clone();
    let file = file.unwrap_or_else(|| scratch.path().join("demo.db"));
    let outbox = Outbox::new(OUTBOX).expect("a plain name");
    shop::set_up(&file, &outbox)?;
    // Before an order is taken: what another process relays would be missing in the ledger.
    let first = ready(&file, &outbox).await?;

    let served = served(&file, &outbox)?;
    let server = server(demo, &served).await?;
    let ledger = Arc::new(Ledger::new());
    let screen = Screen::start(&file, server.url(), ledger.clone(), json);
    let (closing, closed) = watch::channel(false);
    let shop = shop::open(&file, &outbox, demo.rate, ledger.clone(), closed)?;
    let store: Arc<dyn Store> = Arc::new(open(&file, &outbox).await?);
    served.opened(store.clone());
    let relays = relays(first, file.clone(), outbox.clone(), ledger.clone(), served);
    let mut relays = tokio::spawn(relays);

    let enough = async {
        match demo.duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    // One for both times: what comes in between is not lost.
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        () = enough => {}
        _ = interrupted.recv() => {}
        () = watch_outbox(&*store, &ledger) => {}
        failed = &mut relays => return Err(of_relays(failed)),
    }
    screen.say("the shop closes; what is still in the outbox is delivered");
    let _ = closing.send(true);
    let closed = async {
        let shop = tokio::task::spawn_blocking(move || shop.join());
        shop.await
            .map_err(Failure::other)?
            .map_err(|_| Failure::Other("the shop broke".into()))??;
        Ok::<_, Failure>(tokio::time::timeout(PATIENCE, drained(&*store, &ledger)).await)
    };
    let settled = tokio::select! {
        settled = closed => settled?,
        failed = &mut relays => return Err(of_relays(failed)),
        _ = interrupted.recv() => {
            screen.end();
            // An exit drops nothing, and would leave the folder behind.
            drop(scratch);
            std::process::exit(IMPATIENT);
        }
    };
    relays.abort();
    let totals = Totals::count(&*store, &ledger).await?;
    screen.end();
    totals.print(json, demo.file.as_deref());
    match (settled, totals.problem()) {
        (Ok(()), None) => Ok(()),
        (_, Some(problem)) => Err(Failure::Other(problem)),
        (Err(_), None) => Err(Failure::Other(format!(
            "not everything arrived within {PATIENCE:?}"
        ))),
    }
}

/// The outbox as operators see it.
fn served(file: &Path, outbox: &Outbox) -> Result<Arc<Served>, Failure> {
    let database = Database::at(&format!("sqlite:{}", file.display())).map_err(Failure::Usage)?;
    let routes = vec![Route {
        sink: COURIER.to_owned(),
        ..Route::everything()
    }];
    let outbox = config::Outbox {
        routes,
        ..config::Outbox::new(outbox.table().clone(), database)
    };
    Ok(Served::all(&[outbox]).remove(0))
}

/// Answers at the address that was given, or at the usual one, or at any.
async fn server(demo: &Demo, served: &Arc<Served>) -> Result<admin::Server, Failure> {
    let usual = Admin {
        without_tokens: Role::Operator,
        ..Admin::default()
    };
    let admin = Admin {
        listen: demo.listen.unwrap_or(usual.listen),
        chosen: demo.listen.is_some(),
        ..usual.clone()
    };
    let recorder = Recorder::install()?;
    let served = vec![served.clone()];
    if let Some(server) = admin::Server::start(&admin, served.clone(), recorder.clone()).await? {
        return Ok(server);
    }
    let any = Admin {
        listen: SocketAddr::new(usual.listen.ip(), 0),
        chosen: true,
        ..usual
    };
    let server = admin::Server::start(&any, served, recorder).await?;
    server.ok_or_else(|| Failure::Other("no port is free".to_owned()))
}

async fn open(file: &Path, outbox: &Outbox) -> Result<Sqlite, Failure> {
    let address = file.to_string_lossy();
    Ok(Sqlite::connect(&address, outbox.table().clone()).await?)
}

/// A store with the right to relay the file.
async fn ready(file: &Path, outbox: &Outbox) -> Result<Sqlite, Failure> {
    let store = open(file, outbox).await?;
    store.take_over().await?;
    Ok(store)
}

/// Why there is no relay any more.
fn of_relays(ended: Result<Result<Infallible, Failure>, JoinError>) -> Failure {
    match ended {
        Ok(Ok(never)) => match never {},
        Ok(Err(failure)) => failure,
        Err(panicked) => Failure::other(panicked),
    }
}

/// One relay after the other: each is killed in the midst of its work, and the next takes over.
async fn relays(
    mut store: Sqlite,
    file: PathBuf,
    outbox: Outbox,
    ledger: Arc<Ledger>,
    served: Arc<Served>,
) -> Result<Infallible, Failure> {
    let courier = Arc::new(Courier::new(ledger.clone()));
    loop {
        let relay = Relay::builder(store)
            .destination(COURIER, courier.clone())
            .retry(Retry::EqualJitter {
                base: Duration::from_millis(300),
                max: Duration::from_secs(2),
            })
            .build()
            .map_err(Failure::other)?;
        served.relayed(relay.view());
        let mut running = Box::pin(relay.run(std::future::pending()));
        let _ = tokio::time::timeout(LIFE, &mut running).await;
        store = ready(&file, &outbox).await?;
        // Dropped, not stopped: as if its process had been killed.
        drop(running);
        ledger.note("the relay is killed in the midst of its work; another one takes over");
    }
}

/// Keeps the numbers of the outbox for the screen.
async fn watch_outbox(store: &dyn Store, ledger: &Ledger) {
    loop {
        if let Ok(stats) = store.stats().await {
            ledger.saw(stats);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until nothing is live any more.
async fn drained(store: &dyn Store, ledger: &Ledger) {
    loop {
        if let Ok(stats) = store.stats().await {
            ledger.saw(stats);
            if stats.pending + stats.processing == 0 {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
