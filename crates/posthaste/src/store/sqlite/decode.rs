//! Rows into events. A row that is no event is set aside; it never costs its neighbours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};
use uuid::Uuid;

use crate::event::{DeadReason, Event, Lease, Record, Status};
use crate::header;
use crate::message::TraceContext;
use crate::store::cursors::Cursor;
use crate::store::letter::Death;
use crate::store::{Attempt, Audit, Content, Died, Ending};
use crate::table::Table;

/// The time in microseconds since 1970. It is the clock that SQLite itself asks; only that
/// SQLite's functions tell no more than milliseconds.
pub(super) fn now() -> i64 {
    micros(SystemTime::now())
}

/// The microsecond that a time lies in.
pub(super) fn micros(time: SystemTime) -> i64 {
    let micros = |distance: Duration| i64::try_from(distance.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    }
}

/// A length in microseconds, at most what can be added to any time that makes sense.
pub(super) fn length(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 4)
}

pub(super) fn system_time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    let time = match micros < 0 {
        true => UNIX_EPOCH.checked_sub(distance),
        false => UNIX_EPOCH.checked_add(distance),
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// One row of `read.sql`: an event that is not leased yet.
pub(super) struct Read {
    pub(super) place: Cursor,
    pub(super) id: Uuid,
    /// The id that it has cannot be named. This is the one to give it.
    pub(super) renamed: bool,
    pub(super) topic: String,
    /// If it can be read.
    pub(super) tenant_id: Option<Uuid>,
    pub(super) key: Option<String>,
    /// With no attempt and no lease yet; or why it is no event.
    pub(super) event: Result<Box<Event>, String>,
}

/// One row of `take.sql`: what became of it.
pub(super) struct Taken {
    pub(super) sequence: i64,
    pub(super) attempts: u32,
    pub(super) epoch: i64,
    pub(super) died: Option<DeadReason>,
}

/// Where the columns of `read.sql` are. By number, as there are many rows.
mod column {
    pub(super) const SEQUENCE: usize = 0;
    pub(super) const ID: usize = 1;
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
    pub(super) const CREATED_AT: usize = 16;
    pub(super) const NEXT_ATTEMPT_AT: usize = 17;
    pub(super) const REDELIVERIES: usize = 18;
}

pub(super) fn read(row: &Row<'_>, table: &Arc<Table>, now: i64) -> rusqlite::Result<Read> {
    let named = maybe_id(row, column::ID)?;
    let id = named.unwrap_or_else(Uuid::new_v4);
    Ok(Read {
        place: Cursor(
            row.get(column::NEXT_ATTEMPT_AT)?,
            row.get(column::SEQUENCE)?,
        ),
        id,
        renamed: named.is_none(),
        topic: shown(row, column::TOPIC)?,
        tenant_id: maybe_id(row, column::TENANT_ID).unwrap_or(None),
        key: maybe_shown(row, column::ORDERING_KEY)?,
        event: match named {
            Some(_) => event(row, table, id, now).map(Box::new),
            None => Err("its id was no uuid in lower case: it has a new one".to_owned()),
        },
    })
}

pub(super) fn taken(row: &Row<'_>) -> rusqlite::Result<Taken> {
    Ok(Taken {
        sequence: row.get(0)?,
        attempts: attempts(row, 1)?,
        epoch: row.get(2)?,
        died: reason(maybe_shown(row, 3)?),
    })
}

/// One row of `park.sql`.
pub(super) fn parked(row: &Row<'_>) -> rusqlite::Result<Died> {
    Ok(Died {
        id: id(row, 0)?,
        sequence: row.get(1)?,
        topic: shown(row, 2)?,
        tenant_id: maybe_id(row, 3)?,
        attempts: row.get(4)?,
        reason: DeadReason::Parked,
    })
}

fn event(row: &Row<'_>, table: &Arc<Table>, id: Uuid, now: i64) -> Result<Event, String> {
    let mut headers: BTreeMap<String, String> =
        match bytes(row, column::HEADERS).map_err(unreadable)? {
            b"{}" => BTreeMap::new(),
            text => serde_json::from_slice(text)
                .map_err(|_| "headers is not a JSON object with texts as its values".to_owned())?,
        };
    let redeliveries = row.get(column::REDELIVERIES).map_err(unreadable)?;
    header::tell_redeliveries(&mut headers, redeliveries);
    readable(row, table, id, headers, now).map_err(unreadable)
}

/// Text need not be UTF-8 in SQLite.
fn unreadable(error: rusqlite::Error) -> String {
    format!("a column cannot be read: {error}")
}

fn readable(
    row: &Row<'_>,
    table: &Arc<Table>,
    id: Uuid,
    headers: BTreeMap<String, String>,
    now: i64,
) -> rusqlite::Result<Event> {
    let created_at: i64 = row.get(column::CREATED_AT)?;
    let age = now.saturating_sub(created_at).max(0).unsigned_abs();
    Ok(Event {
        table: table.clone(),
        id,
        sequence: row.get(column::SEQUENCE)?,
        namespace: row.get(column::NAMESPACE)?,
        topic: row.get(column::TOPIC)?,
        tenant_id: tenant(row, column::TENANT_ID)?,
        aggregate_type: row.get(column::AGGREGATE_TYPE)?,
        aggregate_id: row.get(column::AGGREGATE_ID)?,
        event_type: row.get(column::EVENT_TYPE)?,
        ordering_key: row.get(column::ORDERING_KEY)?,
        dedupe_key: row.get(column::DEDUPE_KEY)?,
        headers,
        content_type: row.get(column::CONTENT_TYPE)?,
        payload: payload(row, column::PAYLOAD, column::PAYLOAD_BYTES)?,
        trace: match row.get(column::TRACEPARENT)? {
            Some(traceparent) => Some(TraceContext {
                traceparent,
                tracestate: row.get(column::TRACESTATE)?,
            }),
            None => None,
        },
        attempts: 0,
        created_at: system_time(created_at),
        age: Duration::from_micros(age),
        lease: Lease {
            id,
            owner: Uuid::nil(),
            epoch: 0,
        },
    })
}

/// One row of the statements that list, which have the same columns.
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let time = |column| Ok::<_, rusqlite::Error>(system_time(row.get(column)?));
    let maybe =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(system_time));
    Ok(Record {
        id: id(row, 0)?,
        sequence: row.get(1)?,
        namespace: shown(row, 2)?,
        topic: shown(row, 3)?,
        tenant_id: maybe_id(row, 4)?,
        aggregate_type: maybe_shown(row, 5)?,
        aggregate_id: maybe_shown(row, 6)?,
        event_type: maybe_shown(row, 7)?,
        ordering_key: maybe_shown(row, 8)?,
        dedupe_key: maybe_shown(row, 9)?,
        content_type: shown(row, 10)?,
        traceparent: maybe_shown(row, 11)?,
        // Statements go by the other columns.
        status: match Status::parse(&shown(row, 12)?) {
            Some(status) => status,
            None if maybe(22)?.is_some() => Status::Delivered,
            None if maybe(23)?.is_some() => Status::Dead,
            None => Status::Pending,
        },
        attempts: attempts(row, 13)?,
        next_attempt_at: time(14)?,
        lease_owner: maybe_id(row, 15)?,
        lease_until: maybe(16)?,
        lease_epoch: row.get(17)?,
        last_error: maybe_shown(row, 18)?,
        dead_reason: reason(maybe_shown(row, 19)?),
        created_at: time(20)?,
        updated_at: time(21)?,
        delivered_at: maybe(22)?,
        dead_at: maybe(23)?,
    })
}

