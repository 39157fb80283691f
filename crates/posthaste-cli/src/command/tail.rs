//! `posthaste tail`: follows what is delivered, and what dies, as it happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use posthaste::store::{Mark, Store};
use posthaste::{Pattern, Record, Status, StoreError};
use uuid::Uuid;

use crate::cli::Place;
use crate::failure::Failure;
use crate::output::{BAD, DIM, EventJson, Output, paint, painted_status, visible};
use crate::time::{brief, parse_duration};
use crate::{place, time};

/// How often to look.
const PAUSE: Duration = Duration::from_millis(250);
/// How long after its time a settlement may commit, and still be seen.
const LATE: Duration = Duration::from_secs(5);
/// How many events are read at once.
const PAGE: u32 = 1000;

const EXAMPLES: &str = "\
Examples:
  posthaste tail
  posthaste tail --from-now --topic 'shop.order.*'
  posthaste tail -n 0 --for 10s --json | jq .topic

Events that a relay does not keep after their delivery (retention 0) are not seen.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Tail {
    /// Begin with the last N
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: u32,
    /// Begin with what ends from now on, as -n 0 does
    #[arg(long, conflicts_with = "lines")]
    from_now: bool,
    /// Only these topics: * stands for any text, ? for one character
    #[arg(long, value_name = "PATTERN")]
    topic: Option<String>,
    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
}

pub(crate) async fn run(place: &Place, args: &Tail) -> Result<(), Failure> {
    let interrupted = super::interrupted()?;
    tokio::select! {
        result = follow(place, args) => result,
        () = interrupted => Ok(()),
    }
}

async fn follow(place: &Place, args: &Tail) -> Result<(), Failure> {
    let store = place::open(place).await?;
    let output = Output::new(place.json);
    let topic = args.topic.as_ref().map(Pattern::new);
    let wanted = |record: &&Record| {
        topic
            .as_ref()
            .is_none_or(|topic| topic.matches(&record.topic))
    };
    let tell = |records: &[Record]| {
        records
            .iter()
            .filter(wanted)
            .try_for_each(|record| match output.json {
                true => output.json(&EventJson::new(store.table(), record)),
                false => output.line(&line(&output, record)),
            })
    };
    let lines = if args.from_now { 0 } else { args.lines };
    let (mut follower, first) = Follower::start(store.clone(), lines).await?;
    tell(&first)?;
    let end = args.time.map(|time| Instant::now() + time);
    let mut away = false;
    while end.is_none_or(|end| Instant::now() < end) {
        tokio::time::sleep(PAUSE.min(end.map_or(PAUSE, |end| end - Instant::now()))).await;
        match follower.next().await {
            Ok(records) => {
                away = false;
                tell(&records)?;
            }
            // A restart of the database is worth seeing through.
            Err(error @ StoreError::Unavailable(_)) => {
                if !away {
                    eprintln!("{} Trying again.", Failure::from(error));
                }
                away = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads what ended, each event once.
///
/// A settlement may commit after another one with a later time. So every look begins a while
/// before the last mark, and leaves out what was seen.
struct Follower {
    store: Arc<dyn Store>,
    mark: Mark,
    seen: BTreeSet<(Mark, Uuid)>,
}

impl Follower {
    /// Begins with the last few.
    async fn start(store: Arc<dyn Store>, lines: u32) -> Result<(Self, Vec<Record>), StoreError> {
        let latest = store.finished(None, lines.max(1)).await?;
        let mark = latest.last().and_then(Record::mark).unwrap_or(Mark::START);
        let mut follower = Self {
            store,
            mark,
            seen: BTreeSet::new(),
        };
        // What ended before now, and is not among the last few, is not to be told later.
        let newer = follower.next().await?;
        let mut first = latest;
        first.extend(
            newer
                .into_iter()
                .filter(|record| record.mark() > Some(mark)),
        );
        first.drain(..first.len().saturating_sub(lines as usize));
        Ok((follower, first))
    }

    /// What ended since the last look.
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        let mut fresh = Vec::new();
        let mut from = self.mark.back(LATE);
        loop {
            let page = self.store.finished(Some(from), PAGE).await?;
            let Some(last) = page.last().and_then(Record::mark) else {
                break;
            };
            from = last;
            self.mark = self.mark.max(last);
            for record in page {
                let Some(mark) = record.mark() else { continue };
                if self.seen.insert((mark, record.id)) {
                    fresh.push(record);
                }
            }
        }
        self.seen = self.seen.split_off(&(self.mark.back(LATE), Uuid::nil()));
        Ok(fresh)
    }
}

/// One event on a line: when, what became of it, which it was, and how long it took.
fn line(output: &Output, record: &Record) -> String {
    let at = record.mark().map_or(SystemTime::UNIX_EPOCH, |mark| mark.at);
    let took = at.duration_since(record.created_at).unwrap_or_default();
    let status = match record.status {
        Status::Delivered => painted_status(record.status),
        // As wide as the other.
        status => format!("{}     ", painted_status(status)),
    };
    let separator = if output.terminal { "  " } else { "\t" };
    let mut parts = vec![
        paint(&time::exact(at), DIM),
        if output.terminal {
            status
        } else {
            record.status.to_string()
        },
        record.id.to_string(),
        visible(&record.topic).into_owned(),
        format!("after {}", brief(took)),
        match record.attempts {
            1 => "1 attempt".to_owned(),
            attempts => format!("{attempts} attempts"),
        },
    ];
    if let Some(reason) = record.dead_reason {
        let error = record
            .last_error
            .as_deref()
            .map(visible)
            .unwrap_or_default();
        let why = match error.is_empty() {
            true => reason.to_string(),
            false => format!("{reason}: {error}"),
        };
        parts.push(paint(&why, BAD));
    }
    parts.join(separator)
}
