//! The span of an enqueue, with the names that OpenTelemetry has for messaging.
//!
//! It is a span of `tracing`, at debug: while nobody listens, nothing of it is made.

use tracing::Span;

use super::EnqueueError;
use crate::message::Message;

/// One message.
pub(super) fn one(table: &str, message: &Message) -> Span {
    tracing::debug_span!(
        "enqueue",
        otel.name = format!("enqueue {}", message.topic),
        otel.kind = "producer",
        otel.status_code = tracing::field::Empty,
        messaging.system = "posthaste",
        messaging.operation.name = "enqueue",
        "messaging.operation.type" = "create",
        messaging.destination.name = message.topic,
        messaging.message.id = tracing::field::Empty,
        messaging.message.body.size = message.payload.len() as i64,
        posthaste.table = table,
        "error.type" = tracing::field::Empty,
    )
}

/// Many messages: all of them carry the context of this one span.
pub(super) fn many(table: &str, messages: &[Message]) -> Span {
    tracing::debug_span!(
        "enqueue",
        otel.name = format!("enqueue {table}"),
        otel.kind = "producer",
        otel.status_code = tracing::field::Empty,
        messaging.system = "posthaste",
        messaging.operation.name = "enqueue",
        "messaging.operation.type" = "create",
        messaging.destination.name = table,
        messaging.batch.message_count = messages.len() as i64,
        posthaste.table = table,
        "error.type" = tracing::field::Empty,
    )
}

/// Notes how it ended.
pub(super) fn failed(span: &Span, error: &EnqueueError) {
    span.record("error.type", error.code());
    span.record("otel.status_code", "error");
}
