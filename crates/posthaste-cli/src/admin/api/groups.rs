//! What is wrong, by its kind: dead events with the same error, and ordering keys that wait.

use std::sync::Arc;

use axum::extract::State;
use posthaste::store::{BLOCKED_LOOK, BlockedKey, GROUP_LOOK, Group};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::desk::{Desk, ask};
use super::super::fault::{Answer, Fault};
use super::super::live::OutboxNow;
use super::{At, Params, select};
use crate::time;

/// Dead events with the same kind of error.
#[derive(Serialize)]
struct GroupJson {
    fingerprint: String,
    reason: &'static str,
    count: u64,
    error: Option<String>,
    topics: Vec<String>,
    oldest: String,
    newest: String,
    sample: Uuid,
}

impl GroupJson {
    fn of(group: Group) -> Self {
        Self {
            fingerprint: group.fingerprint,
            reason: group.reason.as_str(),
            count: group.count,
            error: group.error,
            topics: group.topics,
            oldest: time::exact(group.oldest),
            newest: time::exact(group.newest),
            sample: group.sample,
        }
    }
}

pub(in super::super) async fn dead(
    State(desk): State<Arc<Desk>>,
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 100, 1..=500)?;
    let filter = select::filter(params.rest())?;
    let groups = ask(served.store()?.groups(&filter, limit)).await?;
    let groups: Vec<GroupJson> = groups.into_iter().map(GroupJson::of).collect();
    let more = |now: &OutboxNow| now.dead > u64::from(GROUP_LOOK);
    let at_least = desk.live.outbox(&served.name).as_ref().is_some_and(more);
    Ok(Answer(json!({ "groups": groups, "at_least": at_least })))
}

/// A key whose first event keeps others waiting.
#[derive(Serialize)]
struct BlockedJson {
    key: String,
    head: Uuid,
    topic: String,
    status: &'static str,
    reason: Option<&'static str>,
    attempts: u32,
    error: Option<String>,
    since: String,
    next_attempt_at: Option<String>,
    waiting: u64,
}

impl BlockedJson {
    fn of(blocked: BlockedKey) -> Self {
        Self {
            key: blocked.key,
            head: blocked.head,
            topic: blocked.topic,
            status: blocked.status.as_str(),
            reason: blocked.reason.map(|reason| reason.as_str()),
            attempts: blocked.attempts,
            error: blocked.error,
            since: time::exact(blocked.since),
            next_attempt_at: blocked.next_attempt_at.map(time::exact),
            waiting: blocked.waiting,
        }
    }
}

pub(in super::super) async fn blocked(
    State(desk): State<Arc<Desk>>,
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 100, 1..=500)?;
    let keys = ask(served.store()?.blocked(limit)).await?;
    let keys: Vec<BlockedJson> = keys.into_iter().map(BlockedJson::of).collect();
    let more = |now: &OutboxNow| now.dead.max(now.pending) > u64::from(BLOCKED_LOOK);
    let at_least = desk.live.outbox(&served.name).as_ref().is_some_and(more);
    Ok(Answer(json!({ "keys": keys, "at_least": at_least })))
}
