//! Which headers an event may have: those that every destination carries as they are.
//!
//! Checked at enqueue, and again where an event leaves, as rows may come from anywhere.

use std::collections::{BTreeMap, HashSet};

/// What AMQP allows for a name.
const NAME_LIMIT: usize = 255;

/// Beginnings of names that are ours, or that mean something to a broker.
const RESERVED_PREFIXES: [&str; 8] = [
    "posthaste-",
    "ce-",
    "ce_",
    "cloudevents",
    "webhook-",
    "nats-",
    "proxy-",
    "x-death",
];

/// Names that frame a message, say who sends it, or make a broker send it elsewhere, too.
const RESERVED: [&str; 22] = [
    "authorization",
    "bcc",
    "cc",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "payload",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-first-death-reason",
];

/// The header of an event that was delivered before, under the id that it names, and is sent again.
pub const REDELIVERY_OF: &str = "posthaste-redelivery-of";

/// The header of an event that an operator redelivered: how often.
pub const REDELIVERED: &str = "posthaste-redelivered";

/// The header of a dead letter: the id of the event that is dead.
pub const DEAD_LETTER_OF: &str = "posthaste-dead-letter-of";
/// The header of a dead letter: the topic of the event that is dead.
pub const DEAD_TOPIC: &str = "posthaste-dead-topic";
/// The header of a dead letter: the [`DeadReason`](crate::DeadReason).
pub const DEAD_REASON: &str = "posthaste-dead-reason";
/// The header of a dead letter: what went wrong last, if anything is known, cut to 512 bytes.
pub const DEAD_ERROR: &str = "posthaste-dead-error";
/// The header of a dead letter: how often delivery was tried.
pub const DEAD_ATTEMPTS: &str = "posthaste-dead-attempts";
/// The header of a dead letter: when the event that is dead was enqueued, as of RFC 3339.
pub const DEAD_CREATED_AT: &str = "posthaste-dead-created-at";
/// The header of a dead letter: the newest attempts to deliver the event, as a JSON array, the oldest of them
/// first. At most ten, and 2,048 bytes.
pub const DEAD_HISTORY: &str = "posthaste-dead-history";

/// The header of a payload that is not stored as it was enqueued: how it is encoded.
pub const CONTENT_ENCODING: &str = "content-encoding";
/// What that header says of a payload that was compressed at enqueue.
pub const ZSTD: &str = "zstd";

/// What Posthaste itself writes into the headers of an event.
const OURS: [&str; 10] = [
    CONTENT_ENCODING,
    REDELIVERY_OF,
    REDELIVERED,
    DEAD_LETTER_OF,
    DEAD_TOPIC,
    DEAD_REASON,
    DEAD_ERROR,
    DEAD_ATTEMPTS,
    DEAD_CREATED_AT,
    DEAD_HISTORY,
];

/// Adds to the headers of a claimed event how often it was redelivered, if it was.
pub(crate) fn tell_redeliveries(headers: &mut BTreeMap<String, String>, redeliveries: Option<i32>) {
    if let Some(redeliveries) = redeliveries {
        headers.insert(REDELIVERED.to_owned(), redeliveries.to_string());
    }
}

/// Says which header cannot be carried as it is by every destination, and why.
///
/// A name is an HTTP token of up to 255 bytes that nothing else uses, whatever the case of its
/// letters. A value is printable ASCII, without spaces around it.
pub fn check<'h>(
    headers: impl IntoIterator<Item = (&'h String, &'h String)>,
) -> Result<(), (&'h str, &'static str)> {
    check_all(headers, is_reserved)
}

/// The same of an event that is stored, which may have headers from Posthaste, too.
pub fn check_stored<'h>(
    headers: impl IntoIterator<Item = (&'h String, &'h String)>,
) -> Result<(), (&'h str, &'static str)> {
    check_all(headers, |name| is_reserved(name) && !OURS.contains(&name))
}

fn check_all<'h>(
    headers: impl IntoIterator<Item = (&'h String, &'h String)>,
    refused: fn(&str) -> bool,
) -> Result<(), (&'h str, &'static str)> {
    let mut seen = HashSet::new();
    for (name, value) in headers {
        let folded = name.to_ascii_lowercase();
        fits(&folded, value, refused(name)).map_err(|why| (name.as_str(), why))?;
        if !seen.insert(folded) {
            return Err((name, "another name differs from it only in case"));
        }
    }
    Ok(())
}

/// Whether a name is kept for what a relay itself sends along.
pub fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|ours| name.starts_with(ours))
}

fn fits(name: &str, value: &str, is_reserved: bool) -> Result<(), &'static str> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        Err("a name is made of ASCII letters, digits and -._~ etc.")
    } else if name.len() > NAME_LIMIT {
        Err("a name has at most 255 bytes")
    } else if is_reserved {
        Err("this name is reserved: choose another")
    } else if !value.bytes().all(|b| matches!(b, b' '..=b'~')) {
        Err("a value is printable ASCII: encode anything else, or put it into the payload")
    } else if value.starts_with(' ') || value.ends_with(' ') {
        Err("a value has no spaces around it")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn what_every_destination_carries_is_taken() {
        let good = headers(&[
            ("source", "checkout"),
            ("X-Request-Id", "a \"quoted\" 50% value"),
            ("empty", ""),
            ("!#$%&'*+-.^_`|~", "x"),
        ]);
        assert_eq!(check(&good), Ok(()));
    }

    #[test]
    fn what_some_destination_would_drop_or_change_is_refused() {
        let long = "x".repeat(256);
        for (name, value) in [
            ("", "x"),
            ("two words", "x"),
            ("colon:", "x"),
            ("naïve", "x"),
            (long.as_str(), "x"),
            ("a", "line\r\nbreak: x"),
            ("a", "tab\t"),
            ("a", "ünï"),
            ("a", " before"),
            ("a", "after "),
            ("Content-Type", "text/plain"),
            ("CE-Id", "x"),
            ("ce_id", "x"),
            ("cloudEvents_id", "x"),
            ("posthaste-id", "x"),
            ("traceparent", "x"),
            ("webhook-signature", "x"),
            ("Nats-Msg-Id", "x"),
            ("Nats-Rollup", "all"),
            ("BCC", "x"),
            ("Host", "x"),
            ("Transfer-Encoding", "chunked"),
            ("payload", "x"),
        ] {
            assert!(
                check(&headers(&[(name, value)])).is_err(),
                "{name}: {value}"
            );
        }
        let twins = headers(&[("Source", "a"), ("source", "b")]);
        assert!(check(&twins).is_err());
    }
}
