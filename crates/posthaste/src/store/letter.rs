//! What the headers of a dead letter tell of a death. PostgreSQL writes the same by itself.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value;
use uuid::Uuid;

use crate::event::DeadReason;
use crate::header;
use crate::store::inspect::texts;
use crate::time::rfc3339;

/// The longest error that a letter carries.
const ERROR_LIMIT: usize = 512;

/// The death of an event.
pub(super) struct Death<'e> {
    pub(super) id: Uuid,
    pub(super) topic: &'e str,
    pub(super) reason: DeadReason,
    pub(super) error: Option<&'e str>,
    pub(super) attempts: u32,
    pub(super) created_at: SystemTime,
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
            (header::DEAD_TOPIC, plain(self.topic)),
            (header::DEAD_REASON, self.reason.to_string()),
            (header::DEAD_ERROR, plain(self.error.unwrap_or_default())),
            (header::DEAD_ATTEMPTS, self.attempts.to_string()),
            (header::DEAD_CREATED_AT, rfc3339(self.created_at)),
        ];
        let told = told.into_iter().filter(|(_, value)| !value.is_empty());
        headers.extend(told.map(|(name, value)| (name.to_owned(), value)));
        Some(serde_json::to_string(&headers).expect("a map of strings is JSON"))
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
fn plain(text: &str) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    let text: String = text.chars().map(printable).take(ERROR_LIMIT).collect();
    text.trim_matches(' ').to_owned()
}
