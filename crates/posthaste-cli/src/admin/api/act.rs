//! Redeliver and discard: seen before it is done, told why, and never everything by accident.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use posthaste::Status;
use posthaste::store::{Filter, Redelivery, StartedJob};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::super::desk::{Served, act};
use super::super::fault::{Answer, Fault, json};
use super::events::event;
use super::jobs::JobJson;
use super::{At, By, Said, select};
use crate::sweep::Plan;

/// As many can be named one by one.
const NAMED: usize = 1000;
const SAMPLE: usize = 10;

/// Which events to redeliver: named one by one, or by a filter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Which {
    #[serde(default)]
    ids: Vec<Uuid>,
    filter: Option<BTreeMap<String, String>>,
    /// That nothing but the status narrows it down is meant so.
    #[serde(default)]
    all: bool,
}

/// What to redeliver, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RedeliverSaid {
    #[serde(default)]
    ids: Vec<Uuid>,
    filter: Option<BTreeMap<String, String>>,
    #[serde(default)]
    all: bool,
    why: String,
    /// At most this many a second, as a job.
    rate: Option<u32>,
    /// The id of the job: who asks again with the same one gets the same job.
    job: Option<Uuid>,
}

/// What to discard, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct DiscardSaid {
    ids: Vec<Uuid>,
    why: String,
}

/// What a redelivery would touch.
#[derive(Serialize)]
pub(in super::super) struct Preview {
    found: u64,
    /// Whether there may be more: they could not be counted in time.
    at_least: bool,
    sample: Vec<Value>,
    /// Where the events of the sample would go.
    destinations: BTreeMap<String, u64>,
    /// How many of those that were named cannot be redelivered.
    not_eligible: u64,
}

/// A job that was begun, now or before.
#[derive(Serialize)]
struct Begun {
    /// Whether it was begun by this very request.
    new: bool,
    #[serde(flatten)]
    job: JobJson,
}

/// What was done at once.
#[derive(Serialize)]
struct Done {
    ids: Vec<Uuid>,
}

impl Which {
    /// The filter, once it is clear that it is meant.
    fn filter(self) -> Result<Filter, Fault> {
        let filter = match (self.ids, self.filter) {
            (ids, None) if !ids.is_empty() => Filter {
                ids: few(ids)?,
                status: vec![Status::Dead, Status::Delivered],
                ..Filter::default()
            },
            (ids, Some(words)) if ids.is_empty() => {
                let mut filter = select::filter(words)?;
                if filter.status.is_empty() {
                    filter.status = vec![Status::Dead];
                }
                filter
            }
            _ => return Err(Fault::new("admin.body", "give either ids or a filter")),
        };
        let apart = [Status::Dead, Status::Delivered];
        if filter.status.iter().any(|status| !apart.contains(status)) {
            let message = "only dead and delivered events can be redelivered";
            return Err(Fault::new("admin.body", message));
        }
        if filter.is_everything() && !self.all {
            let message = "this is about every event there is";
            return Err(Fault::new("admin.unfiltered", message));
        }
        Ok(filter)
    }
}

fn few(ids: Vec<Uuid>) -> Result<Vec<Uuid>, Fault> {
    match (1..=NAMED).contains(&ids.len()) {
        true => Ok(ids),
        false => {
            let message = format!("name 1 to {NAMED} events, or use a filter");
            Err(Fault::new("admin.body", message))
        }
    }
}

pub(in super::super) async fn preview(
    At(served): At,
    Said(which): Said<Which>,
) -> Result<Answer<Preview>, Fault> {
    let named = which.ids.len() as u64;
    let filter = which.filter()?;
    let store = served.store()?;
    let plan = Plan::of(&*store, filter, SAMPLE).await?;
    let mut destinations = BTreeMap::new();
    for record in &plan.sample {
        let destination = served.destination_of(record).unwrap_or("nowhere");
        *destinations.entry(destination.to_owned()).or_insert(0) += 1;
    }
    Ok(Answer(Preview {
        found: plan.found,
        at_least: plan.at_least,
        sample: plan
            .sample
            .iter()
            .map(|it| event(&served.table, it))
            .collect(),
        destinations,
        not_eligible: named.saturating_sub(plan.found),
    }))
}

/// Those that are named are redelivered at once, unless a job is named as well; those of a filter, as a job.
pub(in super::super) async fn redeliver(
    At(served): At,
    by: By,
    Said(said): Said<RedeliverSaid>,
) -> Result<Response, Fault> {
    let deed = by.act(&said.why)?;
    let which = Which {
        ids: said.ids,
        filter: said.filter,
        all: said.all,
    };
    if said.rate == Some(0) {
        return Err(Fault::new("admin.body", "rate is at least 1"));
    }
    let store = served.store()?;
    if !which.ids.is_empty() && said.job.is_none() {
        let ids = which.filter()?.ids;
        let ids = act(store.redeliver(&ids, &deed)).await?;
        note_redelivered(&served, ids.len());
        return Ok(json(StatusCode::OK, &Done { ids }));
    }
    let redelivery = Redelivery {
        filter: which.filter()?,
        rate: said.rate,
    };
    let id = said.job.unwrap_or_else(Uuid::new_v4);
    let StartedJob { job, new, .. } = act(store.start_job_as(id, &redelivery, &deed)).await?;
    if !job.is(&redelivery) {
        let message = "there is a job of this id, for other events or at another rate";
        return Err(Fault::new("admin.conflict", message));
    }
    let job = JobJson::of(job);
    Ok(json(StatusCode::ACCEPTED, &Begun { new, job }))
}

fn note_redelivered(served: &Served, count: usize) {
    let table = served.table.to_string();
    metrics::counter!("outbox_redelivered_total", "table" => table).increment(count as u64);
}

pub(in super::super) async fn discard(
    At(served): At,
    by: By,
    Said(said): Said<DiscardSaid>,
) -> Result<Response, Fault> {
    let deed = by.act(&said.why)?;
    let ids = few(said.ids)?;
    let store = served.store()?;
    let ids = act(store.discard(&ids, &deed)).await?;
    Ok(json(StatusCode::OK, &Done { ids }))
}