/// One row of `content.sql`.
pub(super) fn content(row: &Row<'_>) -> rusqlite::Result<Content> {
    let payload = payload(row, 2, 3)?;
    Ok(Content::new(shown(row, 0)?, bytes(row, 1)?, payload))
}

/// One row of `dead.sql`: the headers and the tenant of its letter, if it gets one. Its attempts: the latest first.
pub(super) fn letter(
    row: &Row<'_>,
    history: &[Attempt],
) -> rusqlite::Result<Option<(String, Option<String>)>> {
    let (topic, error) = (shown(row, 2)?, maybe_shown(row, 4)?);
    let death = Death {
        id: id(row, 0)?,
        topic: &topic,
        reason: reason(maybe_shown(row, 3)?).unwrap_or(DeadReason::Malformed),
        error: error.as_deref(),
        attempts: attempts(row, 5)?,
        created_at: system_time(row.get(6)?),
        history: history.iter().collect(),
    };
    let tenant = maybe_id(row, 7)?.map(|tenant| tenant.to_string());
    let headers = death.letter(bytes(row, 1)?);
    Ok(headers.map(|headers| (headers, tenant)))
}

/// One row of `history.sql`.
pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let took: Option<f64> = row.get(4)?;
    Ok(Attempt {
        number: attempts(row, 0)?,
        epoch: row.get(1)?,
        claimed_at: Some(system_time(row.get(2)?)),
        ended_at: Some(system_time(row.get(3)?)),
        took: took.and_then(|took| Duration::try_from_secs_f64(took).ok()),
        ending: Ending::parse(&shown(row, 5)?).unwrap_or(Ending::Failed),
        error: maybe_shown(row, 6)?,
        relay: maybe_id(row, 7)?,
        relay_name: maybe_shown(row, 8)?,
        destination: maybe_shown(row, 9)?,
    })
}

