//! `posthaste clean`: removes what is past its retention, once and now.

use std::time::Duration;

use clap::Args;
use posthaste::Status;
use posthaste::store::{Clean as Batch, Filter};
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

A relay cleans by itself; this is for once. What is pending or being delivered is never removed.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Clean {
    /// Remove what was delivered longer ago than this
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = parse_duration)]
    older_than: Duration,
    /// Remove what died longer ago than this, too [default: the dead stay]
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    dead_older_than: Option<Duration>,
    /// Move it to the archive instead
    #[arg(long)]
    archive: bool,
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

pub(crate) async fn run(place: &Place, args: &Clean) -> Result<(), Failure> {
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
    if args
        .older_than
        .max(args.dead_older_than.unwrap_or_default())
        > LONGEST
    {
        return Err(Failure::usage("a retention has at most 100 years"));
    }
    let store = place::open(place).await?;
    let ended = |status, ended_for| Filter {
        status: vec![status],
        ended_for: Some(ended_for),
        ..Filter::default()
    };
    let delivered = store
        .count(&ended(Status::Delivered, args.older_than))
        .await?;
    let dead = match args.dead_older_than {
        Some(age) => store.count(&ended(Status::Dead, age)).await?,
        None => 0,
    };
    let mut answer = Answer {
        table: store.table().to_string(),
        dry_run: args.dry_run,
        archive: args.archive,
        delivered,
        dead,
        removed: 0,
    };
    let output = Output::new(place.json);
    let (verb, done) = match args.archive {
        true => ("Archive", "archived"),
        false => ("Remove", "removed"),
    };
    let what = what(&answer, args);
    if !args.dry_run && delivered + dead > 0 {
        confirm(&format!("{verb} {what} from {}?", answer.table), args.yes)?;
        let batch = Batch {
            retention: args.older_than,
            dead_retention: args.dead_older_than,
            archive: args.archive,
            limit: BATCH,
        };
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

fn what(answer: &Answer, args: &Clean) -> String {
    let mut what = format!(
        "{} delivered more than {} ago",
        answer.delivered,
        brief(args.older_than)
    );
    if let Some(age) = args.dead_older_than {
        what.push_str(&format!(
            " and {} dead for more than {}",
            answer.dead,
            brief(age)
        ));
    }
    what
}
