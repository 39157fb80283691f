//! `doctor`: looks at everything that a relay depends on, and says what to do about what is wrong.

use std::time::{Duration, Instant};

use posthaste::store::{Finding, Grade};
use posthaste_relay::sink::Sink;
use serde::Serialize;

use crate::cli::Place;
use crate::config::{Destination, Outbox};
use crate::failure::Failure;
use crate::output::{BAD, BOLD, DOUBTFUL, GOOD, Output, paint, visible};
use crate::{place, time};

/// How long a destination may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One finding, and what it is about. In JSON, too.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// An outbox or a sink.
    about: String,
    check: &'static str,
    grade: &'static str,
    found: String,
    remedy: String,
}

pub(crate) async fn run(place: &Place) -> Result<(), Failure> {
    let output = Output::new(place.json);
    let config = place::load(place)?;
    let outboxes = place::outboxes(place)?;
    let mut bad = 0;
    let mut tell = |about: &str, findings: Vec<Finding>| {
        bad += findings
            .iter()
            .filter(|found| found.grade == Grade::Bad)
            .count();
        tell(&output, about, findings)
    };
    for outbox in &outboxes {
        tell(&outbox.table.to_string(), outbox_findings(outbox).await)?;
    }
    for (name, Destination { sink, .. }) in &config.sinks {
        tell(&format!("sink {name}"), vec![destination(&**sink).await])?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::Unhealthy("1 thing does not work".to_owned())),
        bad => Err(Failure::Unhealthy(format!("{bad} things do not work"))),
    }
}

fn tell(output: &Output, about: &str, findings: Vec<Finding>) -> Result<(), Failure> {
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
            let about = about.to_owned();
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
        output.line(&format!("  {word}  {check:12}  {}", visible(&found)))?;
        if !remedy.is_empty() {
            output.line(&format!("  {:8}  {:12}  → {}", "", "", visible(&remedy)))?;
        }
    }
    Ok(())
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
    let started = Instant::now();
    let store = match place::connect(outbox).await {
        Ok(store) => store,
        Err(failure @ Failure::Schema(_)) => {
            return vec![
                Finding::good("schema", failure.to_string()).bad("run `posthaste migrate`"),
            ];
        }
        Err(failure) => {
            return vec![
                Finding::good("database", failure.to_string())
                    .bad("see whether the server is up and `database.url` is right"),
            ];
        }
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
        Err(error) => findings.push(
            Finding::good("database", Failure::from(error).to_string())
                .bad("grant this user the right to read the server's statistics"),
        ),
    }
    match store.stats().await {
        Ok(stats) => findings.push(events(stats.stuck, stats.dead)),
        Err(error) => findings.push(
            Finding::good("events", Failure::from(error).to_string())
                .bad("grant this user the right to read the outbox"),
        ),
    }
    findings
}

fn events(stuck: u64, dead: u64) -> Finding {
    let finding = Finding::good("events", format!("{stuck} stuck, {dead} dead"));
    match (stuck, dead) {
        (0, 0) => finding,
        (0, _) => finding.doubtful("look at them with `posthaste dead`, then redeliver or discard"),
        _ => finding.doubtful("look at them with `posthaste list --status processing`"),
    }
}
