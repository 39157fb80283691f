//! What the relay tells about its work: metrics, log fields, and errors fit to be kept.
//!
//! Which metrics there are is written in `metric.rs`.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Histogram, counter, histogram};
use posthaste::store::{Died, Health, Stats};
use serde_json::Value;
use uuid::Uuid;

use crate::sink::Outcome;

/// The longest error that is kept with an event, unless the settings say otherwise.
pub(crate) const ERROR_LIMIT: usize = 2048;
/// A run of this many bytes that error and payload share is taken as a piece of the payload.
const PAYLOAD_RUN: usize = 16;
/// Values of a JSON payload are looked for from this length on, if they are no plain words, which any
/// error may hold by chance; and plain words from that length on.
const VALUE: usize = 4;
const WORD: usize = 8;
/// So many of them.
const VALUES: usize = 1_000;
/// So many topics of an outbox are told apart in metrics: producers can make any number.
const TOPICS: usize = 500;
/// What the others are called together.
const OTHER: &str = "other";
/// What is shorter is in any text by chance, such as a payload of `1`.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "for answers"))]
pub(crate) const SHORTEST_RUN: usize = 8;

/// Counters and histograms of one topic at one destination, looked up once.
pub(crate) struct Meters {
    success: Meter,
    failure: Meter,
    rejected: Meter,
    unavailable: Meter,
    pub(crate) end_to_end: Histogram,
    pub(crate) attempts: Histogram,
}

pub(crate) struct Meter {
    pub(crate) total: Counter,
    pub(crate) latency: Histogram,
}

impl Meters {
    fn new(table: &str, topic: &str, destination: &str) -> Self {
        let meter = |result: &'static str| Meter {
            total: counter!(
                "outbox_dispatch_total", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned(), "result" => result
            ),
            latency: histogram!(
                "outbox_dispatch_latency_seconds", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned(), "result" => result
            ),
        };
        Self {
            success: meter("success"),
            failure: meter("failure"),
            rejected: meter("rejected"),
            unavailable: meter("unavailable"),
            end_to_end: histogram!(
                "outbox_process_latency_seconds", "table" => table.to_owned(), "topic" => topic.to_owned(),
                "destination" => destination.to_owned()
            ),
            attempts: histogram!(
                "outbox_attempts", "table" => table.to_owned(), "topic" => topic.to_owned()
            ),
        }
    }

    pub(crate) fn of(&self, outcome: &Outcome) -> &Meter {
        match outcome {
            Outcome::Delivered => &self.success,
            Outcome::Retry(_) | Outcome::RetryAfter(..) | Outcome::Busy(..) => &self.failure,
            Outcome::Reject(_) => &self.rejected,
            Outcome::Unavailable(_) => &self.unavailable,
        }
    }
}

/// The meters of every topic seen so far.
pub(crate) struct Observer {
    pub(crate) table: String,
    mask_tenant: bool,
    /// By destination and topic.
    meters: Mutex<HashMap<usize, HashMap<String, Arc<Meters>>>>,
    /// Those that are told apart.
    topics: Mutex<HashSet<String>>,
    deaths: AtomicU64,
}

impl Observer {
    pub(crate) fn new(table: String, mask_tenant: bool) -> Self {
        Self {
            table,
            mask_tenant,
            meters: Mutex::default(),
            topics: Mutex::default(),
            deaths: AtomicU64::new(0),
        }
    }

    pub(crate) fn meters(&self, topic: &str, destination: (usize, &str)) -> Arc<Meters> {
        let (place, name) = destination;
        let mut meters = self.meters.lock().expect("not poisoned");
        let meters = meters.entry(place).or_default();
        match meters.get(topic) {
            Some(known) => known.clone(),
            None => {
                let topic = self.label(topic);
                let new = || Arc::new(Meters::new(&self.table, topic, name));
                meters.entry(topic.to_owned()).or_insert_with(new).clone()
            }
        }
    }

