//! Acts on many events: find them, show what would be touched, ask, then work page by page.

use std::sync::Arc;

use clap::Args;
use posthaste::store::{Act, Filter, Store};
use posthaste::{DeadReason, Record, Status, StoreError};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Place;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::filter::FilterArgs;
use crate::output::{EventJson, LIVE_COLUMNS, Output, live_row};
use crate::{place, progress};

/// How many events one statement is about.
const BATCH: usize = 500;
/// How many events are read at once to find those that are meant.
const PAGE: u32 = 50_000;
/// How many of them are shown.
const SAMPLE: usize = 5;

/// What `redeliver` and `discard` have in common.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The events
    #[arg(value_name = "ID")]
    named: Vec<Uuid>,
    /// Every event, if nothing narrows them down
    #[arg(long)]
    all: bool,
    /// At most this many, the oldest first
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only say what would be touched
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    why: String,
    /// Who, for the audit log [default: the user and the machine]
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What to do to events.
pub(crate) struct Deed {
    /// As in the audit log: `redeliver`.
    pub(crate) name: &'static str,
    /// As a question begins: `Redeliver`.
    pub(crate) verb: &'static str,
    /// As an answer begins: `redelivered`.
    pub(crate) done: &'static str,
    /// Which events it can be done to.
    pub(crate) status: Vec<Status>,
    /// Why it cannot be done to others.
    pub(crate) others: &'static str,
    /// Whether it can be done to what an operator gave up, if that is named.
    pub(crate) to_discarded: bool,
}

/// The answer in JSON.
#[derive(Debug, Serialize)]
struct Answer<'r> {
    table: String,
    act: &'static str,
    dry_run: bool,
    /// How many events were found to be eligible.
    found: usize,
    done: usize,
    /// How many were named, or found, and could not be acted upon.
    not_eligible: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sample: Vec<EventJson<'r>>,
}

/// Does it.
pub(crate) async fn sweep<F>(
    place: &Place,
    args: &SweepArgs,
    deed: &Deed,
    act: impl Fn(Arc<dyn Store>, Vec<Uuid>, Act) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<Vec<Uuid>, StoreError>>,
{
    let mut filter = args.filter.with_status(&deed.status);
    filter.ids.extend(&args.named);
    filter.ids.sort();
    filter.ids.dedup();
    if filter.is_everything() && !args.all {
        return Err(Failure::usage(format!(
            "nothing says which events to {}: name their ids, narrow them down (--topic, --error, --older-than …), or add --all",
            deed.name
        )));
    }
    let named = filter.ids.len();
    let store = place::open(place).await?;
    let discarded =
        deed.to_discarded && (named > 0 || filter.reason == Some(DeadReason::Discarded));
    let (found, sample) = find(&*store, filter, args.limit, discarded).await?;
    let mut answer = Answer {
        table: store.table().to_string(),
        act: deed.name,
        dry_run: args.dry_run,
        found: found.len(),
        done: 0,
        not_eligible: named.saturating_sub(found.len()),
        sample: Vec::new(),
    };
    let output = Output::new(place.json);
    if args.dry_run {
        return tell_plan(&output, &store, &mut answer, &sample, deed);
    }
    if !found.is_empty() {
        let events = events(found.len());
        let question = format!("{} {events} of {}?", deed.verb, answer.table);
        if !args.yes {
            show_sample(&sample, found.len())?;
        }
        confirm(&question, args.yes)?;
        let bar = progress::bar(found.len() as u64, deed.verb);
        for ids in found.chunks(BATCH) {
            let entry = Act {
                actor: args.actor.clone().unwrap_or_else(operator),
                why: args.why.clone(),
            };
            let acted = act(store.clone(), ids.to_vec(), entry).await;
            let acted = acted.inspect_err(|_| {
                bar.finish_and_clear();
                eprintln!(
                    "{} {}, then it failed",
                    deed.done,
                    self::events(answer.done)
                );
            })?;
            answer.done += acted.len();
            bar.inc(ids.len() as u64);
        }
        bar.finish_and_clear();
        answer.not_eligible += found.len() - answer.done;
    }
    match output.json {
        true => output.json(&answer),
        false => output.line(&told(&answer, deed)),
    }
}

/// The ids of what the filter is about, and the first few as they are.
async fn find(
    store: &dyn Store,
    mut filter: Filter,
    limit: Option<usize>,
    discarded: bool,
) -> Result<(Vec<Uuid>, Vec<Record>), Failure> {
    let mut found = Vec::new();
    let mut sample = Vec::new();
    let limit = limit.unwrap_or(usize::MAX);
    let size = u32::try_from(limit.max(1000)).map_or(PAGE, |limit| limit.min(PAGE));
    loop {
        let page = store.list(&filter, size).await?;
        let Some(last) = page.last() else { break };
        filter.after = Some(last.sequence);
        // What an operator gave up stays so, unless it is named.
        let meant =
            |record: &Record| discarded || record.dead_reason != Some(DeadReason::Discarded);
        for record in page.into_iter().filter(meant) {
            if found.len() == limit {
                return Ok((found, sample));
            }
            found.push(record.id);
            if sample.len() < SAMPLE {
                sample.push(record);
            }
        }
    }
    Ok((found, sample))
}

fn tell_plan<'r>(
    output: &Output,
    store: &Arc<dyn Store>,
    answer: &mut Answer<'r>,
    sample: &'r [Record],
    deed: &Deed,
) -> Result<(), Failure> {
    if output.json {
        let event = |record| EventJson::new(store.table(), record);
        answer.sample = sample.iter().map(event).collect();
        return output.json(answer);
    }
    if !sample.is_empty() {
        let rows: Vec<_> = sample.iter().map(live_row).collect();
        output.table(&LIVE_COLUMNS, &rows)?;
    }
    if answer.found > sample.len() {
        output.line(&format!("… and {} more", answer.found - sample.len()))?;
    }
    let mut line = format!(
        "would be {}: {} of {}",
        deed.done,
        events(answer.found),
        answer.table
    );
    line.push_str(&others(answer, deed));
    output.line(&line)
}

/// What is about to be touched, beside the question.
fn show_sample(sample: &[Record], found: usize) -> Result<(), Failure> {
    use std::io::Write;

    let rows: Vec<_> = sample.iter().map(live_row).collect();
    let mut out = anstream::stderr().lock();
    for line in crate::output::for_people(&LIVE_COLUMNS, &rows) {
        writeln!(out, "{line}")?;
    }
    if found > sample.len() {
        writeln!(out, "… and {} more", found - sample.len())?;
    }
    Ok(())
}

fn told(answer: &Answer<'_>, deed: &Deed) -> String {
    let line = format!("{} {} of {}", deed.done, events(answer.done), answer.table);
    line + &others(answer, deed)
}

fn others(answer: &Answer<'_>, deed: &Deed) -> String {
    match answer.not_eligible {
        0 => String::new(),
        count => format!("; {count} not eligible: {}", deed.others),
    }
}

fn events(count: usize) -> String {
    match count {
        1 => "1 event".to_owned(),
        count => format!("{count} events"),
    }
}

/// Who is at the keyboard, and where.
fn operator() -> String {
    let user = ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname();
    format!("{user}@{}", host.nodename().to_string_lossy())
}
