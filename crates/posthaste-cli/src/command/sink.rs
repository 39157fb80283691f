//! `posthaste sink`: looks at destinations, and delivers nothing.

use clap::{Args, Subcommand};

use super::doctor;
use crate::cli::Place;
use crate::config::{Config, Destination};
use crate::failure::Failure;
use crate::output::Output;
use crate::place;

const EXAMPLES: &str = "\
Examples:
  posthaste sink check
  posthaste sink check orders --json

It connects, looks whether the topic, exchange or stream is there and, where that can be seen, may be written
to, and says what an acknowledgement is worth there. It delivers nothing. Exit code 5: something does not work.";

/// What to do with the sinks.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Look whether destinations could be delivered to, without delivering anything
    Check(Check),
}

/// What was asked for.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Check {
    /// Which sinks [default: all that the configuration names]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) async fn run(act: &Act, place: &Place) -> Result<(), Failure> {
    let Act::Check(Check { names }) = act;
    let output = Output::new(place.json);
    let config = place::load(place)?;
    let mut bad = 0;
    for (name, Destination { sink, .. }) in chosen(&config, names)? {
        bad += doctor::tell_of_sink(&output, name, &**sink).await?;
    }
    doctor::verdict(bad)
}

fn chosen<'c>(
    config: &'c Config,
    names: &'c [String],
) -> Result<Vec<(&'c String, &'c Destination)>, Failure> {
    if names.is_empty() {
        return Ok(config.sinks.iter().collect());
    }
    let find = |name| {
        config.sinks.get_key_value(name).ok_or_else(|| {
            let known: Vec<&str> = config.sinks.keys().map(String::as_str).collect();
            Failure::usage(format!(
                "there is no sink {name:?}: the configuration has {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(find).collect()
}