    /// What metrics call a topic: there is a bounded number of labels.
    fn label<'t>(&self, topic: &'t str) -> &'t str {
        let mut topics = self.topics.lock().expect("not poisoned");
        if topics.len() < TOPICS && !topics.contains(topic) {
            topics.insert(topic.to_owned());
        }
        match topics.contains(topic) {
            true => topic,
            false => OTHER,
        }
    }

    /// The tenant as it may stand in a log.
    pub(crate) fn tenant(&self, tenant_id: Option<Uuid>) -> String {
        match (tenant_id, self.mask_tenant) {
            (None, _) => String::new(),
            (Some(_), true) => "***".to_owned(),
            (Some(tenant), false) => tenant.to_string(),
        }
    }

    pub(crate) fn died(&self, died: &Died) {
        self.count_death(&died.topic, died.reason);
        tracing::error!(
            table = self.table, topic = died.topic, id = %died.id, tenant = self.tenant(died.tenant_id),
            sequence = died.sequence, attempts = died.attempts, reason = %died.reason, "an event is dead"
        );
    }

    pub(crate) fn count_death(&self, topic: &str, reason: posthaste::DeadReason) {
        self.deaths.fetch_add(1, Memory::Relaxed);
        counter!(
            "outbox_dead_total", "table" => self.table.clone(),
            "topic" => self.label(topic).to_owned(), "result" => reason.as_str()
        )
        .increment(1);
    }

    pub(crate) fn deaths(&self) -> u64 {
        self.deaths.load(Memory::Relaxed)
    }

    pub(crate) fn gauge(&self, name: &'static str, value: f64) {
        metrics::gauge!(name, "table" => self.table.clone()).set(value);
    }

    pub(crate) fn count(&self, name: &'static str, n: u64) {
        counter!(name, "table" => self.table.clone()).increment(n);
    }

    pub(crate) fn seconds(&self, name: &'static str, seconds: f64) {
        histogram!(name, "table" => self.table.clone()).record(seconds);
    }

    /// A number of things.
    pub(crate) fn number(&self, name: &'static str, number: usize) {
        histogram!(name, "table" => self.table.clone()).record(number as f64);
    }

    pub(crate) fn store_failed(&self, code: &'static str) {
        counter!("outbox_store_errors_total", "table" => self.table.clone(), "result" => code)
            .increment(1);
    }

    /// Says from the beginning what will be told later: a rule over what is not there yet is blind.
    pub(crate) fn begin<'d>(&self, destinations: impl Iterator<Item = &'d str>, leads: bool) {
        for name in [
            "outbox_lost_leases_total",
            "outbox_cleaned_total",
            "outbox_redelivered_total",
        ] {
            self.count(name, 0);
        }
        self.paused("", false);
        for destination in destinations {
            self.circuit(destination, false);
            self.paused(destination, false);
        }
        self.gauge("outbox_relay_leader", if leads { 1.0 } else { 0.0 });
    }

    pub(crate) fn in_hand(&self, (events, bytes): (usize, usize), limit: usize) {
        self.gauge("outbox_in_flight", events as f64);
        self.gauge("outbox_in_flight_bytes", bytes as f64);
        self.gauge("outbox_in_flight_limit", limit as f64);
    }

    pub(crate) fn circuit(&self, destination: &str, open: bool) {
        metrics::gauge!(
            "outbox_circuit_open", "table" => self.table.clone(), "destination" => destination.to_owned()
        )
        .set(if open { 1.0 } else { 0.0 });
    }

    /// Without a destination, it is the outbox that is paused.
    pub(crate) fn paused(&self, destination: &str, paused: bool) {
        metrics::gauge!(
            "outbox_paused", "table" => self.table.clone(), "destination" => destination.to_owned()
        )
        .set(if paused { 1.0 } else { 0.0 });
    }

    /// What is known of how the database copes.
    pub(crate) fn health(&self, health: &Health) {
        let known = [
            (
                "outbox_table_bytes",
                health.table_bytes.or(health.file_bytes),
            ),
            ("outbox_index_bytes", health.index_bytes),
            ("outbox_dead_rows", health.dead_rows),
            ("outbox_database_connections", health.connections),
            ("outbox_database_connection_limit", health.connection_limit),
        ];
        for (name, number) in known {
            if let Some(number) = number {
                self.gauge(name, number as f64);
            }
        }
        let holder = health.oldest_transaction.as_ref();
        let age = holder.map_or(0.0, |holder| holder.age.as_secs_f64());
        // Who is not told of the transactions of others must not say that there are none.
        if health.sees_transactions || holder.is_some() {
            self.gauge("outbox_oldest_transaction_seconds", age);
        }
    }

    pub(crate) fn stats(&self, stats: &Stats) {
        if let Some(enqueued) = stats.enqueued {
            counter!("outbox_enqueued_total", "table" => self.table.clone()).absolute(enqueued);
        }
        self.gauge("outbox_pending", stats.pending as f64);
        self.gauge("outbox_processing", stats.processing as f64);
        self.gauge("outbox_dead", stats.dead as f64);
        self.gauge("outbox_stuck", stats.stuck as f64);
        self.gauge(
            "outbox_oldest_age_seconds",
            stats.oldest_pending.as_secs_f64(),
        );
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    match text {
        Some(text) => format!("panicked: {text}"),
        None => "panicked".to_owned(),
    }
}

