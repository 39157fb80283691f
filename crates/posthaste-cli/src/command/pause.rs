//! `posthaste pause` and `posthaste resume`: leave an outbox, or one of its destinations, in peace.

use clap::Args;
use posthaste::store::Target;
use serde::Serialize;

use crate::cli::Place;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;
use crate::place;
use crate::sweep::ActArgs;

const PAUSE_EXAMPLES: &str = "\
Examples:
  posthaste pause --why 'moving the database'
  posthaste pause --sink warehouse --why 'their release, until 15:00'

Relays obey within about a second: they claim nothing more, for anybody or for that sink, and finish
what is under way. No attempt is spent, and events wait until somebody resumes.";

const RESUME_EXAMPLES: &str = "\
Examples:
  posthaste resume --why 'the move is done'
  posthaste resume --sink warehouse";

#[derive(Debug, Args)]
#[command(after_long_help = PAUSE_EXAMPLES)]
pub(crate) struct Pause {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
#[command(after_long_help = RESUME_EXAMPLES)]
pub(crate) struct Resume {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
struct What {
    /// Only what goes to this sink [default: the whole outbox]
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    #[command(flatten)]
    act: ActArgs,
}

/// The answer in JSON.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    table: String,
    sink: Option<&'a str>,
    paused: bool,
    /// Whether it was otherwise before.
    changed: bool,
}

pub(crate) async fn pause(place: &Place, args: &Pause) -> Result<(), Failure> {
    steer(place, &args.what, true).await
}

pub(crate) async fn resume(place: &Place, args: &Resume) -> Result<(), Failure> {
    steer(place, &args.what, false).await
}

async fn steer(place: &Place, what: &What, paused: bool) -> Result<(), Failure> {
    let config = place::load(place)?;
    let target = match &what.sink {
        None => Target::Outbox,
        Some(sink) => Target::Destination(sink.clone()),
    };
    if paused {
        is_known(&config, &target)?;
    }
    let store = place::connect(&place::chosen(&config, place)?).await?;
    let act = what.act.act();
    let changed = match paused {
        true => store.pause(&target, &act).await?,
        false => store.resume(&target, &act).await?,
    };
    // Only now: what is paused can be resumed, also if its sink has left the configuration.
    if !changed {
        is_known(&config, &target)?;
    }
    let output = Output::new(place.json);
    let table = store.table().to_string();
    if output.json {
        return output.json(&Answer {
            table,
            sink: what.sink.as_deref(),
            paused,
            changed,
        });
    }
    let of = match &what.sink {
        Some(sink) => format!("sink {sink} of {table}"),
        None => table,
    };
    output.line(&match (paused, changed) {
        (true, true) => format!("paused {of}"),
        (true, false) => format!("{of} is paused already"),
        (false, true) => format!("resumed {of}"),
        (false, false) => format!("{of} is not paused"),
    })
}

/// A name that no configured sink has is a slip. Without configured sinks nobody can tell.
fn is_known(config: &Config, target: &Target) -> Result<(), Failure> {
    let sinks = &config.sinks;
    let Target::Destination(sink) = target else {
        return Ok(());
    };
    if sinks.is_empty() || sinks.contains_key(sink) {
        return Ok(());
    }
    let names: Vec<&str> = sinks.keys().map(String::as_str).collect();
    Err(Failure::usage(format!(
        "there is no sink {sink:?}: the configuration has {}",
        names.join(", ")
    )))
}
