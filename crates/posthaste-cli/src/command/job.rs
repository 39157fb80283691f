//! `posthaste job`: redeliveries at a rate, which outlive the command that began them.

use std::pin::pin;
use std::sync::Arc;

use clap::{Args, Subcommand};
use posthaste::Store;
use posthaste::store::{Act as Deed, Job, JobState, Redelivery};
use posthaste_relay::finish_job;
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Place;
use crate::failure::Failure;
use crate::output::{Cell, Output};
use crate::sweep::{ActArgs, events};
use crate::{place, progress, time};

const EXAMPLES: &str = "\
Examples:
  posthaste job list
  posthaste job resume 0b1f8f62-…            and wait for it; Ctrl-C pauses it again
  posthaste job resume 0b1f8f62-… --detach   relays work on it
  posthaste job cancel 0b1f8f62-… --why 'the wrong topic'

`posthaste redeliver --rate` begins one, as does the dashboard.";

/// How many are listed.
const LISTED: u32 = 50;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// List redeliveries, those that are not over first
    List,
    /// Go on with one that is paused, and wait for it
    Resume(Resume),
    /// Leave one alone until somebody resumes it
    Pause(One),
    /// Give one up; what was redelivered stays so
    Cancel(One),
}

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Resume {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct One {
    /// The job
    #[arg(value_name = "ID")]
    id: Uuid,
    #[command(flatten)]
    act: ActArgs,
}

/// Whether to wait.
#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// Leave the work to relays, and do not wait for it
    #[arg(long)]
    pub(crate) detach: bool,
}

/// What is to be begun, and under which id.
pub(crate) struct Begin {
    pub(crate) id: Uuid,
    pub(crate) redelivery: Redelivery,
}

/// The answer in JSON.
#[derive(Debug, Serialize)]
struct JobJson {
    table: String,
    job: Uuid,
    state: &'static str,
    rate: Option<u32>,
    total: u64,
    redelivered: u64,
    actor: String,
    why: String,
    created_at: String,
    ended_at: Option<String>,
}

impl JobJson {
    fn of(table: String, job: &Job) -> Self {
        Self {
            table,
            job: job.id,
            state: job.state.as_str(),
            rate: job.rate,
            total: job.total,
            redelivered: job.redelivered,
            actor: job.actor.clone(),
            why: job.why.clone(),
            created_at: time::exact(job.created_at),
            ended_at: job.ended_at.map(time::exact),
        }
    }
}

pub(crate) async fn run(act: &Act, place: &Place) -> Result<(), Failure> {
    let store = place::open(place).await?;
    let output = Output::new(place.json);
    match act {
        Act::List => list(&store, &output).await,
        Act::Resume(args) => {
            let job = set(&*store, &args.one, JobState::Running).await?;
            see_to(&store, job, &args.waiting, &args.one.act.act(), &output).await
        }
        Act::Pause(one) => {
            let job = set(&*store, one, JobState::Paused).await?;
            tell(&output, &store, &job, &format!("paused {}", how_far(&job)))
        }
        Act::Cancel(one) => {
            let job = set(&*store, one, JobState::Cancelled).await?;
            tell(
                &output,
                &store,
                &job,
                &format!("cancelled {}", how_far(&job)),
            )
        }
    }
}

/// Begins a job, if there is none of its id, and waits for it unless told not to.
pub(crate) async fn begin(
    store: &Arc<dyn Store>,
    begin: &Begin,
    waiting: &Waiting,
    act: &Deed,
    output: &Output,
) -> Result<(), Failure> {
    let Begin { id, redelivery } = begin;
    let started = store.start_job_as(*id, redelivery, act).await?;
    if !started.job.is(redelivery) {
        return Err(Failure::usage(format!(
            "job {id} is another one, for other events or at another rate: posthaste job list tells them all"
        )));
    }
    if !started.new {
        eprintln!("job {id} is there already: it is not begun again");
    }
    see_to(store, started.job, waiting, act, output).await
}

/// Works on a job until it is over. Ctrl-C pauses it: what it has not done stays to be done.
async fn see_to(
    store: &Arc<dyn Store>,
    job: Job,
    waiting: &Waiting,
    act: &Deed,
    output: &Output,
) -> Result<(), Failure> {
    let id = job.id;
    if waiting.detach {
        let line = format!("job {id} is left to relays: posthaste job list tells how far it is");
        return tell(output, store, &job, &line);
    }
    let interrupted = super::interrupted()?;
    if output.terminal {
        eprintln!("job {id}: Ctrl-C pauses it");
    }
    let bar = progress::job(job.total);
    let work = finish_job(&**store, id, |job| bar.set_position(job.redelivered));
    let ended = {
        let (work, interrupted) = (pin!(work), pin!(interrupted));
        tokio::select! {
            ended = work => Some(ended?),
            () = interrupted => None,
        }
    };
    bar.finish_and_clear();
    let job = match ended {
        Some(job) => job.ok_or_else(gone)?,
        None => store
            .set_job(id, JobState::Paused, act)
            .await?
            .ok_or_else(gone)?,
    };
    let table = store.table();
    if job.state == JobState::Done {
        let line = format!("redelivered {} of {table}", events(job.redelivered));
        return tell(output, store, &job, &line);
    }
    if output.json {
        output.json(&JobJson::of(table.to_string(), &job))?;
    }
    let how_far = how_far(&job);
    Err(Failure::Other(match job.state {
        JobState::Cancelled => format!("cancelled {how_far}"),
        _ => format!(
            "paused {how_far}. Go on with `posthaste job resume {id}`, or give it up with `posthaste job cancel {id}`"
        ),
    }))
}

async fn set(store: &dyn Store, one: &One, state: JobState) -> Result<Job, Failure> {
    let job = store.set_job(one.id, state, &one.act.act()).await?;
    let job = job.ok_or_else(gone)?;
    match job.state == state {
        true => Ok(job),
        false => Err(Failure::Other(format!(
            "the job is {} already, {}",
            job.state,
            how_far(&job)
        ))),
    }
}

fn gone() -> Failure {
    Failure::usage("there is no such job: posthaste job list tells them all")
}

fn how_far(job: &Job) -> String {
    format!("after {} of {}", job.redelivered, events(job.total))
}

fn tell(output: &Output, store: &Arc<dyn Store>, job: &Job, line: &str) -> Result<(), Failure> {
    match output.json {
        true => output.json(&JobJson::of(store.table().to_string(), job)),
        false => output.line(line),
    }
}

const COLUMNS: [&str; 7] = ["JOB", "STATE", "RATE", "REDELIVERED", "TOTAL", "BY", "WHY"];

async fn list(store: &Arc<dyn Store>, output: &Output) -> Result<(), Failure> {
    let jobs = store.jobs(LISTED).await?;
    if output.json {
        let table = store.table().to_string();
        return jobs
            .iter()
            .try_for_each(|job| output.json(&JobJson::of(table.clone(), job)));
    }
    if jobs.is_empty() && output.terminal {
        return output.line("none");
    }
    let rows: Vec<Vec<Cell>> = jobs.iter().map(row).collect();
    output.table(&COLUMNS, &rows)
}

fn row(job: &Job) -> Vec<Cell> {
    vec![
        Cell::text(job.id),
        Cell::text(job.state),
        Cell::maybe(job.rate.map(|rate| format!("{rate}/s"))),
        Cell::text(job.redelivered),
        Cell::text(job.total),
        Cell::text(&job.actor),
        Cell::text(&job.why),
    ]
}