/// One row of `audit.sql`.
pub(super) fn audit(row: &Row<'_>) -> rusqlite::Result<Audit> {
    Ok(Audit {
        at: system_time(row.get(0)?),
        actor: shown(row, 1)?,
        act: shown(row, 2)?,
        event_id: id(row, 3)?,
        topic: shown(row, 4)?,
        why: shown(row, 5)?,
    })
}

pub(super) fn reason(text: Option<String>) -> Option<DeadReason> {
    text.map(|text| DeadReason::parse(&text).unwrap_or(DeadReason::Malformed))
}

fn payload(row: &Row<'_>, json: usize, other: usize) -> rusqlite::Result<Bytes> {
    let column = match row.get_ref(json)? {
        ValueRef::Null => other,
        _ => json,
    };
    Ok(Bytes::copy_from_slice(bytes(row, column)?))
}

/// The bytes of a text or a blob.
fn bytes<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    let value = row.get_ref(column)?;
    Ok(value.as_bytes_or_null()?.unwrap_or_default())
}

/// A text, also if it is not UTF-8, or no text.
pub(super) fn shown(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        _ => String::from_utf8_lossy(bytes(row, column)?).into_owned(),
    })
}

pub(super) fn maybe_shown(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => shown(row, column).map(Some),
    }
}

/// A number of attempts, also if it is none that the table takes.
pub(super) fn attempts(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let number: i64 = row.get(column)?;
    Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// An id, or the one of nothing.
pub(super) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    Ok(maybe_id(row, column)?.unwrap_or_default())
}

/// An id, if it is one as the table has them: SQLite does not check what it reads, and others can write what
/// the table would refuse.
pub(super) fn maybe_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    let text = maybe_shown(row, column)?;
    Ok(text.as_deref().and_then(uuid))
}

/// The same where one that is none is an error.
fn tenant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    let Some(text) = maybe_shown(row, column)? else {
        return Ok(None);
    };
    let none = || {
        let why = "tenant_id is no uuid in lower case".into();
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why)
    };
    uuid(&text).ok_or_else(none).map(Some)
}

/// Found by its text, it must be written as we do.
fn uuid(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    let mut canonical = Uuid::encode_buffer();
    (id.hyphenated().encode_lower(&mut canonical) == text).then_some(id)
}
