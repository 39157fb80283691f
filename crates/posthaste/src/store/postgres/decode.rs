//! Rows into events. A row that is no event is set aside; it never costs its neighbours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::event::{DeadReason, Event, Lease, Record, Status};
use crate::header;
use crate::message::TraceContext;
use crate::store::{Audit, Content, Died, Malformed};
use crate::table::Table;

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Microseconds since 2000, as PostgreSQL has them; infinities are its extremes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(pub(super) i64);

const EPOCH_2000: Duration = Duration::from_secs(946_684_800);

impl Timestamp {
    /// The microsecond that a time lies in.
    pub(super) fn of(time: SystemTime) -> Self {
        let origin = UNIX_EPOCH + EPOCH_2000;
        let micros = |distance: Duration| i64::try_from(distance.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(origin) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }

    pub(super) fn system_time(self) -> SystemTime {
        let origin = UNIX_EPOCH + EPOCH_2000;
        let distance = Duration::from_micros(self.0.unsigned_abs());
        let time = match self.0 < 0 {
            true => origin.checked_sub(distance),
            false => origin.checked_add(distance),
        };
        time.unwrap_or(origin)
    }

    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

impl<'a> FromSql<'a> for Timestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}

impl tokio_postgres::types::ToSql for Timestamp {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Failure> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The text of a `jsonb` value, as the server writes it, without reading it.
struct JsonText<'a>(&'a [u8]);

impl<'a> FromSql<'a> for JsonText<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        match raw.split_first() {
            Some((1, text)) => Ok(Self(text)),
            _ => Err("unknown version of jsonb".into()),
        }
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }
}

/// Text for people. A database without an encoding (`SQL_ASCII`) holds any bytes.
pub(super) struct Shown(pub(super) String);

impl<'a> FromSql<'a> for Shown {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(String::from_utf8_lossy(raw).into_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TEXT
    }
}

/// Where the columns of a claimed event are: both claim statements give them in this order.
/// By number, as a look-up by name for each value would cost more than all the rest.
mod column {
    pub(super) const ID: usize = 0;
    pub(super) const SEQUENCE: usize = 1;
    pub(super) const NAMESPACE: usize = 2;
    pub(super) const TOPIC: usize = 3;
    pub(super) const TENANT_ID: usize = 4;
    pub(super) const AGGREGATE_TYPE: usize = 5;
    pub(super) const AGGREGATE_ID: usize = 6;
    pub(super) const EVENT_TYPE: usize = 7;
    pub(super) const ORDERING_KEY: usize = 8;
    pub(super) const DEDUPE_KEY: usize = 9;
    pub(super) const HEADERS: usize = 10;
    pub(super) const CONTENT_TYPE: usize = 11;
    pub(super) const PAYLOAD: usize = 12;
    pub(super) const PAYLOAD_BYTES: usize = 13;
    pub(super) const TRACEPARENT: usize = 14;
    pub(super) const TRACESTATE: usize = 15;
    pub(super) const ATTEMPTS: usize = 16;
    pub(super) const CREATED_AT: usize = 17;
    pub(super) const NEXT_ATTEMPT_AT: usize = 18;
    pub(super) const LEASE_EPOCH: usize = 19;
    pub(super) const DEAD_REASON: usize = 20;
    pub(super) const CLAIMED_AT: usize = 21;
    pub(super) const REDELIVERIES: usize = 22;
    /// Only without order.
    pub(super) const CUT: usize = 23;
}

pub(super) fn lease(row: &Row, owner: Uuid) -> Lease {
    Lease {
        id: row.get(column::ID),
        owner,
        epoch: row.get(column::LEASE_EPOCH),
    }
}

/// An event that the claim found dead.
pub(super) fn died(row: &Row) -> Option<Died> {
    reason(row.get(column::DEAD_REASON)).map(|reason| dead(row, reason))
}

/// A row that is no event, and why.
pub(super) fn malformed(row: &Row, lease: Lease, error: String) -> Malformed {
    Malformed {
        lease,
        died: dead(row, DeadReason::Malformed),
        error,
    }
}

fn dead(row: &Row, reason: DeadReason) -> Died {
    Died {
        id: row.get(column::ID),
        sequence: row.get(column::SEQUENCE),
        topic: row.get::<_, Shown>(column::TOPIC).0,
        tenant_id: row.get(column::TENANT_ID),
        attempts: attempts(row.get(column::ATTEMPTS)),
        reason,
    }
}

/// Where an event stands among the due ones.
pub(super) fn place(row: &Row) -> (Timestamp, i64) {
    (row.get(column::NEXT_ATTEMPT_AT), row.get(column::SEQUENCE))
}

/// Whether the row is an event at all, and not only what the claim looked at.
pub(super) fn is_event(row: &Row) -> bool {
    row.get::<_, Option<Uuid>>(column::ID).is_some()
}

/// Whether a claim without order left out what was too much at once.
pub(super) fn is_cut(row: &Row) -> bool {
    row.get(column::CUT)
}

