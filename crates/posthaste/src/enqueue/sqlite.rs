//! What the drivers for SQLite share: many messages as one parameter, and receipts in order.
//!
//! A statement of SQLite cannot tell both what it inserted and what it met. If a message may be there
//! already, a second one looks: nobody else can write in between, as the transaction has the file.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{EnqueueError, Receipt, Rows};

/// An id and a sequence, as a statement answered.
pub(super) type Answer = (Uuid, i64);

/// The values of many messages as the JSON that `enqueue_all.sql` reads.
pub(super) fn parameter(rows: &Rows) -> String {
    let message = |n: usize| {
        json!([
            rows.id[n],
            rows.namespace[n],
            rows.topic[n],
            rows.tenant_id[n],
            rows.aggregate_type[n],
            rows.aggregate_id[n],
            rows.event_type[n],
            rows.ordering_key[n],
            rows.dedupe_key[n],
            rows.headers[n],
            rows.content_type[n],
            rows.payload[n],
            rows.payload_bytes[n].as_deref().map(hexadecimal),
            rows.delay[n],
            rows.due[n],
            rows.traceparent[n],
            rows.tracestate[n],
        ])
    };
    Value::Array((0..rows.id.len()).map(message).collect()).to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(digits, "{byte:02x}").expect("a String takes any text");
    }
    digits
}

/// Receipts of events that are all new, in the order of their messages.
pub(super) fn all_new(rows: &Rows, inserted: &[Answer]) -> Vec<Receipt> {
    let sequences: HashMap<Uuid, i64> = inserted.iter().copied().collect();
    let receipt = |id: &Uuid| {
        Some(Receipt {
            id: *id,
            sequence: *sequences.get(id)?,
            new: true,
        })
    };
    rows.id.iter().filter_map(receipt).collect()
}

/// Receipts of events of which some are new, from what each message made or met, in order.
pub(super) fn some_new(rows: &Rows, inserted: &[Answer], found: &[Answer]) -> Vec<Receipt> {
    let mut fresh: HashSet<Uuid> = inserted.iter().map(|(id, _)| *id).collect();
    let receipt = |(asked, (id, sequence)): (&Uuid, &Answer)| Receipt {
        id: *id,
        sequence: *sequence,
        // The same id twice in one call: the first made the event, the second met it.
        new: asked == id && fresh.remove(id),
    };
    rows.id.iter().zip(found).map(receipt).collect()
}

/// Reads an id as the table holds it.
pub(super) fn id(text: &str) -> Result<Uuid, EnqueueError> {
    Uuid::parse_str(text).map_err(EnqueueError::database)
}
