//! A checked message in the shape of the table: what a driver binds.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::header;
use crate::message::{Message, NotBefore, Payload, TraceContext};

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident : $type:ty),+ $(,)?) => {
        /// The values of one event, in the order of the statement's parameters.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct Row {
            $($(#[$doc])* pub $name: $type,)+
            may_exist: bool,
        }

        /// The values of many events: a column for each parameter.
        #[derive(Debug, Clone, PartialEq, Default)]
        #[non_exhaustive]
        pub struct Rows {
            $($(#[$doc])* pub $name: Vec<$type>,)+
        }

        impl Rows {
            pub(crate) fn with_capacity(n: usize) -> Self {
                Self { $($name: Vec::with_capacity(n),)+ }
            }

            pub(crate) fn push(&mut self, row: Row) {
                $(self.$name.push(row.$name);)+
            }
        }
    };
}

columns! {
    /// `uuid`
    id: Uuid,
    /// `text`
    namespace: String,
    /// `text`
    topic: String,
    /// `uuid`
    tenant_id: Option<Uuid>,
    /// `text`
    aggregate_type: Option<String>,
    /// `text`
    aggregate_id: Option<String>,
    /// `text`
    event_type: Option<String>,
    /// `text`
    ordering_key: Option<String>,
    /// `text`
    dedupe_key: Option<String>,
    /// JSON text, cast to `jsonb` by the statement
    headers: String,
    /// `text`
    content_type: String,
    /// JSON text, cast to `jsonb` by the statement
    payload: Option<String>,
    /// `bytea`
    payload_bytes: Option<Vec<u8>>,
    /// `float8`: seconds from now until the event is due
    delay: f64,
    /// `float8`: seconds since 1970 when the event is due, if an instant was given
    due: Option<f64>,
    /// `text`
    traceparent: Option<String>,
    /// `text`
    tracestate: Option<String>,
}

impl Row {
    /// With the payload as it was compressed, if it was.
    pub(crate) fn new(
        message: &Message,
        trace: Option<TraceContext>,
        compressed: Option<Vec<u8>>,
    ) -> Self {
        let mut m = message.clone();
        if compressed.is_some() {
            m.headers
                .insert(header::CONTENT_ENCODING.to_owned(), header::ZSTD.to_owned());
        }
        let (payload, payload_bytes) = match (compressed, m.payload) {
            (Some(bytes), _) | (None, Payload::Bytes(bytes)) => (None, Some(bytes)),
            (None, Payload::Json(text)) => (Some(text), None),
        };
        let (delay, due) = match m.not_before {
            None => (0.0, None),
            Some(NotBefore::After(delay)) => (delay.as_secs_f64(), None),
            Some(NotBefore::At(time)) => (0.0, Some(unix_seconds(time))),
        };
        let (traceparent, tracestate) = match trace {
            None => (None, None),
            Some(trace) => (Some(trace.traceparent), trace.tracestate),
        };
        Self {
            may_exist: m.id.is_some() || m.dedupe_key.is_some(),
            id: m.id.unwrap_or_else(Uuid::now_v7),
            namespace: m.namespace,
            topic: m.topic,
            tenant_id: m.tenant_id,
            aggregate_type: m.aggregate_type,
            aggregate_id: m.aggregate_id,
            event_type: m.event_type,
            ordering_key: m.ordering_key,
            dedupe_key: m.dedupe_key,
            headers: headers(&m.headers),
            content_type: m.content_type,
            payload,
            payload_bytes,
            delay,
            due,
            traceparent,
            tracestate,
        }
    }

    /// Whether the event may be in the table already: only then must the statement look.
    pub(crate) fn may_exist(&self) -> bool {
        self.may_exist
    }
}

fn headers(headers: &std::collections::BTreeMap<String, String>) -> String {
    match headers.is_empty() {
        true => "{}".to_owned(),
        false => serde_json::to_string(headers).expect("a map of strings is JSON"),
    }
}

/// Before 1970 is long ago enough: the database's own range ends somewhere before that.
fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
