//! How an event looks: as a row of a table, and as JSON.

use anstyle::Style;
use posthaste::store::RelayInfo;
use posthaste::{Record, Status, Table};
use serde::Serialize;
use uuid::Uuid;

use super::{BAD, BUSY, Cell, DIM, GOOD, PLAIN};
use crate::time;

/// An event in JSON. Scripts depend on the names: see `docs/cli.md`.
#[derive(Debug, Serialize)]
pub(crate) struct EventJson<'r> {
    table: String,
    id: Uuid,
    sequence: i64,
    status: &'static str,
    namespace: &'r str,
    topic: &'r str,
    tenant_id: Option<Uuid>,
    aggregate_type: Option<&'r str>,
    aggregate_id: Option<&'r str>,
    event_type: Option<&'r str>,
    ordering_key: Option<&'r str>,
    dedupe_key: Option<&'r str>,
    content_type: &'r str,
    traceparent: Option<&'r str>,
    attempts: u32,
    next_attempt_at: Option<String>,
    lease_owner: Option<Uuid>,
    lease_until: Option<String>,
    lease_epoch: i64,
    last_error: Option<&'r str>,
    dead_reason: Option<&'static str>,
    created_at: String,
    updated_at: String,
    delivered_at: Option<String>,
    dead_at: Option<String>,
}

impl<'r> EventJson<'r> {
    pub(crate) fn new(table: &Table, record: &'r Record) -> Self {
        let live = matches!(record.status, Status::Pending | Status::Processing);
        Self {
            table: table.to_string(),
            id: record.id,
            sequence: record.sequence,
            status: record.status.as_str(),
            namespace: &record.namespace,
            topic: &record.topic,
            tenant_id: record.tenant_id,
            aggregate_type: record.aggregate_type.as_deref(),
            aggregate_id: record.aggregate_id.as_deref(),
            event_type: record.event_type.as_deref(),
            ordering_key: record.ordering_key.as_deref(),
            dedupe_key: record.dedupe_key.as_deref(),
            content_type: &record.content_type,
            traceparent: record.traceparent.as_deref(),
            attempts: record.attempts,
            next_attempt_at: live.then(|| time::exact(record.next_attempt_at)),
            lease_owner: record.lease_owner,
            lease_until: record.lease_until.map(time::exact),
            lease_epoch: record.lease_epoch,
            last_error: record.last_error.as_deref(),
            dead_reason: record.dead_reason.map(|reason| reason.as_str()),
            created_at: time::exact(record.created_at),
            updated_at: time::exact(record.updated_at),
            delivered_at: record.delivered_at.map(time::exact),
            dead_at: record.dead_at.map(time::exact),
        }
    }
}

pub(crate) const LIVE_COLUMNS: [&str; 8] = [
    "SEQUENCE",
    "ID",
    "STATUS",
    "TOPIC",
    "ATTEMPTS",
    "CREATED",
    "NEXT ATTEMPT",
    "ERROR",
];

/// An event among others.
pub(crate) fn live_row(record: &Record) -> Vec<Cell> {
    let waits = record.status == Status::Pending;
    vec![
        Cell::text(record.sequence),
        Cell::text(record.id),
        Cell::Text(record.status.to_string(), style(record.status)),
        Cell::text(&record.topic),
        Cell::text(record.attempts),
        Cell::Time(Some(record.created_at)),
        Cell::Time(waits.then_some(record.next_attempt_at)),
        Cell::maybe(record.last_error.as_ref()),
    ]
}

pub(crate) const LEASED_COLUMNS: [&str; 8] = [
    "SEQUENCE",
    "ID",
    "TOPIC",
    "ATTEMPTS",
    "CREATED",
    "LEASED UNTIL",
    "RELAY",
    "ERROR",
];

/// An event among others that are being delivered.
pub(crate) fn leased_row(record: &Record, relays: &[RelayInfo]) -> Vec<Cell> {
    vec![
        Cell::text(record.sequence),
        Cell::text(record.id),
        Cell::text(&record.topic),
        Cell::text(record.attempts),
        Cell::Time(Some(record.created_at)),
        Cell::Time(record.lease_until),
        Cell::maybe(holder(record, relays)),
        Cell::maybe(record.last_error.as_ref()),
    ]
}

/// Who has leased an event: machine and process, or the id of one that is not known.
pub(crate) fn holder(record: &Record, relays: &[RelayInfo]) -> Option<String> {
    let owner = record.lease_owner?;
    let relay = relays.iter().find(|relay| relay.owner == owner);
    let name = relay.and_then(|relay| relay.name.clone());
    Some(name.unwrap_or_else(|| owner.to_string()))
}

pub(crate) const DEAD_COLUMNS: [&str; 7] = [
    "SEQUENCE", "ID", "TOPIC", "REASON", "ATTEMPTS", "DIED", "ERROR",
];

/// A dead event among others.
pub(crate) fn dead_row(record: &Record) -> Vec<Cell> {
    vec![
        Cell::text(record.sequence),
        Cell::text(record.id),
        Cell::text(&record.topic),
        Cell::Text(
            record
                .dead_reason
                .map(|reason| reason.to_string())
                .unwrap_or_default(),
            BAD,
        ),
        Cell::text(record.attempts),
        Cell::Time(record.dead_at),
        Cell::maybe(record.last_error.as_ref()),
    ]
}

/// The status, in its colour.
pub(crate) fn painted_status(status: Status) -> String {
    super::paint(status.as_str(), style(status))
}

fn style(status: Status) -> Style {
    match status {
        Status::Pending => PLAIN,
        Status::Processing => BUSY,
        Status::Delivered => GOOD,
        Status::Dead => BAD,
        _ => DIM,
    }
}
