//! `doctor`: looks at everything that a relay depends on, and says what to do about what is wrong.

use std::time::{Duration, Instant};

use posthaste::store::{Finding, Grade};

use crate::config::{Config, Outbox};
use crate::failure::Failure;
use crate::serve;

/// How long a destination may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One finding, and what it is about.
pub(crate) struct Diagnosis {
    /// An outbox or a destination.
    pub(crate) about: String,
    pub(crate) finding: Finding,
}

/// Everything that was found, in the order of the configuration.
pub(crate) async fn examine(config: &Config) -> Vec<Diagnosis> {
    let mut diagnoses = Vec::new();
    for outbox in &config.outboxes {
        let about = outbox.table.to_string();
        let findings = outbox_findings(outbox).await.into_iter();
        diagnoses.extend(findings.map(|finding| Diagnosis {
            about: about.clone(),
            finding,
        }));
    }
    for (name, sink) in serve::sinks(config) {
        let started = Instant::now();
        let checked = tokio::time::timeout(PATIENCE, sink.check()).await;
        let finding = match checked {
            Ok(Ok(found)) => Finding::good("destination", found),
            Ok(Err(wrong)) => Finding::good("destination", wrong)
                .bad("start it, or mend its settings; until then its events wait"),
            Err(_) => Finding::good("destination", format!("no answer in {:?}", started.elapsed()))
                .bad("see whether it is up and reachable from here; until then its events wait"),
        };
        diagnoses.push(Diagnosis {
            about: format!("sink {name}"),
            finding,
        });
    }
    diagnoses
}

async fn outbox_findings(outbox: &Outbox) -> Vec<Finding> {
    let started = Instant::now();
    let store = posthaste::store::connect(&outbox.database.url, outbox.table.clone()).await;
    let store = match store.map_err(Failure::from) {
        Ok(store) => store,
        Err(failure @ Failure::Schema(_)) => {
            return vec![Finding::good("schema", failure.to_string()).bad("run `posthaste migrate`")];
        }
        Err(failure) => {
            return vec![
                Finding::good("database", failure.to_string())
                    .bad("see whether the server is up and `database.url` is right"),
            ];
        }
    };
    let mut findings = vec![
        Finding::good("database", format!("answered in {:?}", started.elapsed())),
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

/// The worst of all.
pub(crate) fn worst(diagnoses: &[Diagnosis]) -> Grade {
    let grades = diagnoses.iter().map(|diagnosis| diagnosis.finding.grade);
    grades.max().unwrap_or(Grade::Good)
}
