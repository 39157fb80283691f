//! Acts on many events: find them, show what would be touched, ask, then work page by page.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use posthaste::store::{Act, Filter, Order, Store};
use posthaste::{DeadReason, Record, Status, StoreError};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Place;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::filter::{FilterArgs, parse_id};
use crate::output::{EventJson, LIVE_COLUMNS, Output, live_row};
use crate::{place, progress};

/// How many events one statement is about.
const BATCH: usize = 500;
/// How many events are read at once to find those that are meant.
const PAGE: u32 = 5_000;
/// How many of them are shown.
pub(crate) const SAMPLE: usize = 5;
/// For how long they are counted, and looked for: somebody waits.
const COUNTING: Duration = Duration::from_secs(6);
const LEAFING: Duration = Duration::from_secs(5);

/// What `redeliver` and `discard` have in common.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The events
    #[arg(value_name = "ID", value_parser = parse_id)]
    named: Vec<Uuid>,
    /// Every event, if nothing narrows them down
    #[arg(long)]
    all: bool,
    /// At most this many, those first that ended or are due first
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Only say what would be touched
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) act: ActArgs,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What goes to the audit log.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "by hand")]
    pub(crate) why: String,
    /// Who, for the audit log [default: the user and the machine]
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<String>,
}

impl ActArgs {
    pub(crate) fn act(&self) -> Act {
        Act {
            actor: self.actor.clone().unwrap_or_else(operator),
            why: self.why.clone(),
        }
    }
}

/// What to do to events.
pub(crate) struct Deed {
    pub(crate) kind: Kind,
    /// Which events it can be done to.
    pub(crate) status: Vec<Status>,
    /// Why it cannot be done to others.
    pub(crate) others: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Redeliver,
    Discard,
}

impl Kind {
    /// As in the audit log.
    fn name(self) -> &'static str {
        match self {
            Self::Redeliver => "redeliver",
            Self::Discard => "discard",
        }
    }

    /// As a question begins.
    fn verb(self) -> &'static str {
        match self {
            Self::Redeliver => "Redeliver",
            Self::Discard => "Discard",
        }
    }

    /// As an answer begins.
    fn done(self) -> &'static str {
        match self {
            Self::Redeliver => "redelivered",
            Self::Discard => "discarded",
        }
    }
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
    /// If none was found: how many there are that somebody gave up.
    #[serde(skip)]
    discarded: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sample: Vec<EventJson<'r>>,
}

/// Does it.
pub(crate) async fn sweep(place: &Place, args: &SweepArgs, deed: &Deed) -> Result<(), Failure> {
    let selection = Selection::new(args, deed)?;
    let store = place::open(place).await?;
    let (found, sample) = selection.find(&*store, args.limit).await?;
    let cut = args.limit == Some(found.len());
    let mut answer = Answer {
        table: store.table().to_string(),
        act: deed.kind.name(),
        dry_run: args.dry_run,
        found: found.len(),
        done: 0,
        not_eligible: match cut {
            true => 0,
            false => selection.filter.ids.len().saturating_sub(found.len()),
        },
        discarded: match found.is_empty() {
            true => selection.left_out(&*store, deed).await?,
            false => 0,
        },
        sample: Vec::new(),
    };
    let output = Output::new(place.json);
    if args.dry_run {
        return tell_plan(&output, &store, &mut answer, &sample, deed);
    }
    if !found.is_empty() {
        let (verb, events) = (deed.kind.verb(), events(found.len()));
        if !args.yes {
            show_sample(&sample, found.len() as u64)?;
        }
        confirm(&format!("{verb} {events} of {}?", answer.table), args.yes)?;
        let act = args.act.act();
        let worked = selection
            .work(&*store, &found, deed.kind, &act, &mut answer.done)
            .await;
        if worked.is_err() {
            eprintln!(
                "{} {}, then it failed",
                deed.kind.done(),
                self::events(answer.done)
            );
        }
        worked?;
        answer.not_eligible += found.len() - answer.done;
    }
    match output.json {
        true => output.json(&answer),
        false => output.line(&told(&answer, deed)),
    }
}

/// The events that a redelivery is about, and how many of them, with the first few as they are.
pub(crate) struct Plan {
    pub(crate) filter: Filter,
    pub(crate) found: u64,
    /// Whether there may be more: they could not be counted in time.
    pub(crate) at_least: bool,
    pub(crate) sample: Vec<Record>,
}

