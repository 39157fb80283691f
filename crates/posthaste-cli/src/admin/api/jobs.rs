//! Redeliveries under way: how far they are, and to pause, resume or cancel them.

use std::collections::BTreeMap;

use posthaste::Status;
use posthaste::store::{Filter, Job, JobState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::desk::{act, ask};
use super::super::fault::{Answer, Fault};
use super::{At, By, Id, Params, Said};
use crate::config::measure::show_duration;
use crate::time;

/// A job.
#[derive(Serialize)]
pub(super) struct JobJson {
    id: Uuid,
    state: &'static str,
    total: u64,
    redelivered: u64,
    rate: Option<u32>,
    filter: BTreeMap<&'static str, String>,
    actor: String,
    why: String,
    created_at: String,
    updated_at: String,
    ended_at: Option<String>,
}

impl JobJson {
    pub(super) fn of(job: Job) -> Self {
        Self {
            id: job.id,
            state: job.state.as_str(),
            total: job.total,
            redelivered: job.redelivered,
            rate: job.rate,
            filter: words(&job.filter),
            actor: job.actor,
            why: job.why,
            created_at: time::exact(job.created_at),
            updated_at: time::exact(job.updated_at),
            ended_at: job.ended_at.map(time::exact),
        }
    }
}

/// A filter in the words that it is asked for with.
fn words(filter: &Filter) -> BTreeMap<&'static str, String> {
    let listed = |parts: Vec<String>| Some(parts.join(",")).filter(|text| !text.is_empty());
    let status = filter.status.iter().map(Status::to_string).collect();
    let ids = filter.ids.iter().map(Uuid::to_string).collect();
    let given = [
        ("status", listed(status)),
        ("id", listed(ids)),
        (
            "topic",
            filter.topic.as_ref().map(|it| it.as_str().to_owned()),
        ),
        ("namespace", filter.scope.namespace.clone()),
        ("tenant", filter.scope.tenant_id.map(|it| it.to_string())),
        ("event_type", filter.event_type.clone()),
        ("aggregate_type", filter.aggregate_type.clone()),
        ("aggregate_id", filter.aggregate_id.clone()),
        ("error", filter.error.clone()),
        ("fingerprint", filter.fingerprint.clone()),
        ("reason", filter.reason.map(|it| it.to_string())),
        ("older_than", filter.older_than.map(show_duration)),
        ("newer_than", filter.newer_than.map(show_duration)),
    ];
    let given = given.into_iter();
    given
        .filter_map(|(name, text)| Some((name, text?)))
        .collect()
}

fn gone() -> Fault {
    Fault::new("admin.no_job", "there is no such job")
}

pub(in super::super) async fn list(
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 50, 1..=500)?;
    let jobs = ask(served.store()?.jobs(limit)).await?;
    let jobs: Vec<JobJson> = jobs.into_iter().map(JobJson::of).collect();
    Ok(Answer(json!({ "jobs": jobs })))
}

pub(in super::super) async fn show(At(served): At, Id(id): Id) -> Result<Answer<Value>, Fault> {
    let job = ask(served.store()?.job(id)).await?.ok_or_else(gone)?;
    Ok(Answer(json!(JobJson::of(job))))
}

/// What is to become of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct JobSaid {
    state: Wanted,
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Running,
    Paused,
    Cancelled,
}

pub(in super::super) async fn set(
    At(served): At,
    Id(id): Id,
    by: By,
    Said(said): Said<JobSaid>,
) -> Result<Answer<Value>, Fault> {
    let deed = by.act(&said.why)?;
    let state = match said.state {
        Wanted::Running => JobState::Running,
        Wanted::Paused => JobState::Paused,
        Wanted::Cancelled => JobState::Cancelled,
    };
    let job = act(served.store()?.set_job(id, state, &deed)).await?;
    let job = job.ok_or_else(gone)?;
    match job.state == state {
        true => Ok(Answer(json!(JobJson::of(job)))),
        false => {
            let message = format!("the job is {}", job.state.as_str());
            Err(Fault::new("admin.conflict", message))
        }
    }
}
