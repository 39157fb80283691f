//! Events as JSON lines, on standard output or any other writer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine as _;
use posthaste::Event;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Outcome, Sink};

/// Writes one JSON object per event and line, and flushes it before the event counts as delivered.
#[derive(Debug)]
pub struct JsonLines<W>(Mutex<W>);

/// Events as JSON lines on standard output.
pub fn stdout() -> JsonLines<io::Stdout> {
    JsonLines::new(io::stdout())
}

impl<W: Write> JsonLines<W> {
    /// Events as JSON lines to this writer.
    pub fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut writer = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        writer.write_all(line)?;
        writer.flush()
    }
}

/// The line. A payload that is JSON stands as it is; any other is base64.
#[derive(Serialize)]
struct Line<'e> {
    id: Uuid,
    sequence: i64,
    table: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'e str,
    topic: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<&'e str>,
    attempts: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'e BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'e str>,
    content_type: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'e RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'e> Line<'e> {
    fn of(event: &'e Event) -> Self {
        // A line must stay a line: JSON that was kept as bytes may hold line breaks.
        let json = std::str::from_utf8(&event.payload)
            .ok()
            .filter(|text| !text.contains(['\n', '\r']))
            .and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        let trace = event.trace.as_ref();
        Self {
            id: event.id,
            sequence: event.sequence,
            table: event.table.to_string(),
            namespace: &event.namespace,
            topic: &event.topic,
            tenant_id: event.tenant_id,
            aggregate_type: event.aggregate_type.as_deref(),
            aggregate_id: event.aggregate_id.as_deref(),
            event_type: event.event_type.as_deref(),
            ordering_key: event.ordering_key.as_deref(),
            attempts: event.attempts,
            headers: &event.headers,
            traceparent: trace.map(|trace| trace.traceparent.as_str()),
            tracestate: trace.and_then(|trace| trace.tracestate.as_deref()),
            content_type: &event.content_type,
            payload: json,
            payload_base64: json
                .is_none()
                .then(|| base64::engine::general_purpose::STANDARD.encode(&event.payload)),
        }
    }
}

#[async_trait]
impl<W: Write + Send + 'static> Sink for JsonLines<W> {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let mut line = match serde_json::to_vec(&Line::of(&event)) {
            Ok(line) => line,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        line.push(b'\n');
        match self.write(&line) {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::Unavailable(format!("cannot write: {error}")),
        }
    }
}
