//! `posthaste status`: how each outbox stands, and whether that is well.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use posthaste::store::{Filter, Pause, Stats, Store, Target};
use posthaste::{DeadReason, Status as State, StoreError};
use posthaste_relay::Mode;
use serde::Serialize;

use crate::admin::health::{self, Check, Evidence, Leader, Verdict};
use crate::cli::Place;
use crate::config::{Outbox, Thresholds};
use crate::failure::Failure;
use crate::output::{BAD, BUSY, Cell, GOOD, Output, PLAIN, visible};
use crate::place;
use crate::time::{brief, exact, parse_duration};

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Over how long the growth of the dead is judged.
const DEAD_OVER: Duration = Duration::from_secs(15 * 60);

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
    /// With more lag than this an outbox is not well [default: as configured, or 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_lag: Option<Duration>,
    /// With more dead events than this an outbox is not well [default: any number will do]
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
    /// Show it again and again, with every check, until Ctrl-C
    #[arg(long)]
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
    /// As `/healthz` of the daemon tells them; what only the daemon knows is unknown.
    checks: Vec<Check>,
}

/// An outbox, and what was seen of it before.
struct Looked {
    outbox: Outbox,
    /// Once its database has answered.
    store: Option<Arc<dyn Store>>,
    /// Why it could not be looked at the last time, if so.
    failed: Option<Failure>,
    /// The dead at the times of the looks within a quarter of an hour.
    dead: VecDeque<(Instant, u64)>,
}

impl Looked {
    fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            store: None,
            failed: None,
            dead: VecDeque::new(),
        }
    }

    /// The store, opened now if its database did not answer before.
    async fn open(&mut self) -> Result<Arc<dyn Store>, Failure> {
        if let Some(store) = &self.store {
            return Ok(store.clone());
        }
        let store = place::connect(&self.outbox).await?;
        self.store = Some(store.clone());
        Ok(store)
    }
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
    let config = place::load(place)?;
    let looked = place::selected(&config, place)?.into_iter();
    let mut looked: Vec<Looked> = looked.map(Looked::new).collect();
    let configured = config.admin.health;
    let limits = Thresholds {
        max_lag: args.max_lag.unwrap_or(configured.max_lag),
        ..configured
    };
    let output = Output::new(place.json);
    if args.watch {
        let mut last = Vec::new();
        let interrupted = super::interrupted()?;
        tokio::select! {
            result = watch(&output, &mut looked, args, &limits, &mut last) => result?,
            () = interrupted => {}
        }
        return verdict(args, &last);
    }
    let standings = look(&mut looked, args, &limits).await;
    Failure::unless_unread(tell(&output, &standings))?;
    Failure::together(looked.into_iter().filter_map(|it| it.failed).collect())?;
    verdict(args, &standings)
}

async fn watch(
    output: &Output,
    looked: &mut [Looked],
    args: &Status,
    limits: &Thresholds,
    last: &mut Vec<Standing>,
) -> Result<(), Failure> {
    loop {
        *last = look(looked, args, limits).await;
        if output.terminal && !output.json {
            // Past the stream that takes colours out: this is no colour.
            write!(std::io::stdout(), "{CLEAR}")?;
        }
        tell(output, last)?;
        if !output.json {
            tell_checks(output, last)?;
        }
        tokio::time::sleep(args.every).await;
    }
}

async fn look(looked: &mut [Looked], args: &Status, limits: &Thresholds) -> Vec<Standing> {
    let mut standings = Vec::new();
    for it in looked {
        it.failed = None;
        standings.push(match standing(it, args, limits).await {
            Ok(standing) => standing,
            // The others stand as they do; and who watches wants to see it go, and come back.
            Err(failure) => {
                let lost = lost(it, &failure, limits);
                it.failed = Some(failure);
                lost
            }
        });
    }
    standings
}

/// How an outbox stands that cannot be looked at.
fn lost(looked: &Looked, failure: &Failure, limits: &Thresholds) -> Standing {
    let (schema, refused) = match failure {
        Failure::Unavailable(_) => (None, None),
        Failure::Schema(why) => (Some(Err(why.clone())), None),
        other => (None, Some(other.to_string())),
    };
    let evidence = Evidence {
        outbox: looked.outbox.table.to_string(),
        schema,
        refused,
        ..Evidence::default()
    };
    let checks = health::judge(&evidence, limits);
    let ill = checks.iter().filter(|it| it.status == Verdict::Ill);
    let findings = match failure {
        Failure::Unavailable(_) => ill.map(told).collect(),
        // It says itself what mends it.
        other => vec![other.to_string()],
    };
    Standing {
        table: looked.outbox.table.to_string(),
        pending: 0,
        processing: 0,
        stuck: 0,
        dead: 0,
        discarded: 0,
        oldest_pending_seconds: 0.0,
        at_least: false,
        paused: Vec::new(),
        healthy: false,
        findings,
        checks,
    }
}