/// An error as it may be told: no secret, no payload, not too long.
pub(crate) fn presentable(error: &str, payload: &[u8]) -> String {
    presentable_within(error, payload, ERROR_LIMIT)
}

/// The same, of at most this many bytes.
pub(crate) fn presentable_within(error: &str, payload: &[u8], limit: usize) -> String {
    let mut text = without_payload(error, payload, PAYLOAD_RUN);
    // No database holds a NUL, and what stands for it is longer: first of all, then the cut.
    text = without_secrets(&text).replace('\0', "\u{fffd}");
    if text.len() > limit {
        let mut end = limit;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

/// Hides what a text shares with a payload, in runs of at least this many bytes, 8 to 16. Backslashes do not
/// count: a payload of JSON may be quoted within JSON.
pub(crate) fn without_payload(text: &str, payload: &[u8], run: usize) -> String {
    let run = run.min(payload.len());
    if run < SHORTEST_RUN {
        return text.to_owned();
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
    let mut hidden = vec![false; bytes.len()];
    for (at, window) in asked.iter().enumerate() {
        if shared.contains(window) {
            hidden[places[at]..=places[at + run - 1]].fill(true);
        }
    }
    for value in values(payload) {
        for (at, _) in text.match_indices(&value) {
            let end = at + value.len();
            let before = text[..at].chars().next_back();
            let beside = [before, text[end..].chars().next()];
            // As a whole, and not within another word.
            if !beside.into_iter().flatten().any(char::is_alphanumeric) {
                hidden[at..end].fill(true);
            }
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for (at, c) in text.char_indices() {
        if !hidden[at] {
            out.push(c);
        } else if !within {
            out.push_str("[payload]");
        }
        within = hidden[at];
    }
    out
}

/// The values of a JSON payload that an error is not to repeat, short as they are.
fn values(payload: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = match serde_json::from_slice(payload) {
        Ok(value) => vec![value],
        Err(_) => Vec::new(),
    };
    while let Some(value) = left.pop() {
        let text = match value {
            Value::Array(items) => {
                left.extend(items);
                continue;
            }
            Value::Object(fields) => {
                left.extend(fields.into_iter().map(|(_, value)| value));
                continue;
            }
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) => continue,
        };
        let is_word = text.bytes().all(|b| b.is_ascii_alphabetic());
        if text.len() >= if is_word { WORD } else { VALUE } {
            found.push(text);
        }
        if found.len() >= VALUES {
            break;
        }
    }
    found
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

/// Hides passwords in addresses, and what follows names that secrets go by.
fn without_secrets(text: &str) -> String {
    const NAMES: [&str; 11] = [
        "password",
        "passwd",
        "pwd",
        "secret",
        "token",
        "api_key",
        "apikey",
        "api-key",
        "authorization",
        "access_key",
        "sasl.password",
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("://") {
            out.push_str("://");
            let end = after
                .find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c))
                .unwrap_or(after.len());
            match after[..end].rfind('@') {
                Some(at) => {
                    out.push_str("***");
                    rest = &after[at..];
                }
                None => rest = after,
            }
            continue;
        }
        let name = NAMES.iter().find(|name| {
            rest.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        });
        if let Some(name) = name {
            let (shown, after) = rest.split_at(name.len());
            let value = after.trim_start_matches(['"', '\'', ' ', '=', ':']);
            let separator = &after[..after.len() - value.len()];
            if separator.contains(['=', ':']) {
                let value = ["Bearer ", "bearer ", "Basic ", "basic "]
                    .iter()
                    .find_map(|scheme| value.strip_prefix(scheme))
                    .unwrap_or(value);
                let end = value
                    .find(|c: char| c.is_whitespace() || "&,;\"')}]".contains(c))
                    .unwrap_or(value.len());
                out.push_str(shown);
                out.push_str(separator);
                out.push_str("***");
                rest = &value[end..];
                continue;
            }
        }
        let c = rest.chars().next().expect("not empty");
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // B13
    #[test]
    fn an_error_is_cut_to_2048_bytes_at_a_character() {
        let long = "é".repeat(4000);
        let kept = presentable(&long, b"");
        assert_eq!(kept.len(), 2048);
        assert!(presentable(&format!("x{long}"), b"").len() == 2047);
        assert!(presentable(&"\0".repeat(2048), b"").len() <= 2048);
    }

    // B13
    #[test]
    fn secrets_are_hidden() {
        for (error, shown) in [
            (
                "cannot reach amqp://guest:s3cr3t@mq:5672/v",
                "cannot reach amqp://***@mq:5672/v",
            ),
            (
                "postgres://u:p@ss@h/db failed",
                "postgres://***@h/db failed",
            ),
            (
                "host=h password=s3cr3t user=u",
                "host=h password=*** user=u",
            ),
            ("Authorization: Bearer abc.def", "Authorization: ***"),
            (
                r#"{"api_key": "k", "a": 1}"#,
                r#"{"api_key": "***", "a": 1}"#,
            ),
            ("?token=abc&x=1", "?token=***&x=1"),
            ("the token has expired", "the token has expired"),
            ("see https://example.com/a", "see https://example.com/a"),
        ] {
            assert_eq!(presentable(error, b""), shown);
        }
    }

    // B13
    #[test]
    fn the_payload_is_never_in_an_error() {
        let payload = br#"{"card":"4111111111111111","name":"Ada"}"#;
        let error = format!("400: cannot parse {}", String::from_utf8_lossy(payload));
        assert_eq!(presentable(&error, payload), "400: cannot parse [payload]");
        let excerpt = r#"at column 3: `card":"4111111111111111"` is odd"#;
        assert!(!presentable(excerpt, payload).contains("4111111111111111"));
        assert_eq!(presentable("timed out", payload), "timed out");
        assert_eq!(presentable("error 1", b"1"), "error 1");
    }

    // B13
    #[test]
    fn no_value_of_the_payload_is_in_an_error_however_short() {
        let payload = br#"{"card": "4111-1111", "of": {"name": "Ada Lovelace", "city": "Rome"}, "sum": [1995, 7]}"#;
        for (error, shown) in [
            (
                "400: unknown customer Ada Lovelace",
                "400: unknown customer [payload]",
            ),
            ("bad card '4111-1111'", "bad card '[payload]'"),
            ("1995 is too much", "[payload] is too much"),
            // Within other words, and what any error may say.
            ("HTTP/1.1 71995", "HTTP/1.1 71995"),
            ("all roads lead to Rome, 7", "all roads lead to Rome, 7"),
        ] {
            assert_eq!(presentable(error, payload), shown);
        }
    }

    // B16
    #[test]
    fn labels_are_bounded_however_many_topics_there_are() {
        let observer = Observer::new("outbox".to_owned(), false);
        for n in 0..TOPICS + 100 {
            observer.meters(&format!("shop.order-{n}.placed.v1"), (0, "log"));
        }
        let meters = observer.meters.lock().unwrap();
        assert_eq!(meters[&0].len(), TOPICS + 1);
        assert!(meters[&0].contains_key(OTHER));
    }

    // B13
    #[test]
    fn a_payload_is_found_also_as_json_within_json_and_far_behind() {
        let payload = br#"{"card":"4111111111111111","name":"Ada"}"#;
        let quoted = serde_json::json!({ "got": String::from_utf8_lossy(payload) }).to_string();
        assert_eq!(presentable(&quoted, payload), r#"{"got":"[payload]"}"#);
        let url = br#"{"at":"https://shop.example/a/b"}"#;
        let as_php_writes = r#"bad: https:\/\/shop.example\/a\/b"#;
        assert_eq!(presentable(as_php_writes, url), "bad: [payload]");
        let mut long = vec![b'x'; 1_000_000];
        long.extend_from_slice(payload);
        assert!(!presentable(&quoted, &long).contains("4111"));
    }
}