impl Plan {
    /// What would be touched, without reading all of it.
    pub(crate) async fn new(
        store: &dyn Store,
        args: &SweepArgs,
        deed: &Deed,
    ) -> Result<Self, Failure> {
        let Selection { filter, .. } = Selection::new(args, deed)?;
        Ok(Self::of(store, filter, SAMPLE).await?)
    }

    /// The same for a filter, with this many of the oldest as a sample.
    pub(crate) async fn of(
        store: &dyn Store,
        filter: Filter,
        size: usize,
    ) -> Result<Self, StoreError> {
        let counted = match tokio::time::timeout(COUNTING, counted(store, &filter)).await {
            Err(_) | Ok(Err(StoreError::Slow(_))) => None,
            Ok(counted) => Some(counted?),
        };
        let most = counted.map_or(size, |found| {
            size.min(usize::try_from(found).unwrap_or(usize::MAX))
        });
        let meant = |record: &Record| filter.redelivers(record);
        let sample = leaf(store, &filter, most, meant).await?;
        Ok(Self {
            filter,
            found: counted.unwrap_or(sample.len() as u64),
            at_least: counted.is_none(),
            sample,
        })
    }

    /// How many they are, in words.
    pub(crate) fn events(&self) -> String {
        match self.at_least {
            true => format!("at least {}", events(self.found)),
            false => events(self.found),
        }
    }

    /// Tells it, and changes nothing.
    pub(crate) fn tell(
        &self,
        output: &Output,
        store: &Arc<dyn Store>,
        deed: &Deed,
    ) -> Result<(), Failure> {
        let found = usize::try_from(self.found).unwrap_or(usize::MAX);
        let mut answer = Answer {
            table: store.table().to_string(),
            act: deed.kind.name(),
            dry_run: true,
            found,
            done: 0,
            not_eligible: self.filter.ids.len().saturating_sub(found),
            discarded: 0,
            sample: Vec::new(),
        };
        tell_plan(output, store, &mut answer, &self.sample, deed)
    }

    /// Shows it beside the question.
    pub(crate) fn show(&self) -> Result<(), Failure> {
        show_sample(&self.sample, self.found)
    }
}

/// The oldest of those that a filter is about, at most this many, as far as they are found in time.
pub(crate) async fn first(
    store: &dyn Store,
    filter: &Filter,
    most: usize,
) -> Result<Vec<Record>, StoreError> {
    leaf(store, filter, most, |_| true).await
}

