//! What is wrong, by its kind: dead events with the same error, and ordering keys that wait.

use posthaste::store::{BlockedKey, Group};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::desk::ask;
use super::super::fault::{Answer, Fault};
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
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 100, 1..=500)?;
    let filter = select::filter(params.rest())?;
    let groups = ask(served.store()?.groups(&filter, limit)).await?;
    let groups: Vec<GroupJson> = groups.into_iter().map(GroupJson::of).collect();
    Ok(Answer(json!({ "groups": groups })))
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
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 100, 1..=500)?;
    let keys = ask(served.store()?.blocked(limit)).await?;
    let keys: Vec<BlockedJson> = keys.into_iter().map(BlockedJson::of).collect();
    Ok(Answer(json!({ "keys": keys })))
}
