//! `cargo xtask bench`: what Posthaste costs, beside a floor measured in the same run.
//!
//! Prints one JSON object per line. The floor is minimal hand-written code on the same driver
//! and the same table; a ratio holds on a noisy machine where a time does not.

mod admin;
mod apart;
mod bed;
mod bulk;
mod cost;
mod drain;
mod enqueue;
mod latency;
mod parties;
mod program;
mod relay_process;
mod sinks;
mod sqlite;
mod steady;
mod vacuum;

use std::process::ExitCode;

use bed::Bed;
use tikv_jemallocator::Jemalloc;

/// The one that the program has.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const SCENARIOS: [&str; 24] = [
    "enqueue",
    "bulk",
    "drain",
    "batches",
    "ordered",
    "scale",
    "latency",
    "steady",
    "idle",
    "memory",
    "cost",
    "vacuum",
    "enqueue_sqlite",
    "drain_sqlite",
    "latency_sqlite",
    "idle_sqlite",
    "kafka",
    "nats",
    "rabbitmq",
    "redis",
    "http",
    "webhooks",
    "admin",
    "program",
];

const ONLY_IF_ASKED: [&str; 9] = [
    "batches", "kafka", "nats", "rabbitmq", "redis", "http", "webhooks", "admin", "program",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let result = match arguments.first().map(String::as_str) {
        Some("endpoint") => runtime.block_on(sinks::http::endpoint()),
        Some("relay") => runtime.block_on(relay_process::run(&arguments[1..])),
        _ => runtime.block_on(run(&arguments)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let chosen: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    if let Some(unknown) = chosen.iter().find(|name| !SCENARIOS.contains(name)) {
        return Err(format!(
            "there is no scenario {unknown}: choose from {}",
            SCENARIOS.join(", ")
        )
        .into());
    }
    let bed = Bed::from_environment(quick).await?;
    for scenario in SCENARIOS {
        let wanted = match chosen.is_empty() {
            // Among the quick ones only if asked for: some compare settings, not versions, and
            // others need servers that take their time to start.
            true => !(quick && ONLY_IF_ASKED.contains(&scenario)),
            false => chosen.contains(&scenario),
        };
        if !wanted {
            continue;
        }
        match scenario {
            "enqueue" => enqueue::run(&bed).await?,
            "bulk" => bulk::run(&bed).await?,
            "drain" => drain::against_floor(&bed).await?,
            "batches" => drain::batches(&bed).await?,
            "ordered" => drain::ordered(&bed).await?,
            "scale" => drain::scale(&bed).await?,
            "latency" => latency::run(&bed).await?,
            "steady" => steady::run(&bed).await?,
            "idle" => cost::idle(&bed).await?,
            "memory" => cost::memory(&bed).await?,
            "cost" => cost::per_event(&bed).await?,
            "vacuum" => vacuum::run(&bed).await?,
            "enqueue_sqlite" => sqlite::enqueue(&bed).await?,
            "drain_sqlite" => sqlite::drain(&bed).await?,
            "latency_sqlite" => sqlite::latency(&bed).await?,
            "idle_sqlite" => sqlite::idle(&bed).await?,
            "kafka" => sinks::kafka::run(&bed).await?,
            "nats" => sinks::nats::run(&bed).await?,
            "rabbitmq" => sinks::rabbitmq::run(&bed).await?,
            "redis" => sinks::redis::run(&bed).await?,
            "http" => sinks::http::run(&bed).await?,
            "webhooks" => sinks::http::one_of_fifty_is_dead(&bed).await?,
            "admin" => admin::run(&bed).await?,
            "program" => program::run(&bed).await?,
            _ => unreachable!("listed above"),
        }
    }
    Ok(())
}
