//! Rows into events. A row that is no event is set aside; it never costs its neighbours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::event::{DeadReason, Event, Lease, Record, Status};
use crate::message::TraceContext;
use crate::table::Table;

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Microseconds since 2000, as PostgreSQL has them; infinities are its extremes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(pub(super) i64);

const EPOCH_2000: Duration = Duration::from_secs(946_684_800);

impl Timestamp {
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

pub(super) fn lease(row: &Row, owner: Uuid) -> Lease {
    Lease {
        id: row.get("id"),
        owner,
        epoch: row.get("lease_epoch"),
    }
}

pub(super) fn dead_reason(row: &Row) -> Option<DeadReason> {
    row.get::<_, Option<&str>>("dead_reason")
        .map(|reason| DeadReason::parse(reason).unwrap_or(DeadReason::Malformed))
}

pub(super) fn event(row: &Row, table: &Arc<Table>, lease: Lease) -> Result<Event, String> {
    let headers: JsonText<'_> = row.get("headers");
    let headers: BTreeMap<String, String> = match headers.0 {
        b"{}" => BTreeMap::new(),
        text => serde_json::from_slice(text)
            .map_err(|_| "headers is not a JSON object with texts as its values".to_owned())?,
    };
    let payload = match row.get::<_, Option<JsonText<'_>>>("payload") {
        Some(json) => Bytes::copy_from_slice(json.0),
        None => Bytes::copy_from_slice(row.get("payload_bytes")),
    };
    let created_at: Timestamp = row.get("created_at");
    let claimed_at: Timestamp = row.get("claimed_at");
    let trace = row
        .get::<_, Option<String>>("traceparent")
        .map(|traceparent| TraceContext {
            traceparent,
            tracestate: row.get("tracestate"),
        });
    Ok(Event {
        table: table.clone(),
        id: lease.id,
        sequence: row.get("sequence"),
        namespace: row.get("namespace"),
        topic: row.get("topic"),
        tenant_id: row.get("tenant_id"),
        aggregate_type: row.get("aggregate_type"),
        aggregate_id: row.get("aggregate_id"),
        event_type: row.get("event_type"),
        ordering_key: row.get("ordering_key"),
        dedupe_key: row.get("dedupe_key"),
        headers,
        content_type: row.get("content_type"),
        payload,
        trace,
        attempts: attempts(row),
        created_at: created_at.system_time(),
        age: claimed_at.since(created_at),
        lease,
    })
}

pub(super) fn record(row: &Row) -> Record {
    let time = |column| row.get::<_, Timestamp>(column).system_time();
    let maybe = |column| {
        row.get::<_, Option<Timestamp>>(column)
            .map(Timestamp::system_time)
    };
    Record {
        id: row.get("id"),
        sequence: row.get("sequence"),
        namespace: row.get("namespace"),
        topic: row.get("topic"),
        tenant_id: row.get("tenant_id"),
        ordering_key: row.get("ordering_key"),
        status: Status::parse(row.get("status")).expect("the table checks the status"),
        attempts: attempts(row),
        next_attempt_at: time("next_attempt_at"),
        lease_owner: row.get("lease_owner"),
        lease_until: maybe("lease_until"),
        lease_epoch: row.get("lease_epoch"),
        last_error: row.get("last_error"),
        dead_reason: dead_reason(row),
        created_at: time("created_at"),
        updated_at: time("updated_at"),
        delivered_at: maybe("delivered_at"),
    }
}

fn attempts(row: &Row) -> u32 {
    u32::try_from(row.get::<_, i32>("attempts")).expect("the table checks that attempts is not negative")
}
