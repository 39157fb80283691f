//! What a message must satisfy before any statement is sent.
//!
//! Whatever the database would refuse is refused here, by name: a failed statement
//! would cost the caller their transaction.

use std::time::Duration;

use crate::enqueue::EnqueueError;
use crate::enqueue::json::{self, Refusal};
use crate::header;
use crate::message::{Message, NotBefore, Payload, TraceContext};
use crate::topic::TopicRule;

/// Keys are indexed, and an index entry has at most 2704 bytes.
const KEY_LIMIT: usize = 1024;
const NAME_LIMIT: usize = 255;
const HEADERS_LIMIT: usize = 16 * 1024;
const TRACESTATE_LIMIT: usize = 8 * 1024;
/// Later than anything sensible, and within what a timestamp can hold.
const DELAY_LIMIT: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) fn message(
    message: &Message,
    trace: Option<&TraceContext>,
    topics: TopicRule,
    payload_limit: usize,
) -> Result<(), EnqueueError> {
    topic(&message.topic, topics)?;
    for (field, text, limit) in [
        ("namespace", Some(&message.namespace), NAME_LIMIT),
        (
            "aggregate_type",
            message.aggregate_type.as_ref(),
            NAME_LIMIT,
        ),
        ("aggregate_id", message.aggregate_id.as_ref(), NAME_LIMIT),
        ("event_type", message.event_type.as_ref(), NAME_LIMIT),
        ("ordering_key", message.ordering_key.as_ref(), KEY_LIMIT),
        ("content_type", Some(&message.content_type), NAME_LIMIT),
    ] {
        if let Some(text) = text {
            bounded(field, text, limit)?;
            carried(field, text)?;
        }
    }
    if let Some(key) = &message.dedupe_key {
        bounded("dedupe_key", key, KEY_LIMIT)?;
    }
    if !is_visible_ascii(&message.content_type) || message.content_type.is_empty() {
        return Err(EnqueueError::FieldInvalid {
            field: "content_type",
            why: "write it as type/subtype in ASCII",
        });
    }
    if let (Some(tenant_id), Some(key)) = (message.tenant_id, &message.dedupe_key) {
        let scoped = key
            .strip_prefix(&tenant_id.to_string())
            .is_some_and(|rest| rest.starts_with('/'));
        if !scoped {
            return Err(EnqueueError::DedupeTenantMismatch { tenant_id });
        }
    }
    headers(message)?;
    payload(&message.payload, payload_limit)?;
    not_before(message.not_before)?;
    trace.map_or(Ok(()), trace_context)
}

fn topic(topic: &str, rule: TopicRule) -> Result<(), EnqueueError> {
    rule.check(topic).map_err(|why| EnqueueError::TopicInvalid {
        topic: shown(topic),
        why,
    })
}

fn bounded(field: &'static str, text: &str, limit: usize) -> Result<(), EnqueueError> {
    if text.contains('\0') {
        Err(EnqueueError::NulCharacter { field })
    } else if text.len() > limit {
        Err(EnqueueError::TooLong {
            field,
            size: text.len(),
            limit,
        })
    } else {
        Ok(())
    }
}

/// Names travel as headers and properties, where a control character cannot go.
fn carried(field: &'static str, text: &str) -> Result<(), EnqueueError> {
    match text.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(EnqueueError::FieldInvalid {
            field,
            why: "control characters are not allowed",
        }),
    }
}

fn headers(message: &Message) -> Result<(), EnqueueError> {
    header::check(&message.headers).map_err(|(name, why)| EnqueueError::HeaderInvalid {
        name: shown(name),
        why,
    })?;
    let size = message
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    match size > HEADERS_LIMIT {
        false => Ok(()),
        true => Err(EnqueueError::TooLong {
            field: "headers",
            size,
            limit: HEADERS_LIMIT,
        }),
    }
}

fn payload(payload: &Payload, limit: usize) -> Result<(), EnqueueError> {
    let size = payload.len();
    if size > limit {
        return Err(EnqueueError::PayloadTooLarge { size, limit });
    }
    match payload {
        Payload::Json(text) => json::check(text, limit).map_err(|refusal| match refusal {
            Refusal::Nul => EnqueueError::NulCharacter { field: "payload" },
            Refusal::Other(why) => EnqueueError::JsonInvalid(why.into()),
        }),
        Payload::Bytes(_) => Ok(()),
    }
}

fn not_before(not_before: Option<NotBefore>) -> Result<(), EnqueueError> {
    let wait = match not_before {
        None => Duration::ZERO,
        Some(NotBefore::After(delay)) => delay,
        Some(NotBefore::At(time)) => time
            .duration_since(std::time::SystemTime::now())
            .unwrap_or_default(),
    };
    match wait > DELAY_LIMIT {
        false => Ok(()),
        true => Err(EnqueueError::FieldInvalid {
            field: "deliver_after",
            why: "it must lie within a hundred years",
        }),
    }
}

fn trace_context(trace: &TraceContext) -> Result<(), EnqueueError> {
    let parts: Vec<&str> = trace.traceparent.split('-').collect();
    let hex = |part: &str, len| {
        part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    // Versions to come may add fields, the first has none.
    let ok = trace.traceparent.len() <= NAME_LIMIT
        && is_visible_ascii(&trace.traceparent)
        && (parts.len() == 4 || parts.len() > 4 && parts[0] != "00")
        && hex(parts[0], 2)
        && hex(parts[1], 32)
        && hex(parts[2], 16)
        && hex(parts[3], 2);
    if !ok {
        return Err(EnqueueError::FieldInvalid {
            field: "traceparent",
            why: "write it as 00-<32 hex digits>-<16 hex digits>-<2 hex digits>",
        });
    }
    match &trace.tracestate {
        Some(state) if !is_visible_ascii(state) => Err(EnqueueError::FieldInvalid {
            field: "tracestate",
            why: "it must be printable ASCII",
        }),
        Some(state) => bounded("tracestate", state, TRACESTATE_LIMIT),
        None => Ok(()),
    }
}

fn is_visible_ascii(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // B12
    #[test]
    fn a_trace_context_has_the_form_of_the_standard() {
        let with = |traceparent: &str| TraceContext {
            traceparent: traceparent.to_owned(),
            tracestate: None,
        };
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let later = format!("01{}", &good[2..]);
        for good in [good, &later, &format!("{later}-more")] {
            assert!(trace_context(&with(good)).is_ok(), "{good}");
        }
        for bad in [
            "",
            "00",
            "zz-1-2-3",
            &good.to_uppercase(),
            &good[1..],
            &format!("{good}-more"),
            &format!("{later}-\0"),
            &format!("{later}-a\tb"),
            &format!("{later}-a\r\nx: y"),
        ] {
            assert!(trace_context(&with(bad)).is_err(), "{bad:?}");
        }
    }
}