pub(super) fn reason(text: Option<&str>) -> Option<DeadReason> {
    text.map(|text| DeadReason::parse(text).unwrap_or(DeadReason::Malformed))
}

pub(super) fn event(row: &Row, table: &Arc<Table>, lease: Lease) -> Result<Event, String> {
    let headers: JsonText<'_> = row.get(column::HEADERS);
    let mut headers: BTreeMap<String, String> = match headers.0 {
        b"{}" => BTreeMap::new(),
        text => serde_json::from_slice(text)
            .map_err(|_| "headers is not a JSON object with texts as its values".to_owned())?,
    };
    header::tell_redeliveries(&mut headers, row.get(column::REDELIVERIES));
    let payload = payload(row.get(column::PAYLOAD), || row.get(column::PAYLOAD_BYTES));
    let created_at: Timestamp = row.get(column::CREATED_AT);
    let claimed_at: Timestamp = row.get(column::CLAIMED_AT);
    let trace = match text(row, column::TRACEPARENT)? {
        Some(traceparent) => Some(TraceContext {
            traceparent,
            tracestate: text(row, column::TRACESTATE)?,
        }),
        None => None,
    };
    Ok(Event {
        table: table.clone(),
        id: lease.id,
        sequence: row.get(column::SEQUENCE),
        namespace: text(row, column::NAMESPACE)?,
        topic: text(row, column::TOPIC)?,
        tenant_id: row.get(column::TENANT_ID),
        aggregate_type: text(row, column::AGGREGATE_TYPE)?,
        aggregate_id: text(row, column::AGGREGATE_ID)?,
        event_type: text(row, column::EVENT_TYPE)?,
        ordering_key: text(row, column::ORDERING_KEY)?,
        dedupe_key: text(row, column::DEDUPE_KEY)?,
        headers,
        content_type: text(row, column::CONTENT_TYPE)?,
        payload,
        trace,
        attempts: attempts(row.get(column::ATTEMPTS)),
        created_at: created_at.system_time(),
        age: claimed_at.since(created_at),
        lease,
    })
}

/// Text that travels: unlike what is shown, it must not be changed.
fn text<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, String> {
    row.try_get(column)
        .map_err(|_| format!("{} is not text in UTF-8", row.columns()[column].name()))
}

pub(super) fn shown(row: &Row, column: &str) -> String {
    row.get::<_, Shown>(column).0
}

pub(super) fn maybe_shown(row: &Row, column: &str) -> Option<String> {
    row.get::<_, Option<Shown>>(column).map(|shown| shown.0)
}

pub(super) fn record(row: &Row) -> Record {
    let shown = |column| shown(row, column);
    let maybe_shown = |column| maybe_shown(row, column);
    let time = |column| row.get::<_, Timestamp>(column).system_time();
    let maybe = |column| {
        row.get::<_, Option<Timestamp>>(column)
            .map(Timestamp::system_time)
    };
    Record {
        id: row.get("id"),
        sequence: row.get("sequence"),
        namespace: shown("namespace"),
        topic: shown("topic"),
        tenant_id: row.get("tenant_id"),
        aggregate_type: maybe_shown("aggregate_type"),
        aggregate_id: maybe_shown("aggregate_id"),
        event_type: maybe_shown("event_type"),
        ordering_key: maybe_shown("ordering_key"),
        dedupe_key: maybe_shown("dedupe_key"),
        content_type: shown("content_type"),
        traceparent: maybe_shown("traceparent"),
        status: Status::parse(row.get("status")).expect("the table checks the status"),
        attempts: attempts(row.get("attempts")),
        next_attempt_at: time("next_attempt_at"),
        lease_owner: row.get("lease_owner"),
        lease_until: maybe("lease_until"),
        lease_epoch: row.get("lease_epoch"),
        last_error: maybe_shown("last_error"),
        dead_reason: reason(row.get("dead_reason")),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        delivered_at: maybe("delivered_at"),
        dead_at: maybe("dead_at"),
    }
}

pub(super) fn content(row: &Row) -> Content {
    let headers: JsonText<'_> = row.get("headers");
    let payload = payload(row.get("payload"), || row.get("payload_bytes"));
    let content_type = shown(row, "content_type");
    Content::new(content_type, headers.0, payload)
}

pub(super) fn audit(row: &Row) -> Audit {
    Audit {
        at: row.get::<_, Timestamp>("at").system_time(),
        actor: row.get("actor"),
        act: row.get("act"),
        event_id: row.get("event_id"),
        topic: shown(row, "topic"),
        why: row.get("why"),
    }
}

fn payload<'a>(json: Option<JsonText<'_>>, bytes: impl FnOnce() -> &'a [u8]) -> Bytes {
    match json {
        Some(json) => Bytes::copy_from_slice(json.0),
        None => Bytes::copy_from_slice(bytes()),
    }
}

pub(super) fn attempts(count: i32) -> u32 {
    u32::try_from(count).expect("the table checks that attempts is not negative")
}
