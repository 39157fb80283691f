//! `posthaste status`: how each outbox stands, and whether that is well.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use posthaste::store::{Filter, Pause, Stats, Store, Target};
use posthaste::{DeadReason, Status as State};
use serde::Serialize;

use crate::cli::Place;
use crate::failure::Failure;
use crate::output::{BAD, BUSY, Cell, GOOD, Output, PLAIN, visible};
use crate::place;
use crate::time::{brief, exact, parse_duration};

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

const EXAMPLES: &str = "\
Examples:
  posthaste status
  posthaste status --watch
  posthaste status --check --max-lag 30s --max-dead 0 || page somebody

LAG is for how long the oldest due event has been due; STUCK, how many events a relay has been
delivering for more than five minutes; DEAD, how many wait for somebody to redeliver or discard them.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Status {
    /// End with exit code 5 if an outbox is not well
    #[arg(long)]
    check: bool,
    /// With more lag than this an outbox is not well
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    max_lag: Duration,
    /// With more dead events than this an outbox is not well [default: any number will do]
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
    /// Show it again and again, until Ctrl-C
    #[arg(long, conflicts_with = "check")]
    watch: bool,
    /// How often, with --watch
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    every: Duration,
}

/// How one outbox stands. In JSON, too.
#[derive(Debug, Serialize)]
struct Standing {
    table: String,
    pending: u64,
    processing: u64,
    stuck: u64,
    /// Without those that were discarded.
    dead: u64,
    discarded: u64,
    oldest_pending_seconds: f64,
    /// The numbers are at least these: there is more than is counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    /// What is paused, with who paused it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paused: Vec<Paused>,
    healthy: bool,
    findings: Vec<String>,
}

/// What is paused.
#[derive(Debug, Serialize)]
struct Paused {
    /// `null`: the outbox.
    sink: Option<String>,
    since: String,
    by: String,
    why: String,
}

impl Paused {
    fn new(pause: Pause) -> Self {
        Self {
            sink: match pause.target {
                Target::Outbox => None,
                Target::Destination(sink) => Some(sink),
            },
            since: exact(pause.at),
            by: pause.actor,
            why: pause.why,
        }
    }

    fn told(&self) -> String {
        let what = match &self.sink {
            Some(sink) => format!("sink {sink} is paused"),
            None => "paused".to_owned(),
        };
        visible(&format!("{what} by {}: {}", self.by, self.why)).into_owned()
    }
}

pub(crate) async fn run(place: &Place, args: &Status) -> Result<(), Failure> {
    let stores = place::open_all(place).await?;
    let output = Output::new(place.json);
    if args.watch {
        let interrupted = super::interrupted()?;
        return tokio::select! {
            result = watch(&output, &stores, args) => result,
            () = interrupted => Ok(()),
        };
    }
    let standings = look(&stores, args).await?;
    tell(&output, &standings)?;
    verdict(args, &standings)
}

async fn watch(output: &Output, stores: &[Arc<dyn Store>], args: &Status) -> Result<(), Failure> {
    loop {
        let standings = look(stores, args).await?;
        if output.terminal && !output.json {
            // Past the stream that takes colours out: this is no colour.
            write!(std::io::stdout(), "{CLEAR}")?;
        }
        tell(output, &standings)?;
        tokio::time::sleep(args.every).await;
    }
}

async fn look(stores: &[Arc<dyn Store>], args: &Status) -> Result<Vec<Standing>, Failure> {
    let mut standings = Vec::new();
    for store in stores {
        standings.push(standing(&**store, args).await?);
    }
    Ok(standings)
}

async fn standing(store: &dyn Store, args: &Status) -> Result<Standing, Failure> {
    let stats = store.stats().await?;
    let discarded = Filter {
        status: vec![State::Dead],
        reason: Some(DeadReason::Discarded),
        ..Filter::default()
    };
    let discarded = match stats.dead {
        0 => 0,
        _ => store.count(&discarded).await?,
    };
    let dead = stats.dead.saturating_sub(discarded);
    let pauses = store.pauses().await?;
    let paused: Vec<Paused> = pauses.into_iter().map(Paused::new).collect();
    let findings = findings(&stats, dead, args);
    Ok(Standing {
        table: store.table().to_string(),
        pending: stats.pending,
        processing: stats.processing,
        stuck: stats.stuck,
        dead,
        discarded,
        oldest_pending_seconds: stats.oldest_pending.as_millis() as f64 / 1000.0,
        at_least: stats.at_least,
        paused,
        healthy: findings.is_empty(),
        findings,
    })
}

fn findings(stats: &Stats, dead: u64, args: &Status) -> Vec<String> {
    let mut findings = Vec::new();
    if stats.oldest_pending > args.max_lag {
        let (lag, most) = (brief(stats.oldest_pending), brief(args.max_lag));
        findings.push(format!(
            "lag is {lag}, more than {most}: is a relay running, and can it deliver?"
        ));
    }
    if stats.stuck > 0 {
        let stuck = stats.stuck;
        findings.push(format!("{stuck} stuck in delivery for more than five minutes: look at the relay that holds them"));
    }
    if let Some(most) = args.max_dead.filter(|most| dead > *most) {
        findings.push(format!("{dead} dead, more than {most}: see posthaste dead"));
    }
    findings
}

fn tell(output: &Output, standings: &[Standing]) -> Result<(), Failure> {
    if output.json {
        return standings
            .iter()
            .try_for_each(|standing| output.json(standing));
    }
    let row = |standing: &Standing| {
        let lag = Duration::try_from_secs_f64(standing.oldest_pending_seconds).unwrap_or_default();
        let paused = standing.paused.iter().map(Paused::told);
        let told: Vec<String> = standing.findings.iter().cloned().chain(paused).collect();
        let well = match (standing.healthy, told.is_empty()) {
            (true, true) => Cell::Text("ok".to_owned(), GOOD),
            (true, false) => Cell::Text(told.join("; "), BUSY),
            (false, _) => Cell::Text(told.join("; "), BAD),
        };
        vec![
            Cell::text(&standing.table),
            Cell::count(standing.pending, PLAIN),
            Cell::count(standing.processing, BUSY),
            Cell::count(standing.stuck, BAD),
            Cell::count(standing.dead, BAD),
            Cell::count(standing.discarded, PLAIN),
            Cell::Duration(lag, PLAIN),
            well,
        ]
    };
    let rows: Vec<_> = standings.iter().map(row).collect();
    let heads = [
        "OUTBOX",
        "PENDING",
        "PROCESSING",
        "STUCK",
        "DEAD",
        "DISCARDED",
        "LAG",
        "HEALTH",
    ];
    output.table(&heads, &rows)
}

/// What the exit code tells.
fn verdict(args: &Status, standings: &[Standing]) -> Result<(), Failure> {
    let ill: Vec<String> = standings
        .iter()
        .filter(|standing| !standing.healthy)
        .map(|standing| format!("{}: {}", standing.table, standing.findings.join("; ")))
        .collect();
    match args.check && !ill.is_empty() {
        true => Err(Failure::Unhealthy(ill.join("\n"))),
        false => Ok(()),
    }
}
