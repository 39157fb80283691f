//! `posthaste clean`: removes what is past its retention, once and now.

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use posthaste::store::{Clean as Batch, Filter, Order};
use posthaste::{Status, Store, StoreError};
use posthaste_relay::Cleaning;
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Place;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::filter::KindArgs;
use crate::output::{EventJson, Output};
use crate::sweep::{ActArgs, SAMPLE, events, first, show_sample, tell_sample};
use crate::time::{brief, parse_duration};
use crate::{place, progress};

/// How many events one statement removes.
const BATCH: u32 = 1000;

const EXAMPLES: &str = "\
Examples:
  posthaste clean --dry-run
  posthaste clean --older-than 1d --yes
  posthaste clean --older-than 7d --dead-older-than 90d --archive
  posthaste clean --older-than 0s --tenant 5f0c3a5e-… --why 'the tenant left'
  posthaste clean --reason malformed --dead-older-than 1d

A relay cleans by itself; this is for once, by what is configured unless told otherwise. Ages are
those since delivery or death. What is pending or being delivered is never removed. Each clean-up
is written to the audit log.";

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
    #[command(flatten)]
    kind: KindArgs,
}

#[derive(Debug, Serialize)]
struct Answer<'r> {
    table: String,
    dry_run: bool,
    archive: bool,
    /// How many were past their retention.
    delivered: u64,
    dead: u64,
    /// They are at least so many: they could not be counted in time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
    removed: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sample: Vec<EventJson<'r>>,
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
        let for_the_dead = self.dead_older_than.or(configured_for_the_dead);
        if self.kind.is_of_the_dead() && for_the_dead.is_none() {
            return Err(Failure::usage(
                "--reason and --fingerprint are about dead events, and those stay: add --dead-older-than",
            ));
        }
        Ok(Batch {
            retention: self.older_than.unwrap_or(configured.retention),
            dead_retention: for_the_dead,
            archive: self.archive.unwrap_or(configured.archive),
            limit: BATCH,
        })
    }
}

/// Which events go: the delivered, and the dead if they do.
fn filters(args: &Clean, batch: &Batch) -> Vec<Filter> {
    let ended = |status, ended_for| Filter {
        ended_for: Some(ended_for),
        ..args.kind.with_status(&[status])
    };
    let mut filters = vec![ended(Status::Delivered, batch.retention)];
    filters.extend(batch.dead_retention.map(|age| ended(Status::Dead, age)));
    filters
}

pub(crate) async fn run(place: &Place, args: &Clean) -> Result<(), Failure> {
    let outbox = place::outbox(place)?;
    let batch = args.batch(&outbox.settings.cleaning)?;
    let store = place::connect(&outbox).await?;
    let began = Instant::now();
    let filters = filters(args, &batch);
    let (mut counts, mut sample) = (Vec::new(), Vec::new());
    let mut at_least = false;
    for filter in &filters {
        let counted = match store.count(filter).await {
            // What is too large to be counted in time is what most needs to be cleaned.
            Err(StoreError::Slow(_)) => None,
            counted => Some(counted?),
        };
        let seen = first(&*store, filter, SAMPLE).await?;
        counts.push(counted.unwrap_or(seen.len() as u64));
        at_least |= counted.is_none();
        sample.extend(seen);
    }
    sample.truncate(SAMPLE);
    let found = counts.iter().sum();
    let mut answer = Answer {
        table: store.table().to_string(),
        dry_run: args.dry_run,
        archive: batch.archive,
        delivered: counts[0],
        dead: counts.get(1).copied().unwrap_or(0),
        at_least,
        removed: 0,
        sample: Vec::new(),
    };
    let output = Output::new(place.json);
    let (verb, done) = match batch.archive {
        true => ("Archive", "archived"),
        false => ("Remove", "removed"),
    };
    let what = what(&answer, &batch, &args.kind);
    if args.dry_run {
        if output.json {
            let event = |record| EventJson::new(store.table(), record);
            answer.sample = sample.iter().map(event).collect();
            return output.json(&answer);
        }
        tell_sample(&output, &sample, found)?;
        return output.line(&format!("would be {done}: {what} from {}", answer.table));
    }
    if found > 0 || at_least {
        if !args.yes {
            show_sample(&sample, found)?;
        }
        confirm(&format!("{verb} {what} from {}?", answer.table), args.yes)?;
        // Before anything is gone: a clean-up that is cut short was one, too.
        let mut act = args.act.act();
        act.why = format!("{} ({what} to be {done})", act.why);
        store.note("clean", &act).await?;
        let bar = progress::bar(found, verb);
        let told = Told {
            store: &*store,
            batch: &batch,
            began,
            most: (!at_least).then_some(found),
            bar: &bar,
        };
        let removed = &mut answer.removed;
        let worked = match args.kind.told().is_empty() {
            true => told.remove_old(removed).await,
            false => told.remove_some(&filters, removed).await,
        };
        bar.finish_and_clear();
        if worked.is_err() {
            eprintln!("{done} {}, then it failed", events(answer.removed));
        }
        worked?;
    }
    if output.json {
        return output.json(&answer);
    }
    output.line(&format!("{done} {} from {}", answer.removed, answer.table))
}

