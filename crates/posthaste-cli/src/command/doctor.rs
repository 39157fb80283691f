//! `doctor`: looks at everything that a relay depends on, and says what to do about what is wrong.

use std::time::{Duration, Instant};

use clap::Args;
use posthaste::StoreError;
use posthaste::schema::SchemaError;
use posthaste::store::{Finding, Grade};
use posthaste_relay::sink::Sink;
use serde::Serialize;

use super::status::discarded;
use crate::cli::Place;
use crate::config::{Config, Destination, Outbox};
use crate::failure::{Failure, whole};
use crate::output::{BAD, BOLD, DOUBTFUL, GOOD, Output, paint, visible};
use crate::{place, time};

const EXAMPLES: &str = "\
Examples:
  posthaste doctor
  posthaste doctor --json | jq 'select(.grade != \"good\")'

What is doubtful works, and should be looked at. What is bad does not work: exit code 5.";

/// What was asked for.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Doctor;

/// How long a destination may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do about what says itself how it is mended.
const MEND: &str = "mend it, then look again";

/// One finding, and what it is about. In JSON, too.
#[derive(Debug, Serialize)]
struct Diagnosis<'a> {
    /// An outbox or a sink.
    about: &'a str,
    check: &'a str,
    grade: &'static str,
    found: &'a str,
    remedy: &'a str,
}

pub(crate) async fn run(place: &Place) -> Result<(), Failure> {
    let output = Output::new(place.json);
    let config = place::load(place)?;
    let outboxes = place::selected(&config, place)?;
    let mut bad = tell(&output, "configuration", &settings(&config))?;
    for outbox in &outboxes {
        let findings = outbox_findings(outbox).await;
        bad += tell(&output, &outbox.table.to_string(), &findings)?;
    }
    for (name, Destination { sink, .. }) in &config.sinks {
        bad += tell_of_sink(&output, name, &**sink).await?;
    }
    verdict(bad)
}

/// Looks at a destination, and tells what it found. Gives back how much of it is bad.
pub(super) async fn tell_of_sink(
    output: &Output,
    name: &str,
    sink: &dyn Sink,
) -> Result<usize, Failure> {
    tell(output, &format!("sink {name}"), &[destination(sink).await])
}

/// What it comes down to.
pub(super) fn verdict(bad: usize) -> Result<(), Failure> {
    match bad {
        0 => Ok(()),
        1 => Err(Failure::Unhealthy("1 thing does not work".to_owned())),
        bad => Err(Failure::Unhealthy(format!("{bad} things do not work"))),
    }
}

/// Tells what was found. Gives back how much of it is bad, also if nobody reads it.
fn tell(output: &Output, about: &str, findings: &[Finding]) -> Result<usize, Failure> {
    Failure::unless_unread(print(output, about, findings))?;
    let bad = findings.iter().filter(|found| found.grade == Grade::Bad);
    Ok(bad.count())
}

fn print(output: &Output, about: &str, findings: &[Finding]) -> Result<(), Failure> {
    if !output.json {
        output.line(&paint(&visible(about), BOLD))?;
    }
    for Finding {
        check,
        grade,
        found,
        remedy,
    } in findings
    {
        let (word, style) = match grade {
            Grade::Good => ("good", GOOD),
            Grade::Doubtful => ("doubtful", DOUBTFUL),
            Grade::Bad => ("bad", BAD),
        };
        if output.json {
            output.json(&Diagnosis {
                about,
                check,
                grade: word,
                found,
                remedy,
            })?;
            continue;
        }
        let word = paint(&format!("{word:8}"), style);
        output.line(&format!("  {word}  {check:12}  {}", visible(found)))?;
        if !remedy.is_empty() {
            output.line(&format!("  {:8}  {:12}  → {}", "", "", visible(remedy)))?;
        }
    }
    Ok(())
}

