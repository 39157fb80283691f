//! What a producer writes: a message, before it is stored.
//!
//! A [`Message`] is checked as a whole when it is enqueued, so that bad input is a
//! typed error and never a failed statement inside the caller's transaction.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use uuid::Uuid;

use crate::enqueue::EnqueueError;

/// What is delivered. The relay never looks inside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// JSON text, stored readably (`jsonb`): its meaning is kept, its white space is not.
    Json(String),
    /// Bytes, kept as they are.
    Bytes(Vec<u8>),
}

impl Payload {
    /// The size that counts against the limit of the outbox.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A W3C trace context, carried unchanged from enqueue to the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The `traceparent` header.
    pub traceparent: String,
    /// The `tracestate` header.
    pub tracestate: Option<String>,
}

/// When an event may first be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotBefore {
    After(Duration),
    At(SystemTime),
}

/// An event to be: build one, then enqueue it in your transaction.
///
/// ```
/// use posthaste::Message;
///
/// # fn main() -> Result<(), posthaste::EnqueueError> {
/// let message = Message::json("shop.order.placed.v1", &serde_json::json!({"order": 42}))?
///     .aggregate("Order", "42")
///     .ordering_key("42")
///     .header("source", "checkout");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) id: Option<Uuid>,
    pub(crate) namespace: String,
    pub(crate) topic: String,
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content_type: String,
    pub(crate) payload: Payload,
    pub(crate) not_before: Option<NotBefore>,
    pub(crate) trace: Option<TraceContext>,
}

impl Message {
    /// A message whose payload is this value as JSON.
    pub fn json(topic: impl Into<String>, value: &impl Serialize) -> Result<Self, EnqueueError> {
        let text = serde_json::to_string(value)
            .map_err(|error| EnqueueError::JsonInvalid(error.into()))?;
        Ok(Self::new(topic, "application/json", Payload::Json(text)))
    }

    /// A message whose payload is JSON text that you already have.
    ///
    /// To keep its very bytes, use [`Message::bytes`] with `application/json`.
    pub fn json_text(
        topic: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<Self, EnqueueError> {
        let text = text.into();
        // Parsed as a whole, not skimmed: unpaired surrogates and numbers without
        // bounds are JSON too, but the database would refuse them.
        serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|error| EnqueueError::JsonInvalid(error.into()))?;
        Ok(Self::new(topic, "application/json", Payload::Json(text)))
    }

    /// A message whose payload is any bytes, delivered unchanged.
    pub fn bytes(
        topic: impl Into<String>,
        content_type: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self::new(topic, content_type, Payload::Bytes(bytes.into()))
    }

    fn new(topic: impl Into<String>, content_type: impl Into<String>, payload: Payload) -> Self {
        Self {
            id: None,
            namespace: String::new(),
            topic: topic.into(),
            tenant_id: None,
            aggregate_type: None,
            aggregate_id: None,
            event_type: None,
            ordering_key: None,
            dedupe_key: None,
            headers: BTreeMap::new(),
            content_type: content_type.into(),
            payload,
            not_before: None,
            trace: None,
        }
    }

    /// Your own event id, the consumers' idempotency key: enqueueing it twice makes one event.
    ///
    /// Without it every enqueue makes a new event with a fresh UUIDv7.
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets events of one kind apart within an outbox. Defaults to the empty namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The tenant that the event belongs to.
    pub fn tenant(mut self, tenant_id: Uuid) -> Self {
        self.tenant_id = Some(tenant_id);
        self
    }

    /// The aggregate that the event tells about.
    pub fn aggregate(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.aggregate_type = Some(kind.into());
        self.aggregate_id = Some(id.into());
        self
    }

    /// The type of the event, where consumers want one beside the topic.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Events with the same key are delivered in sequence, if the relay runs with `ordering = key`.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Enqueueing the same key twice in one namespace and topic makes one event,
    /// for as long as the first is kept. With a tenant it must start with `<tenant>/`.
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.dedupe_key = Some(key.into());
        self
    }

    /// Adds a header that travels with the event.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Not delivered earlier than this long after it was enqueued, by the database's clock.
    pub fn deliver_after(mut self, delay: Duration) -> Self {
        self.not_before = Some(NotBefore::After(delay));
        self
    }

    /// Not delivered earlier than this.
    pub fn deliver_at(mut self, time: SystemTime) -> Self {
        self.not_before = Some(NotBefore::At(time));
        self
    }

    /// The trace that the event belongs to. Defaults to what [`Outbox::trace_with`] finds.
    ///
    /// [`Outbox::trace_with`]: crate::Outbox::trace_with
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The payload.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }
}
