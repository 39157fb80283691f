//! What the headers of a dead letter tell of a death. PostgreSQL writes the same by itself.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::event::DeadReason;
use crate::header;
use crate::store::Attempt;
use crate::store::inspect::texts;
use crate::time::rfc3339;

/// The longest error that a letter carries.
const ERROR_LIMIT: usize = 512;

/// So many attempts a letter tells of, the newest, in at most so many bytes of JSON. Every destination carries a
/// header of that size.
pub(super) const HISTORY_KEPT: usize = 10;
const HISTORY_LIMIT: usize = 2048;
/// What is told of one attempt is cut, so that one always fits.
const ATTEMPT_ERROR_LIMIT: usize = 128;
const NAME_LIMIT: usize = 64;

/// The death of an event.
pub(super) struct Death<'e> {
    pub(super) id: Uuid,
    pub(super) topic: &'e str,
    pub(super) reason: DeadReason,
    pub(super) error: Option<&'e str>,
    pub(super) attempts: u32,
    pub(super) created_at: SystemTime,
    /// Its attempts, the latest first.
    pub(super) history: Vec<&'e Attempt>,
}

/// One attempt, as a letter tells of it.
#[derive(Serialize)]
struct Entry {
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    ending: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Death<'_> {
    /// The headers of the letter, given those of the event. `None`: it is a letter itself.
    pub(super) fn letter(&self, headers: &[u8]) -> Option<String> {
        let mut headers = readable(headers);
        if headers.contains_key(header::DEAD_LETTER_OF) {
            return None;
        }
        let told = [
            (header::DEAD_LETTER_OF, self.id.to_string()),
            (header::DEAD_TOPIC, plain(self.topic, ERROR_LIMIT)),
            (header::DEAD_REASON, self.reason.to_string()),
            (
                header::DEAD_ERROR,
                plain(self.error.unwrap_or_default(), ERROR_LIMIT),
            ),
            (header::DEAD_ATTEMPTS, self.attempts.to_string()),
            (header::DEAD_CREATED_AT, rfc3339(self.created_at)),
            (header::DEAD_HISTORY, told(&self.history)),
        ];
        let told = told.into_iter().filter(|(_, value)| !value.is_empty());
        headers.extend(told.map(|(name, value)| (name.to_owned(), value)));
        Some(serde_json::to_string(&headers).expect("a map of strings is JSON"))
    }
}

/// The newest attempts that fit, from the oldest of them on.
fn told(history: &[&Attempt]) -> String {
    let mut entries = Vec::new();
    let mut bytes = 1;
    for attempt in history.iter().take(HISTORY_KEPT) {
        let cut = |text: &Option<String>, limit| {
            let text = text.as_deref().map(|text| plain(text, limit));
            text.filter(|text| !text.is_empty())
        };
        let entry = Entry {
            attempt: attempt.number,
            at: attempt.claimed_at.map(rfc3339),
            ending: attempt.ending.as_str(),
            destination: cut(&attempt.destination, NAME_LIMIT),
            relay: cut(&attempt.relay_name, NAME_LIMIT),
            error: cut(&attempt.error, ATTEMPT_ERROR_LIMIT),
        };
        let entry = serde_json::to_string(&entry).expect("texts and numbers are JSON");
        bytes += entry.len() + 1;
        if bytes > HISTORY_LIMIT {
            break;
        }
        entries.push(entry);
    }
    entries.reverse();
    match entries.is_empty() {
        true => String::new(),
        false => format!("[{}]", entries.join(",")),
    }
}

/// The event may be dead because its headers are not what they should be.
fn readable(headers: &[u8]) -> BTreeMap<String, String> {
    match serde_json::from_slice(headers) {
        Ok(Value::Object(headers)) => texts(headers),
        _ => BTreeMap::new(),
    }
}

/// As every destination carries it: printable ASCII, without spaces around it.
fn plain(text: &str, limit: usize) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    let text: String = text.chars().map(printable).take(limit).collect();
    text.trim_matches(' ').to_owned()
}
