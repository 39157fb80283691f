//! `posthaste list` and `posthaste dead`: events, one per line.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use posthaste::store::{Filter, Mark, Order, Store};
use posthaste::{Record, Status};

use crate::cli::Place;
use crate::failure::Failure;
use crate::filter::FilterArgs;
use crate::output::{
    DEAD_COLUMNS, EventJson, LEASED_COLUMNS, LIVE_COLUMNS, Output, dead_row, leased_row, live_row,
};
use crate::place;

/// How many events are read at once.
const PAGE: u32 = 5_000;

const LIST_EXAMPLES: &str = "\
Examples:
  posthaste list                                          the backlog and the dead
  posthaste list --status pending --older-than 10m
  posthaste list --status processing                      under way, and which relay has it
  posthaste list --aggregate order/42 --status any        the history of an aggregate
  posthaste list --topic 'shop.*' --limit 0 --json | jq .id";

const DEAD_EXAMPLES: &str = "\
Examples:
  posthaste dead
  posthaste dead --reason rejected --topic 'shop.order.*'
  posthaste dead --error timeout --limit 0 --json | jq -r .id";

#[derive(Debug, Args)]
#[command(after_long_help = LIST_EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only with these [default: all but delivered]
    #[arg(long, value_delimiter = ',', value_parser = any_status(), help_heading = "Which events")]
    status: Vec<Wanted>,
}

#[derive(Debug, Args)]
#[command(after_long_help = DEAD_EXAMPLES)]
pub(crate) struct Dead {
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Debug, Args)]
struct Length {
    /// At most this many, those first that ended or are due first; 0: all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// A status, or any.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Any,
    Only(Status),
}

fn any_status() -> impl TypedValueParser<Value = Wanted> {
    PossibleValuesParser::new(["pending", "processing", "delivered", "dead", "any"])
        .map(|name| Status::parse(&name).map_or(Wanted::Any, Wanted::Only))
}

pub(crate) async fn list(place: &Place, args: &List) -> Result<(), Failure> {
    let any = args
        .status
        .iter()
        .any(|wanted| matches!(wanted, Wanted::Any));
    let only = |wanted: &Wanted| match wanted {
        Wanted::Only(status) => Some(*status),
        Wanted::Any => None,
    };
    let status = match args.status.is_empty() {
        true => vec![Status::Pending, Status::Processing, Status::Dead],
        false if any => Vec::new(),
        false => args.status.iter().filter_map(only).collect(),
    };
    let filter = args.filter.with_status(&status);
    let columns = match status[..] {
        [Status::Processing] => Columns::Leased,
        _ => Columns::Live,
    };
    show(place, filter, args.length.limit, columns).await
}

pub(crate) async fn dead(place: &Place, args: &Dead) -> Result<(), Failure> {
    let filter = args.filter.with_status(&[Status::Dead]);
    show(place, filter, args.length.limit, Columns::Dead).await
}

/// What is told of each event.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Columns {
    Live,
    Leased,
    Dead,
}

impl Columns {
    fn heads(self) -> &'static [&'static str] {
        match self {
            Self::Live => &LIVE_COLUMNS,
            Self::Leased => &LEASED_COLUMNS,
            Self::Dead => &DEAD_COLUMNS,
        }
    }
}

async fn show(place: &Place, filter: Filter, limit: u32, columns: Columns) -> Result<(), Failure> {
    let store = place::open(place).await?;
    let output = Output::new(place.json);
    let relays = match columns {
        // Who may not ask for names sees ids.
        Columns::Leased => store.relays().await.unwrap_or_default(),
        _ => Vec::new(),
    };
    let row = |record: &Record| match columns {
        Columns::Live => live_row(record),
        Columns::Leased => leased_row(record, &relays),
        Columns::Dead => dead_row(record),
    };
    let limit = if limit == 0 {
        u64::MAX
    } else {
        u64::from(limit)
    };
    let mut pages = Pages {
        filter,
        left: limit,
        from: None,
        is_over: false,
    };
    let mut rows = Vec::new();
    while let Some(page) = pages.next(&*store).await? {
        for record in &page {
            match output.json {
                true => output.json(&EventJson::new(store.table(), record))?,
                false => rows.push(row(record)),
            }
        }
    }
    if output.json {
        return Ok(());
    }
    match rows.is_empty() && output.terminal {
        true => output.line("none")?,
        false => output.table(columns.heads(), &rows)?,
    }
    if pages.has_more(&*store).await? {
        eprintln!("… and more: --limit 0 shows all");
    }
    Ok(())
}

/// Events page by page, up to a limit.
struct Pages {
    filter: Filter,
    left: u64,
    /// Where to go on.
    from: Option<Mark>,
    is_over: bool,
}

impl Pages {
    async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<Record>>, Failure> {
        let size = u32::try_from(self.left).map_or(PAGE, |left| left.min(PAGE));
        if size == 0 || self.is_over {
            return Ok(None);
        }
        let page = self.page(store, size).await?;
        self.left -= page.len() as u64;
        Ok(Some(page))
    }

    /// Whether something is left beyond the limit.
    async fn has_more(&mut self, store: &dyn Store) -> Result<bool, Failure> {
        while !self.is_over {
            if !self.page(store, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn page(&mut self, store: &dyn Store, size: u32) -> Result<Vec<Record>, Failure> {
        let page = store
            .browse(&self.filter, Order::OldestFirst, self.from, size)
            .await?;
        self.is_over = page.next.is_none();
        self.from = page.next;
        Ok(page.records)
    }
}
