//! `posthaste clean`: removes what is past its retention, once and now.

use std::time::Duration;

use clap::Args;
use posthaste::Status;
use posthaste::store::{Clean as Batch, Filter};
use posthaste_relay::Cleaning;
use serde::Serialize;

use crate::cli::Place;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::Output;
use crate::sweep::ActArgs;
use crate::time::{brief, parse_duration};
use crate::{place, progress};

/// How many events one statement removes.
const BATCH: u32 = 1000;

const EXAMPLES: &str = "\
Examples:
  posthaste clean --dry-run
  posthaste clean --older-than 1d --yes
  posthaste clean --older-than 7d --dead-older-than 90d --archive

A relay cleans by itself; this is for once, by what is configured unless told otherwise. It goes
by age alone, as retention does. What is pending or being delivered is never removed.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Clean {
    /// Remove what was delivered longer ago than this [default: as configured, or 7d]
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Remove what died longer ago than this, too [default: as configured, or the dead stay]
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    dead_older_than: Option<Duration>,
    /// Move it to the archive instead, or with =false do not [default: as configured, or do not]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    archive: Option<bool>,
    /// Only say how much would be removed
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    act: ActArgs,
}

#[derive(Debug, Serialize)]
struct Answer {
    table: String,
    dry_run: bool,
    archive: bool,
    /// How many were past their retention.
    delivered: u64,
    dead: u64,
    removed: u64,
}

impl Clean {
    /// What was typed, and for all else what is configured.
    fn batch(&self, configured: &Cleaning) -> Result<Batch, Failure> {
        const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
        if self.older_than.max(self.dead_older_than) > Some(LONGEST) {
            return Err(Failure::usage("a retention has at most 100 years"));
        }
        if !configured.enabled && self.older_than.is_none() {
            return Err(Failure::usage(
                "the configuration keeps everything (outbox.clean.enabled = false): to remove events all the same, add --older-than",
            ));
        }
        let configured_for_the_dead = configured.dead_retention.filter(|_| configured.enabled);
        Ok(Batch {
            retention: self.older_than.unwrap_or(configured.retention),
            dead_retention: self.dead_older_than.or(configured_for_the_dead),
            archive: self.archive.unwrap_or(configured.archive),
            limit: BATCH,
        })
    }
}

pub(crate) async fn run(place: &Place, args: &Clean) -> Result<(), Failure> {
    let outbox = place::outbox(place)?;
    let batch = args.batch(&outbox.settings.cleaning)?;
    let store = place::connect(&outbox).await?;
    let ended = |status, ended_for| Filter {
        status: vec![status],
        ended_for: Some(ended_for),
        ..Filter::default()
    };
    let delivered = store
        .count(&ended(Status::Delivered, batch.retention))
        .await?;
    let dead = match batch.dead_retention {
        Some(age) => store.count(&ended(Status::Dead, age)).await?,
        None => 0,
    };
    let mut answer = Answer {
        table: store.table().to_string(),
        dry_run: args.dry_run,
        archive: batch.archive,
        delivered,
        dead,
        removed: 0,
    };
    let output = Output::new(place.json);
    let (verb, done) = match batch.archive {
        true => ("Archive", "archived"),
        false => ("Remove", "removed"),
    };
    let what = what(&answer, &batch);
    if !args.dry_run && delivered + dead > 0 {
        confirm(&format!("{verb} {what} from {}?", answer.table), args.yes)?;
        // Before anything is gone: a clean-up that is cut short was one, too.
        let mut act = args.act.act();
        act.why = format!("{} ({what} to be {done})", act.why);
        store.note("clean", &act).await?;
        let bar = progress::bar(delivered + dead, verb);
        // Until as many are gone as were told of: what comes of age meanwhile is for the next time.
        while answer.removed < delivered + dead {
            let removed = store.clean(&batch).await?;
            if removed == 0 {
                break;
            }
            answer.removed += removed;
            bar.inc(removed);
        }
        bar.finish_and_clear();
    }
    if output.json {
        return output.json(&answer);
    }
    match args.dry_run {
        true => output.line(&format!("would be {done}: {what} from {}", answer.table)),
        false => output.line(&format!("{done} {} from {}", answer.removed, answer.table)),
    }
}

fn what(answer: &Answer, batch: &Batch) -> String {
    let mut what = format!(
        "{} delivered more than {} ago",
        answer.delivered,
        brief(batch.retention)
    );
    if let Some(age) = batch.dead_retention {
        what.push_str(&format!(
            " and {} dead for more than {}",
            answer.dead,
            brief(age)
        ));
    }
    what
}
