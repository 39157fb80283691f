//! Events as JSON lines, on standard output or any other writer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use async_trait::async_trait;
use base64::Engine as _;
use posthaste::Event;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Outcome, Sink};

/// How many bytes are written at once, if there are so many lines to write.
const CHUNK: usize = 64 * 1024;

/// Writes one JSON object per event and line, and flushes it before the event counts as delivered.
#[derive(Debug)]
pub struct JsonLines(Sender<Entry>);

/// A line to write, and whom to tell how that went.
#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    written: oneshot::Sender<Result<(), String>>,
}

/// Events as JSON lines on standard output.
pub fn stdout() -> JsonLines {
    JsonLines::new(io::stdout())
}

impl JsonLines {
    /// Events as JSON lines to this writer.
    ///
    /// It has a thread of its own: a reader that does not read holds up no other destination.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        let (lines, waiting) = channel();
        std::thread::spawn(move || write_all(writer, &waiting));
        Self(lines)
    }
}

/// Writes what is waiting, many lines at once, until the sink is gone.
fn write_all(mut writer: impl Write, waiting: &Receiver<Entry>) {
    while let Ok(first) = waiting.recv() {
        let mut entries = Vec::new();
        let mut chunk = Vec::new();
        for entry in std::iter::once(first).chain(waiting.try_iter()) {
            // Nobody waits for it any more: it is delivered again.
            if entry.written.is_closed() {
                continue;
            }
            chunk.extend_from_slice(&entry.line);
            entries.push(entry);
            if chunk.len() >= CHUNK {
                break;
            }
        }
        let written = writer.write_all(&chunk).and_then(|()| writer.flush());
        let written = written.map_err(|error| format!("cannot write: {error}"));
        for entry in entries {
            let _ = entry.written.send(written.clone());
        }
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
impl Sink for JsonLines {
    fn system(&self) -> &'static str {
        "stdout"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let mut line = match serde_json::to_vec(&Line::of(&event)) {
            Ok(line) => line,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        line.push(b'\n');
        let (written, answer) = oneshot::channel();
        let sent = self.0.send(Entry { line, written });
        match (sent, answer.await) {
            (Ok(()), Ok(Ok(()))) => Outcome::Delivered,
            (Ok(()), Ok(Err(error))) => Outcome::Unavailable(error),
            _ => Outcome::Unavailable("cannot write: the writer is gone".into()),
        }
    }
}