/// What is configured: each doubt about it, or that there is none. With mistakes it would not have come this far.
fn settings(config: &Config) -> Vec<Finding> {
    let doubts: Vec<Finding> = config
        .warnings
        .iter()
        .map(|doubt| {
            let found = match doubt.key.is_empty() {
                true => doubt.message.clone(),
                false => format!("{}: {}", doubt.key, doubt.message),
            };
            Finding::good("settings", found).doubtful(doubt.help.clone().unwrap_or_default())
        })
        .collect();
    match doubts.is_empty() {
        true => vec![Finding::good("settings", "they work together")],
        false => doubts,
    }
}

async fn destination(sink: &dyn Sink) -> Finding {
    match tokio::time::timeout(PATIENCE, sink.check()).await {
        Ok(Ok(found)) => Finding::good("destination", found),
        Ok(Err(wrong)) => Finding::good("destination", wrong)
            .bad("start it, or mend its settings; until then its events wait"),
        Err(_) => Finding::good(
            "destination",
            format!("no answer in {}", time::brief(PATIENCE)),
        )
        .bad("see whether it is up and can be reached from here; until then its events wait"),
    }
}

async fn outbox_findings(outbox: &Outbox) -> Vec<Finding> {
    let is_postgres = outbox.database.is_postgres();
    let started = Instant::now();
    let opened = posthaste::store::connect(&outbox.database.url, outbox.table.clone()).await;
    let store = match opened {
        Ok(store) => store,
        Err(StoreError::Schema(error)) => return vec![of_schema(&error)],
        Err(error) => {
            return vec![Finding::good("database", whole(&error)).bad(match error {
                StoreError::Unavailable(_) if is_postgres => "see whether the server is up, can be reached from here, and `database.url` is right",
                _ => MEND,
            })];
        }
    };
    // SQLite has no rights, and what is wrong with a file is told with what to do.
    let remedy = |error: &StoreError, grant| match error {
        StoreError::Refused(_) if is_postgres => grant,
        _ => MEND,
    };
    let mut findings = vec![
        Finding::good(
            "database",
            format!("answered in {}", time::brief(started.elapsed())),
        ),
        Finding::good("schema", "as this version needs it"),
    ];
    match store.examine().await {
        Ok(found) => findings.extend(found),
        Err(error) => {
            let grant = "grant this user the right to read the server's statistics";
            findings.push(Finding::good("database", whole(&error)).bad(remedy(&error, grant)));
        }
    }
    match store.stats().await {
        Ok(stats) => {
            let discarded = discarded(&*store, &stats).await.unwrap_or(0);
            findings.push(events(stats.stuck, stats.dead.saturating_sub(discarded)));
        }
        Err(error) => {
            let grant = "grant this user the right to read the outbox";
            findings.push(Finding::good("events", whole(&error)).bad(remedy(&error, grant)));
        }
    }
    findings
}

fn of_schema(error: &SchemaError) -> Finding {
    let migrate = "run `posthaste migrate`";
    match error {
        SchemaError::Missing { .. } => Finding::good("schema", "not set up").bad(migrate),
        SchemaError::Older { found, needed, .. } => {
            let found = format!("at version {found}, and this program needs {needed}");
            Finding::good("schema", found).bad(migrate)
        }
        SchemaError::Newer { found, known, .. } => {
            let found = format!("at version {found}, and this program knows only {known}");
            Finding::good("schema", found).bad("upgrade posthaste")
        }
        SchemaError::Database { .. } => Finding::good("schema", whole(error)).bad(
            "grant this user a role that `posthaste migrate --print --roles` makes, or connect as another user",
        ),
        other => Finding::good("schema", whole(other)).bad(MEND),
    }
}

fn events(stuck: u64, dead: u64) -> Finding {
    let finding = Finding::good("events", format!("{stuck} stuck, {dead} dead"));
    match (stuck, dead) {
        (0, 0) => finding,
        (0, _) => finding.doubtful("look at them with `posthaste dead`, then redeliver or discard"),
        _ => finding.doubtful("look at them with `posthaste list --status processing`"),
    }
}
