//! Dead events in groups: those that died of the same thing, whatever ids and numbers their errors name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::event::DeadReason;

/// So many topics of a group are told.
pub const GROUP_TOPICS: usize = 10;

/// So many of the latest dead events are looked at for groups.
pub const GROUP_LOOK: u32 = 100_000;

/// Dead events with the same reason and the same kind of error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// What their errors have in common, see [`fingerprint`]. Empty: they have none, or died
    /// before fingerprints were kept.
    pub fingerprint: String,
    /// Why they are dead.
    pub reason: DeadReason,
    /// How many they are.
    pub count: u64,
    /// The error of the newest.
    pub error: Option<String>,
    /// Their topics, in order, at most [`GROUP_TOPICS`].
    pub topics: Vec<String>,
    /// When the first of them died.
    pub oldest: SystemTime,
    /// When the last of them died.
    pub newest: SystemTime,
    /// The one that died last.
    pub sample: Uuid,
}

/// One dead event, as far as its group is concerned.
pub(super) struct Dead {
    pub(super) fingerprint: String,
    pub(super) reason: DeadReason,
    pub(super) topic: String,
    pub(super) at: SystemTime,
    pub(super) id: Uuid,
    pub(super) error: Option<String>,
}

/// Puts dead events into groups, the largest first. Of those that died at the same time, the last one
/// given is the sample.
#[derive(Default)]
pub(super) struct Grouping(BTreeMap<(String, &'static str), (Group, BTreeSet<String>)>);

impl Grouping {
    pub(super) fn add(&mut self, dead: Dead) {
        let key = (dead.fingerprint, dead.reason.as_str());
        let (group, topics) = self.0.entry(key).or_insert_with_key(|(fingerprint, _)| {
            let group = Group {
                fingerprint: fingerprint.clone(),
                reason: dead.reason,
                count: 0,
                error: None,
                topics: Vec::new(),
                oldest: dead.at,
                newest: dead.at,
                sample: dead.id,
            };
            (group, BTreeSet::new())
        });
        group.count += 1;
        group.oldest = group.oldest.min(dead.at);
        if dead.at >= group.newest {
            group.newest = dead.at;
            group.error = dead.error;
            group.sample = dead.id;
        }
        topics.insert(dead.topic);
    }

    pub(super) fn largest(self, limit: u32) -> Vec<Group> {
        let groups = self.0.into_values().map(|(mut group, topics)| {
            group.topics = topics.into_iter().take(GROUP_TOPICS).collect();
            group
        });
        let mut groups: Vec<Group> = groups.collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.newest)));
        groups.truncate(limit as usize);
        groups
    }
}

/// What an error has in common with others of its kind, as sixteen hex digits: a digest of the text
/// without its ids, numbers, hex digits and quoted parts. Empty for an empty text.
pub fn fingerprint(error: &str) -> String {
    let plain = normalised(error);
    if plain.is_empty() {
        return String::new();
    }
    let digest = Sha256::digest(plain.as_bytes());
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// So much of an error is looked at.
const LOOK: usize = 512;

/// The text in lower case, with `#` for each word that holds a digit or is a long run of hex digits, `…`
/// for each quoted part, and one space for many.
fn normalised(error: &str) -> String {
    let mut plain = String::new();
    let mut after_word = false;
    let mut chars = error.chars().take(LOOK).peekable();
    while let Some(c) = chars.next() {
        // After a word it is an apostrophe.
        let quotes = matches!(c, '"' | '`' | '“' | '«') || (c == '\'' && !after_word);
        after_word = c.is_alphanumeric();
        if quotes {
            let close = match c {
                '“' => '”',
                '«' => '»',
                same => same,
            };
            // A quote that is not closed quotes all the rest: it was cut off.
            for quoted in chars.by_ref() {
                if quoted == close {
                    break;
                }
            }
            plain.push('…');
        } else if c.is_alphanumeric() {
            let mut word = String::from(c);
            // What joins the parts of ids, versions, addresses and times joins them here, too.
            while let Some(next) = chars.peek().copied() {
                let mut ahead = chars.clone();
                ahead.next();
                let joins = matches!(next, '-' | '_' | '.' | ':')
                    && ahead.peek().is_some_and(|after| after.is_alphanumeric());
                if !next.is_alphanumeric() && !joins {
                    break;
                }
                word.push(next);
                chars.next();
            }
            match is_particular(&word) {
                true => plain.push('#'),
                false => plain.extend(word.chars().flat_map(char::to_lowercase)),
            }
        } else if c.is_whitespace() || c.is_control() {
            if !plain.is_empty() && !plain.ends_with(' ') {
                plain.push(' ');
            }
        } else {
            plain.push(c);
        }
    }
    plain.trim_end().to_owned()
}

/// Whether a word names one thing of many: it holds a digit, or is a long run of hex digits.
fn is_particular(word: &str) -> bool {
    word.chars().any(char::is_numeric)
        || (word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_have_one_fingerprint() {
        for (one, other) in [
            ("timed out after 30s", "timed out after 1.5s"),
            (
                "order 01939a4c-7d1e-7cc0-8000-0123456789ab is not known",
                "order 7b1f2c3d-aaaa-4bbb-8ccc-ddddeeeeffff is not known",
            ),
            ("cannot reach 10.0.0.1:9092", "cannot reach 10.0.0.77:9093"),
            ("no field \"name\" in body", "no field \"street\" in body"),
            ("no field 'name' in body", "no field 'street' in body"),
            ("bad digest deadbeefcafe", "bad digest 0011223344ff"),
            ("Connection  refused\n", "connection refused"),
            (
                "order 42's payment was declined",
                "order 43's payment was declined",
            ),
            ("cut off \"abc", "cut off \"xyz and more"),
        ] {
            assert_eq!(fingerprint(one), fingerprint(other), "{one} / {other}");
        }
    }

    #[test]
    fn errors_of_different_kinds_have_different_fingerprints() {
        let errors = [
            "timed out",
            "connection refused",
            "can't connect",
            "can't parse",
            "it's 'odd' here",
            "it's 'odd' there",
            "no field \"name\" in body",
            "no field \"name\" in header",
            "order 42's payment was declined",
            "order 43's address is unknown",
            "#",
        ];
        let mut seen: Vec<String> = errors.iter().map(|error| fingerprint(error)).collect();
        assert!(seen.iter().all(|fingerprint| fingerprint.len() == 16));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), errors.len());
    }

    #[test]
    fn no_error_has_no_fingerprint() {
        assert_eq!(fingerprint(""), "");
        assert_eq!(fingerprint(" \n\t"), "");
    }
}
