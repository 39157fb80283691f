//! Two instances of the service, one of them active. Modules work, the active instance is killed in
//! the midst of it, the other takes over, and in the end the directory knows everything.
//!
//!     cargo xtask example org [--for 30s]
//!     DATABASE_URL=postgres://localhost/org OUTBOX_RELAY_TABLES=… cargo run -p org -- serve

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Child, Command as Process, ExitCode};
use std::time::{Duration, Instant};

use org::{
    Command, Directory, Environment, HRM_OUTBOX, ORG_OUTBOX, Organizations, Relays, Staff, Totals,
    metrics, parse_duration, set_up,
};
use posthaste::{Store, Table, store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "org [--for TIME] shows two instances at work; org serve is one instance";
const PATIENCE: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => show(Duration::from_secs(4)).await,
        ["--for", time] => match parse_duration(time) {
            Some(time) => show(time).await,
            None => Err("--for takes a time such as 30s".into()),
        },
        ["serve"] => serve().await,
        ["serve", "--attached"] => attached().await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn address() -> Result<String> {
    let address = std::env::var("DATABASE_URL");
    Ok(address.map_err(|_| "set DATABASE_URL, or run `cargo xtask example org`")?)
}

/// One instance: relays with the handlers of this process, as the environment switches them.
async fn serve() -> Result {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    let address = address()?;
    let environment = Environment::of_process()?;
    set_up(&address).await?;
    let shutdown = CancellationToken::new();
    if let Some(path) = &environment.metrics_path {
        let page = metrics::page(path, metrics::record()?);
        let listener = TcpListener::bind(environment.listen).await?;
        say(&format!(
            "metrics at http://{}{path}",
            listener.local_addr()?
        ));
        let ended = shutdown.clone().cancelled_owned();
        tokio::spawn(async {
            axum::serve(listener, page)
                .with_graceful_shutdown(ended)
                .await
        });
    }
    let bus = Directory::open(&address)?.bus();
    let relays = Relays::start(&address, &environment, bus, &shutdown).await?;
    say(&format!("{} relays", relays.count()));
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    shutdown.cancel();
    relays.stopped().await;
    Ok(())
}

/// The same, but it ends with the process that started it.
async fn attached() -> Result {
    let signal = rustix::process::Signal::TERM;
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    serve().await
}

/// A service goes on, though nobody reads what it says.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

async fn show(time: Duration) -> Result {
    let address = address()?;
    set_up(&address).await?;
    let mut instances = vec![instance()?, instance()?];
    let outbox = store::connect(&address, Table::parse(ORG_OUTBOX)?).await?;
    leader(&*outbox).await?;
    println!("two instances run, and one of them is active");

    let organizations = Organizations::open(&address)?;
    let staff = Staff::open(&address)?;
    let (began, mut hired, mut killed) = (Instant::now(), 0_u32, false);
    while began.elapsed() < time {
        grow(&organizations, &staff).await?;
        hired += 3;
        if !killed && began.elapsed() >= time / 2 {
            let active = leader(&*outbox).await?;
            if let Some(place) = instances.iter().position(|it| it.id() == active) {
                kill(instances.remove(place))?;
            }
            println!("the active instance was killed, after {hired} people were hired");
            killed = true;
        }
    }

    // What is committed arrives: wait for it.
    let patience = Instant::now() + PATIENCE;
    let mut totals = Totals::of(&address).await?;
    while !totals.agree() && Instant::now() < patience {
        tokio::time::sleep(MOMENT).await;
        totals = Totals::of(&address).await?;
    }
    if killed && totals.agree() {
        println!("the other instance took over");
    }
    for instance in instances {
        kill(instance)?;
    }
    println!("{totals}");
    if !totals.agree() {
        return Err("the modules and the directory do not agree".into());
    }
    println!("Nothing was lost: the directory knows what the modules have, each thing once.");
    Ok(())
}

/// An organization, its new name, and three people who work there.
async fn grow(organizations: &Organizations, staff: &Staff) -> Result {
    let (tenant, organization) = (Uuid::new_v4(), Uuid::now_v7());
    let command = || Command::of(tenant);
    organizations
        .create(&command(), organization, "Nuts")
        .await?;
    organizations
        .rename(&command(), organization, "Nuts & Bolts")
        .await?;
    for name in ["Ada", "Grace", "Barbara"] {
        let command = command();
        staff.hire(&command, organization, name).await?;
        // As if the answer had been lost: the same command hires nobody twice.
        staff.hire(&command, organization, name).await?;
    }
    Ok(())
}

/// This program again, as one instance of the service.
fn instance() -> Result<Child> {
    let mut process = Process::new(std::env::current_exe()?);
    process.args(["serve", "--attached"]);
    process.stdout(std::process::Stdio::null());
    process.stderr(std::process::Stdio::null());
    if std::env::var_os("OUTBOX_RELAY_TABLES").is_none() {
        process.env("OUTBOX_RELAY_TABLES", format!("{ORG_OUTBOX},{HRM_OUTBOX}"));
    }
    Ok(process.spawn()?)
}

fn kill(mut instance: Child) -> io::Result<()> {
    let killed = instance.kill();
    instance.wait()?;
    killed
}

/// The process of the active relay.
async fn leader(outbox: &dyn Store) -> Result<u32> {
    let patience = Instant::now() + PATIENCE;
    loop {
        let relays = outbox.relays().await?;
        let leader = relays.iter().find(|relay| relay.leads && relay.alive);
        if let Some(process) = leader.and_then(|relay| relay.pid) {
            return Ok(process);
        }
        if Instant::now() >= patience {
            return Err("no instance became active: is OUTBOX_RELAY_ENABLED false?".into());
        }
        tokio::time::sleep(MOMENT).await;
    }
}
