//! `posthaste redeliver`: brings dead events back, and sends delivered ones again.

use clap::Args;
use posthaste::Status;

use crate::cli::Place;
use crate::failure::Failure;
use crate::filter;
use crate::sweep::{Deed, Kind, SweepArgs, sweep};

const EXAMPLES: &str = "\
Examples:
  posthaste redeliver 01939a4c-…                        one event
  posthaste redeliver --topic 'shop.order.*' --dry-run  what would be touched
  posthaste redeliver --error timeout --newer-than 2h --yes --why 'warehouse is back'
  posthaste redeliver --status delivered --topic shop.order.paid.v1 --newer-than 1h

Dead events come back as they are, with all their attempts. What was discarded comes back only by
its id or with --reason discarded. A delivered event stays as it is: what is sent is a new event
that names it in the header posthaste-redelivery-of. Each act is written to the audit log.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Redeliver {
    #[command(flatten)]
    sweep: SweepArgs,
    /// Dead events, or delivered ones: those are sent again as new events
    #[arg(
        long,
        default_value = "dead",
        value_parser = filter::status(&[Status::Dead, Status::Delivered]),
        help_heading = "Which events",
    )]
    status: Status,
}

pub(crate) async fn run(place: &Place, args: &Redeliver) -> Result<(), Failure> {
    let deed = Deed {
        kind: Kind::Redeliver,
        status: vec![args.status],
        others: match args.status {
            Status::Delivered => "only delivered events are, with --status delivered",
            _ => "only dead events are, or delivered ones with --status delivered",
        },
    };
    sweep(place, &args.sweep, &deed).await
}
