//! What a text shares with a payload.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Mark, SHORTEST_RUN};

/// Values of a JSON payload are looked for from this length on, if they are no plain words, which any
/// error may hold by chance; and plain words from that length on.
const VALUE: usize = 4;
const WORD: usize = 8;
/// So many of them.
const VALUES: usize = 1_000;

/// Marks what a text shares with a payload, in runs of at least this many bytes, 8 to 16. Backslashes do not
/// count: a payload of JSON may be quoted within JSON.
pub(super) fn mark(text: &str, payload: &[u8], run: usize, marks: &mut [Mark]) {
    let run = run.min(payload.len());
    if run < SHORTEST_RUN {
        return;
    }
    let bytes = text.as_bytes();
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != b'\\').collect();
    let asked: Vec<u128> = windows(bytes, run).collect();
    // Nearly all of a large payload is ruled out by this alone.
    let mut sieve = vec![false; 1 << 16];
    asked.iter().for_each(|window| sieve[mesh(*window)] = true);
    let shared: HashSet<u128> = windows(payload, run)
        .filter(|window| sieve[mesh(*window)])
        .collect();
    for (at, window) in asked.iter().enumerate() {
        if shared.contains(window) {
            marks[places[at]..=places[at + run - 1]].fill(Mark::Payload);
        }
    }
    for value in values(payload) {
        for (at, _) in text.match_indices(&value) {
            let end = at + value.len();
            let before = text[..at].chars().next_back();
            let beside = [before, text[end..].chars().next()];
            // As a whole, and not within another word.
            if !beside.into_iter().flatten().any(char::is_alphanumeric) {
                marks[at..end].fill(Mark::Payload);
            }
        }
    }
}

/// The values of a JSON payload that an error is not to repeat, short as they are.
fn values(payload: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    // As far as it is JSON, and until there are enough.
    let _ = Values(&mut found).deserialize(&mut serde_json::Deserializer::from_slice(payload));
    found
}

/// Takes values as they come: a payload may hold more of them than there is memory for.
struct Values<'v>(&'v mut Vec<String>);

impl Values<'_> {
    fn found<E: Error>(self, text: String) -> Result<(), E> {
        let is_word = text.bytes().all(|b| b.is_ascii_alphabetic());
        if text.len() >= if is_word { WORD } else { VALUE } {
            self.0.push(text);
        }
        match self.0.len() < VALUES {
            true => Ok(()),
            false => Err(E::custom("enough")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.found(number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.found(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.found(format!("{number:?}"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.found(text.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Values(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(Values(self.0))?;
        }
        Ok(())
    }
}

/// Every run of this many bytes, at most 16, without the backslashes.
fn windows(bytes: &[u8], run: usize) -> impl Iterator<Item = u128> {
    let mask = u128::MAX >> (128 - 8 * run);
    let plain = bytes.iter().filter(|byte| **byte != b'\\');
    let rolling = plain.scan(0, move |window, byte| {
        *window = (*window << 8 | u128::from(*byte)) & mask;
        Some(*window)
    });
    rolling.skip(run - 1)
}

/// Where a run falls in a sieve of 2^16 holes.
fn mesh(window: u128) -> usize {
    let folded = (window ^ (window >> 64)) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    // B8
    #[test]
    fn no_more_values_are_taken_than_enough() {
        let many = format!("[{}]", ["[1, 2345]"; 5000].join(","));
        assert_eq!(values(many.as_bytes()), ["2345"; VALUES]);
        let cut_off = br#"{"name": "Ada Lovelace", "sum": [19.95, null, true, "x"#;
        assert_eq!(values(cut_off), ["Ada Lovelace", "19.95"]);
        assert!(values(&b"[".repeat(1 << 20)).is_empty());
    }
}
