//! `posthaste redeliver`: brings dead events back, and sends delivered ones again.

use clap::Args;
use posthaste::Status;
use posthaste::store::Redelivery;
use uuid::Uuid;

use super::job::{self, Begin, Waiting};
use crate::cli::Place;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output::Output;
use crate::sweep::{Deed, Kind, Plan, SweepArgs, sweep};
use crate::{filter, place};

const EXAMPLES: &str = "\
Examples:
  posthaste redeliver 01939a4c-…                        one event
  posthaste redeliver --topic 'shop.order.*' --dry-run  what would be touched
  posthaste redeliver --error timeout --newer-than 2h --yes --why 'warehouse is back'
  posthaste redeliver --status delivered --topic shop.order.paid.v1 --newer-than 1h
  posthaste redeliver --topic 'shop.*' --rate 50        at most 50 a second; Ctrl-C pauses it
  posthaste redeliver --all --job 0b1f8f62-… --yes      can be repeated: it is begun once

Dead events come back as they are, with all their attempts. What was discarded comes back only by
its id or with --reason discarded. A delivered event stays as it is: what is sent is a new event
that names it in the header posthaste-redelivery-of. Each act is written to the audit log.

With --rate, --detach or --job it becomes a job, which relays work on, too. It outlives this
command, and is paused, resumed and cancelled with `posthaste job`.";

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
    /// At most this many a second
    #[arg(long, value_name = "N", conflicts_with = "limit", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    #[command(flatten)]
    waiting: Waiting,
    /// The id of the job, a UUID of yours: asked again with the same one, nothing is begun twice
    #[arg(long, value_name = "ID", conflicts_with = "limit")]
    job: Option<Uuid>,
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
    if args.rate.is_none() && !args.waiting.detach && args.job.is_none() {
        return sweep(place, &args.sweep, &deed).await;
    }
    if args.sweep.limit.is_some() {
        return Err(Failure::usage(
            "--detach does not go with --limit: a job redelivers all that it finds",
        ));
    }
    let store = place::open(place).await?;
    let output = Output::new(place.json);
    let plan = Plan::new(&*store, &args.sweep, &deed).await?;
    if args.sweep.dry_run {
        return plan.tell(&output, &store, &deed);
    }
    let begun = match args.job {
        Some(id) => store.job(id).await?.is_some(),
        None => false,
    };
    if !begun {
        if plan.found == 0 && !plan.at_least {
            // Nothing to begin a job for: told as without one.
            return sweep(place, &args.sweep, &deed).await;
        }
        if !args.sweep.yes {
            plan.show()?;
        }
        let pace = args.rate.map(|rate| format!(", {rate} a second"));
        let question = format!(
            "Redeliver {} of {}{}?",
            plan.events(),
            store.table(),
            pace.unwrap_or_default()
        );
        confirm(&question, args.sweep.yes)?;
    }
    let begin = Begin {
        id: args.job.unwrap_or_else(Uuid::new_v4),
        redelivery: Redelivery {
            filter: plan.filter,
            rate: args.rate,
        },
    };
    job::begin(
        &store,
        &begin,
        &args.waiting,
        &args.sweep.act.act(),
        &output,
    )
    .await
}
