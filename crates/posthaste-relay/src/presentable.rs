//! Errors fit to be kept and told: no secret, no payload, not too long. Pure.

use std::any::Any;
use std::collections::HashSet;

use serde_json::Value;

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
/// So far the password in an address is looked for: a text may have thousands of addresses.
const ADDRESS: usize = 512;
/// What is shorter is in any text by chance, such as a payload of `1`.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "for answers"))]
pub(crate) const SHORTEST_RUN: usize = 8;

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
    let text = without_payload(error, payload, PAYLOAD_RUN);
    // No database holds a NUL, and what stands for it is longer: first of all, then the cut.
    let text = without_secrets(&text).replace('\0', "\u{fffd}");
    cut(&text, limit).to_owned()
}

/// So much of a text, at most.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
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
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (shown, hidden) = address(rest)
            .or_else(|| secret(rest))
            .unwrap_or((c.len_utf8(), 0));
        out.push_str(&rest[..shown]);
        if hidden > 0 {
            out.push_str("***");
        }
        rest = &rest[shown + hidden..];
    }
    out
}

/// If this is where the scheme of an address ends: how much of it to show, and of what follows to hide.
fn address(text: &str) -> Option<(usize, usize)> {
    const SCHEME: &str = "://";
    const ENDS: &str = "\"'<>";
    let after = text.strip_prefix(SCHEME)?;
    let near = &after[..after.floor_char_boundary(ADDRESS)];
    let whole = &near[..until(near, ENDS)];
    let goes_on = whole.len() == near.len() && near.len() < after.len();
    let end = whole.find(['/', '?', '#']);
    let authority = &whole[..end.unwrap_or(whole.len())];
    // A password may hold, unescaped, what ends an authority. What follows a colon is a port else.
    let is_cut = match authority.split_once(':') {
        Some((user, port)) => !user.starts_with('[') && !port.bytes().all(|b| b.is_ascii_digit()),
        None => false,
    };
    let at = authority.rfind('@');
    let at = at.or_else(|| whole.rfind('@').filter(|_| is_cut));
    // All of it may be a password, whose end is further away.
    let hidden = match goes_on && (end.is_none() || is_cut && at.is_none()) {
        true => until(after, ENDS),
        false => at.unwrap_or(0),
    };
    Some((SCHEME.len(), hidden))
}

/// If this begins with a name that a secret goes by: how much of it to show, and of what follows to hide.
fn secret(text: &str) -> Option<(usize, usize)> {
    const NAMES: [&str; 13] = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "api_key",
        "apikey",
        "api-key",
        "access_key",
        "private_key",
        "signature",
        AUTHORIZATION,
    ];
    const AUTHORIZATION: &str = "authorization";
    const BEARER: &str = "bearer ";
    let starts_with = |name: &str| {
        let start = text.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    if starts_with(BEARER) {
        let token = &text[BEARER.len()..];
        let token = &token[..until(token, "&,;\"')}]")];
        // No word of a sentence about one.
        let is_token = token.len() > 20 || token.bytes().any(|b| !b.is_ascii_alphabetic());
        return is_token.then_some((BEARER.len(), token.len()));
    }
    let name = NAMES.into_iter().find(|name| starts_with(name))?;
    let value = text[name.len()..].trim_start_matches(['"', '\'', ' ', '=', ':', '\\']);
    let shown = text.len() - value.len();
    let separator = &text[name.len()..shown];
    if !separator.contains(['=', ':']) {
        return None;
    }
    let quote = separator.chars().next_back().filter(|c| "\"'".contains(*c));
    let hidden = match quote {
        // In JSON within JSON.
        Some(_) if separator.ends_with("\\\"") => value.find("\\\"").unwrap_or(value.len()),
        Some(quote) => quoted(value, quote),
        None if name == AUTHORIZATION => value.find(['\r', '\n', '"', '\'']).unwrap_or(value.len()),
        None => {
            let scheme = scheme(value);
            scheme + until(&value[scheme..], "&,;\"')}]")
        }
    };
    Some((shown, hidden))
}

/// How long the name of a scheme is that a secret begins with, such as `Bearer `.
fn scheme(value: &str) -> usize {
    const NAMES: [&str; 4] = ["bearer", "basic", "token", "apikey"];
    match value.split_once(' ') {
        Some((first, _)) if NAMES.iter().any(|name| name.eq_ignore_ascii_case(first)) => {
            first.len() + 1
        }
        _ => 0,
    }
}

/// How long a text is up to white space, or one of these.
fn until(text: &str, ends: &str) -> usize {
    let end = |c: char| c.is_whitespace() || ends.contains(c);
    text.find(end).unwrap_or(text.len())
}

/// How long a text is up to the quote that ends it.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
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
            (
                "postgres://u:p/a#s?s@h/db failed",
                "postgres://***@h/db failed",
            ),
            ("Authorization: Bearer abc.def", "Authorization: ***"),
            (
                "authorization: ApiKey k, n=1\n403",
                "authorization: ***\n403",
            ),
            (
                r#"{"Authorization":"Token t", "a": 1}"#,
                r#"{"Authorization":"***", "a": 1}"#,
            ),
            ("sent Bearer abc.def, got 401", "sent Bearer ***, got 401"),
            (r#"password="p \"s, t" host=h"#, r#"password="***" host=h"#),
            ("signature='a b' is bad", "signature='***' is bad"),
            ("signature=abc", "signature=***"),
            (
                r#"{"api_key": "k", "a": 1}"#,
                r#"{"api_key": "***", "a": 1}"#,
            ),
            ("?token=abc&x=1", "?token=***&x=1"),
            ("X-Auth-Token: Bearer ey.J, n=1", "X-Auth-Token: ***, n=1"),
            (
                r#"got {\"password\":\"hunter2\",\"a\":1}"#,
                r#"got {\"password\":\"***\",\"a\":1}"#,
            ),
            ("the token has expired", "the token has expired"),
            ("no bearer token is there", "no bearer token is there"),
            ("see https://example.com/a", "see https://example.com/a"),
            ("http://example.com:80/a@b", "http://example.com:80/a@b"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ] {
            assert_eq!(presentable(error, b""), shown);
        }
        let long = "p".repeat(600);
        for (error, shown) in [
            (format!("at a://u:{long}@h now"), "at a://*** now"),
            (format!("at a://u:{long}/@h now"), "at a://*** now"),
            (format!("at a://u:p@{long}@h now"), "at a://*** now"),
        ] {
            assert_eq!(presentable(&error, b""), shown);
        }
    }

    // B8: not even an answer made for it keeps a relay busy.
    #[test]
    fn what_a_text_is_full_of_costs_little() {
        for piece in [
            "://",
            "://a:b",
            "://a:b/",
            "token=",
            "Bearer a",
            "password \"",
            "é://a:b@",
        ] {
            let text = piece.repeat(64 * 1024 / piece.len());
            assert!(presentable(&text, b"").len() <= ERROR_LIMIT);
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
    fn values_of_the_payload_are_in_no_error_unless_any_text_may_hold_them() {
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
