//! Pause and resume: a whole outbox, or one of its destinations.

use posthaste::store::{Pause, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::desk::{Served, act, ask};
use super::super::fault::{Answer, Fault};
use super::{At, By, Said};
use crate::time;

/// That something is paused.
#[derive(Serialize)]
pub(super) struct PauseJson {
    /// `None`: the whole outbox.
    destination: Option<String>,
    at: String,
    actor: String,
    why: String,
}

impl PauseJson {
    pub(super) fn of(pause: &Pause) -> Self {
        Self {
            destination: match &pause.target {
                Target::Outbox => None,
                Target::Destination(name) => Some(name.clone()),
            },
            at: time::exact(pause.at),
            actor: pause.actor.clone(),
            why: pause.why.clone(),
        }
    }
}

/// What to pause or to resume, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct TargetSaid {
    destination: Option<String>,
    why: String,
}

impl TargetSaid {
    fn target(&self, served: &Served) -> Result<Target, Fault> {
        let Some(name) = &self.destination else {
            return Ok(Target::Outbox);
        };
        match served.routes.iter().any(|route| route.sink == *name) {
            true => Ok(Target::Destination(name.clone())),
            false => Err(Fault::new(
                "admin.no_destination",
                "the outbox has no such destination",
            )),
        }
    }
}

pub(in super::super) async fn list(At(served): At) -> Result<Answer<Value>, Fault> {
    let pauses = ask(served.store()?.pauses()).await?;
    let pauses: Vec<PauseJson> = pauses.iter().map(PauseJson::of).collect();
    Ok(Answer(json!({ "pauses": pauses })))
}

pub(in super::super) async fn pause(
    At(served): At,
    by: By,
    Said(said): Said<TargetSaid>,
) -> Result<Answer<Value>, Fault> {
    let (target, deed) = (said.target(&served)?, by.act(&said.why)?);
    let changed = act(served.store()?.pause(&target, &deed)).await?;
    Ok(Answer(json!({ "changed": changed })))
}

pub(in super::super) async fn resume(
    At(served): At,
    by: By,
    Said(said): Said<TargetSaid>,
) -> Result<Answer<Value>, Fault> {
    let (target, deed) = (said.target(&served)?, by.act(&said.why)?);
    let changed = act(served.store()?.resume(&target, &deed)).await?;
    Ok(Answer(json!({ "changed": changed })))
}