async fn leaf(
    store: &dyn Store,
    filter: &Filter,
    most: usize,
    meant: impl Fn(&Record) -> bool,
) -> Result<Vec<Record>, StoreError> {
    let began = Instant::now();
    let (mut found, mut from) = (Vec::new(), None);
    let few = u32::try_from(most).unwrap_or(u32::MAX);
    // A page that finds nothing says where to go on, and those that match may be far.
    while found.len() < most && began.elapsed() < LEAFING {
        let page = store.browse(filter, Order::OldestFirst, from, few).await?;
        found.extend(page.records.into_iter().filter(|it| meant(it)));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    found.truncate(most);
    Ok(found)
}

async fn counted(store: &dyn Store, filter: &Filter) -> Result<u64, StoreError> {
    let all = store.count(filter).await?;
    match filter.left_out() {
        Some(left_out) => Ok(all.saturating_sub(store.count(&left_out).await?)),
        None => Ok(all),
    }
}

/// Which events are meant.
struct Selection {
    filter: Filter,
    /// Whether those that an operator gave up are among them.
    discarded: bool,
}

impl Selection {
    fn new(args: &SweepArgs, deed: &Deed) -> Result<Self, Failure> {
        let mut filter = args.filter.with_status(&deed.status);
        filter.ids.extend(&args.named);
        filter.ids.sort();
        filter.ids.dedup();
        if filter.is_everything() && !args.all {
            return Err(Failure::usage(format!(
                "nothing says which events to {}: name their ids, narrow them down (--topic, --error, --older-than …), or add --all",
                deed.kind.name()
            )));
        }
        // What an operator gave up stays so, unless it is named.
        let named = !filter.ids.is_empty() || filter.reason == Some(DeadReason::Discarded);
        Ok(Self {
            discarded: named && deed.kind == Kind::Redeliver,
            filter,
        })
    }

    fn means(&self, record: &Record) -> bool {
        self.discarded || record.dead_reason != Some(DeadReason::Discarded)
    }

    /// How many a redelivery leaves alone because somebody gave them up.
    async fn left_out(&self, store: &dyn Store, deed: &Deed) -> Result<u64, Failure> {
        if self.discarded || deed.kind != Kind::Redeliver || self.filter.reason.is_some() {
            return Ok(0);
        }
        let discarded = Filter {
            reason: Some(DeadReason::Discarded),
            ..self.filter.clone()
        };
        Ok(store.count(&discarded).await?)
    }

    /// The ids of those that are meant, and the first few as they are.
    async fn find(
        &self,
        store: &dyn Store,
        limit: Option<usize>,
    ) -> Result<(Vec<Uuid>, Vec<Record>), Failure> {
        let mut found = Vec::new();
        let mut sample = Vec::new();
        // What is tried again meanwhile comes up once more, further on.
        let mut known = HashSet::new();
        let limit = limit.unwrap_or(usize::MAX);
        let mut from = None;
        loop {
            let page = store
                .browse(&self.filter, Order::OldestFirst, from, PAGE)
                .await?;
            for record in page.records.into_iter().filter(|it| self.means(it)) {
                if found.len() == limit {
                    return Ok((found, sample));
                }
                if !known.insert(record.id) {
                    continue;
                }
                found.push(record.id);
                if sample.len() < SAMPLE {
                    sample.push(record);
                }
            }
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok((found, sample)),
            }
        }
    }

    /// Acts on those that were found and are still meant, and counts them.
    async fn work(
        &self,
        store: &dyn Store,
        found: &[Uuid],
        kind: Kind,
        act: &Act,
        done: &mut usize,
    ) -> Result<(), StoreError> {
        let bar = progress::bar(found.len() as u64, kind.verb());
        for ids in found.chunks(BATCH) {
            // The question may have stood for long: what somebody else redelivered, and was
            // delivered since, is not to be sent once more.
            let filter = Filter {
                ids: ids.to_vec(),
                ..self.filter.clone()
            };
            let still = store.list(&filter, BATCH as u32).await?;
            let still = still.iter().filter(|record| self.means(record));
            let still: Vec<Uuid> = still.map(|record| record.id).collect();
            let acted = match kind {
                Kind::Redeliver => store.redeliver(&still, act).await?,
                Kind::Discard => store.discard(&still, act).await?,
            };
            *done += acted.len();
            bar.inc(ids.len() as u64);
        }
        bar.finish_and_clear();
        Ok(())
    }
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
    tell_sample(output, sample, answer.found as u64)?;
    let mut line = format!(
        "would be {}: {} of {}",
        deed.kind.done(),
        events(answer.found),
        answer.table
    );
    line.push_str(&others(answer, deed));
    output.line(&line)
}

/// What would be touched.
pub(crate) fn tell_sample(output: &Output, sample: &[Record], found: u64) -> Result<(), Failure> {
    if !sample.is_empty() {
        let rows: Vec<_> = sample.iter().map(live_row).collect();
        output.table(&LIVE_COLUMNS, &rows)?;
    }
    match more(sample, found) {
        Some(more) => output.line(&more),
        None => Ok(()),
    }
}

/// What is about to be touched, beside the question.
pub(crate) fn show_sample(sample: &[Record], found: u64) -> Result<(), Failure> {
    use std::io::Write;

    let rows: Vec<_> = sample.iter().map(live_row).collect();
    let mut out = anstream::stderr().lock();
    for line in crate::output::for_people(&LIVE_COLUMNS, &rows) {
        writeln!(out, "{line}")?;
    }
    if let Some(more) = more(sample, found) {
        writeln!(out, "{more}")?;
    }
    Ok(())
}

fn more(sample: &[Record], found: u64) -> Option<String> {
    let more = found.saturating_sub(sample.len() as u64);
    (more > 0).then(|| format!("… and {more} more"))
}

fn told(answer: &Answer<'_>, deed: &Deed) -> String {
    let line = format!(
        "{} {} of {}",
        deed.kind.done(),
        events(answer.done),
        answer.table
    );
    line + &others(answer, deed)
}

fn others(answer: &Answer<'_>, deed: &Deed) -> String {
    match (answer.not_eligible, answer.discarded) {
        (0, 0) => String::new(),
        (0, count) => format!("; {count} discarded: name their ids, or add --reason discarded"),
        (count, _) => format!("; {count} not eligible: {}", deed.others),
    }
}

pub(crate) fn events(count: impl std::fmt::Display) -> String {
    match count.to_string().as_str() {
        "1" => "1 event".to_owned(),
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