fn told(check: &Check) -> String {
    format!("{}: {}: {}", check.check, check.value, check.remedy)
}

/// How many of the dead an operator gave up.
pub(crate) async fn discarded(store: &dyn Store, stats: &Stats) -> Result<u64, StoreError> {
    let discarded = Filter {
        status: vec![State::Dead],
        reason: Some(DeadReason::Discarded),
        ..Filter::default()
    };
    match stats.dead {
        0 => Ok(0),
        _ => match store.count(&discarded).await {
            // Then they are told as dead ones.
            Err(StoreError::Slow(_)) => Ok(0),
            counted => counted,
        },
    }
}

async fn standing(
    looked: &mut Looked,
    args: &Status,
    limits: &Thresholds,
) -> Result<Standing, Failure> {
    let store = looked.open().await?;
    let away = |error| Failure::to_reach(&looked.outbox, error);
    let stats = store.stats().await.map_err(away)?;
    let discarded = discarded(&*store, &stats).await.map_err(away)?;
    let dead = stats.dead.saturating_sub(discarded);
    let pauses = store.pauses().await.map_err(away)?;
    let evidence = evidence(looked, &*store, &stats, dead, &pauses).await;
    let checks = health::judge(&evidence, limits);
    let findings = findings(&stats, dead, args, limits, &checks);
    let paused: Vec<Paused> = pauses.into_iter().map(Paused::new).collect();
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
        checks,
    })
}

async fn evidence(
    looked: &mut Looked,
    store: &dyn Store,
    stats: &Stats,
    dead: u64,
    pauses: &[Pause],
) -> Evidence {
    let now = Instant::now();
    looked.dead.push_back((now, dead));
    while looked.dead.len() > 1 && looked.dead[0].0 + DEAD_OVER < now {
        looked.dead.pop_front();
    }
    let leader = match looked.outbox.settings.mode {
        Mode::SingleActive => Leader::of(store).await.ok(),
        _ => Some(Leader::NotNeeded),
    };
    let pause = pauses.iter().find(|it| it.target == Target::Outbox);
    Evidence {
        outbox: looked.outbox.table.to_string(),
        stats: Some(stats.into()),
        // It was looked at when the store was opened.
        schema: Some(Ok("up to date".to_owned())),
        refused: None,
        destinations: None,
        attempts: None,
        died: (looked.dead.len() > 1).then(|| dead.saturating_sub(looked.dead[0].1)),
        leader,
        paused: pause.map(|it| format!("paused by {}, because: {}", it.actor, it.why)),
    }
}

fn findings(
    stats: &Stats,
    dead: u64,
    args: &Status,
    limits: &Thresholds,
    checks: &[Check],
) -> Vec<String> {
    let mut findings = Vec::new();
    if stats.oldest_pending > limits.max_lag {
        let (lag, most) = (brief(stats.oldest_pending), brief(limits.max_lag));
        findings.push(format!(
            "lag is {lag}, more than {most}: is a relay running, and can it deliver?"
        ));
    }
    if stats.stuck > limits.max_stuck {
        let stuck = stats.stuck;
        findings.push(format!("{stuck} stuck in delivery for more than five minutes: look at the relay that holds them"));
    }
    if let Some(most) = args.max_dead.filter(|most| dead > *most) {
        findings.push(format!("{dead} dead, more than {most}: see posthaste dead"));
    }
    let said = ["lag", "stuck"];
    let others = checks
        .iter()
        .filter(|it| it.status == Verdict::Ill && !said.contains(&it.check));
    findings.extend(others.map(told));
    findings
}

/// Every check, below the outboxes.
fn tell_checks(output: &Output, standings: &[Standing]) -> Result<(), Failure> {
    writeln!(std::io::stdout())?;
    let row = |check: &Check| {
        let (word, style) = match check.status {
            Verdict::Ok => ("ok", GOOD),
            Verdict::Unknown => ("unknown", PLAIN),
            Verdict::Ill => ("ill", BAD),
        };
        vec![
            Cell::text(&check.outbox),
            Cell::text(check.check),
            Cell::Text(word.to_owned(), style),
            Cell::text(&check.value),
            Cell::text(&check.threshold),
            Cell::text(&check.remedy),
        ]
    };
    let rows: Vec<_> = standings
        .iter()
        .flat_map(|it| &it.checks)
        .map(row)
        .collect();
    let heads = ["OUTBOX", "CHECK", "STATUS", "FOUND", "EXPECTED", "REMEDY"];
    output.table(&heads, &rows)
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
