//! `posthaste discard`: gives events up for good.

use clap::Args;
use posthaste::Status;

use crate::cli::Place;
use crate::failure::Failure;
use crate::filter;
use crate::sweep::{Deed, Kind, SweepArgs, sweep};

const EXAMPLES: &str = "\
Examples:
  posthaste discard 01939a4c-… --why 'sent by hand'
  posthaste discard --status dead --reason malformed --dry-run
  posthaste discard --topic 'shop.cart.*' --older-than 30d --yes

A discarded event is dead and is not delivered; with order by key, those after it go on. It stays
until the cleaner removes it, and can be brought back by its id. What a relay is delivering right
now is left alone. Each act is written to the audit log.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Discard {
    #[command(flatten)]
    sweep: SweepArgs,
    /// Only pending, or only dead events [default: both]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = filter::status(&[Status::Pending, Status::Dead]),
        help_heading = "Which events",
    )]
    status: Vec<Status>,
}

pub(crate) async fn run(place: &Place, args: &Discard) -> Result<(), Failure> {
    let deed = Deed {
        kind: Kind::Discard,
        status: match args.status.is_empty() {
            true => vec![Status::Pending, Status::Dead],
            false => args.status.clone(),
        },
        others: "only pending and dead events are, each once",
    };
    sweep(place, &args.sweep, &deed).await
}