/// What was told of, and is to go. What comes of age meanwhile is for the next time.
struct Told<'c> {
    store: &'c dyn Store,
    batch: &'c Batch,
    /// When it began to be counted.
    began: Instant,
    /// How many they are. `None`: they could not be counted.
    most: Option<u64>,
    bar: &'c ProgressBar,
}

impl Told<'_> {
    /// An age now that leaves out what came of age since: the question may have stood for long.
    fn then(&self, age: Duration) -> Duration {
        age.saturating_add(self.began.elapsed())
    }

    /// How many may go at once, once so many are gone.
    fn next(&self, removed: u64) -> u32 {
        let most = self.most.unwrap_or(u64::MAX);
        let left = u32::try_from(most.saturating_sub(removed)).unwrap_or(u32::MAX);
        left.min(self.batch.limit)
    }

    /// Until as many are gone as were told of, or none is left.
    async fn remove_old(&self, removed: &mut u64) -> Result<(), StoreError> {
        while self.next(*removed) > 0 {
            let batch = Batch {
                retention: self.then(self.batch.retention),
                dead_retention: self.batch.dead_retention.map(|age| self.then(age)),
                limit: self.next(*removed),
                ..*self.batch
            };
            let gone = self.store.clean(&batch).await?;
            *removed += gone;
            self.bar.inc(gone);
            if gone == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Page by page, as they are found.
    async fn remove_some(&self, filters: &[Filter], removed: &mut u64) -> Result<(), StoreError> {
        for filter in filters {
            let mut from = None;
            while self.next(*removed) > 0 {
                let filter = Filter {
                    ended_for: filter.ended_for.map(|age| self.then(age)),
                    ..filter.clone()
                };
                let page = self
                    .store
                    .browse(&filter, Order::OldestFirst, from, self.batch.limit)
                    .await?;
                let next = page.records.iter().take(self.next(*removed) as usize);
                let ids: Vec<Uuid> = next.map(|record| record.id).collect();
                if !ids.is_empty() {
                    let gone = self.store.remove(&ids, self.batch.archive).await?;
                    *removed += gone;
                    self.bar.inc(gone);
                }
                match page.next {
                    Some(next) => from = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }
}

fn what(answer: &Answer<'_>, batch: &Batch, kind: &KindArgs) -> String {
    let at_least = if answer.at_least { "at least " } else { "" };
    let mut what = format!(
        "{at_least}{} delivered more than {} ago",
        answer.delivered,
        brief(batch.retention)
    );
    if let Some(age) = batch.dead_retention {
        what.push_str(&format!(
            " and {at_least}{} dead for more than {}",
            answer.dead,
            brief(age)
        ));
    }
    let told = kind.told();
    match told.is_empty() {
        true => what,
        false => format!("{what}, with {told},"),
    }
}
