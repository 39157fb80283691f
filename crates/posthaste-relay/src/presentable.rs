//! Errors fit to be kept and told: no secret, no payload, not too long. Pure.

mod payload;
mod secret;

use std::any::Any;

/// The longest error that is kept with an event, unless the settings say otherwise.
pub(crate) const ERROR_LIMIT: usize = 2048;
/// A run of this many bytes that error and payload share is taken as a piece of the payload.
const PAYLOAD_RUN: usize = 16;
/// What is shorter is in any text by chance, such as a payload of `1`.
pub(crate) const SHORTEST_RUN: usize = 8;
/// So many times as much is looked at as may be told: the rest of an error may follow a payload that is hidden.
const LOOKED_AT: usize = 8;
/// And so much beyond that: what follows may tell that something is a secret.
const AHEAD: usize = 1024;

/// What becomes of a byte of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Shown,
    Secret,
    Payload,
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
    let text = redacted(error, &[payload], PAYLOAD_RUN, limit);
    // No database holds a NUL, and what stands for it is longer: first of all, then the cut.
    cut(&text.replace('\0', "\u{fffd}"), limit).to_owned()
}

/// So much of a text, at most.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// What a text says in about so many bytes, without secrets and without what it shares with payloads, in runs of at least
/// so many bytes, 8 to 16.
pub(crate) fn redacted(text: &str, payloads: &[&[u8]], run: usize, limit: usize) -> String {
    let most = limit.saturating_mul(LOOKED_AT);
    let text = cut(text, most.saturating_add(AHEAD));
    // In the text as it came: what one of them hides may be what another one is recognised by.
    let mut marks = vec![Mark::Shown; text.len()];
    secret::mark(text, &mut marks);
    for payload in payloads {
        payload::mark(text, payload, run, &mut marks);
    }
    let is_shown = |at: usize| marks[at] == Mark::Shown;
    let chars: Vec<(usize, char)> = text
        .char_indices()
        .take_while(|(at, _)| *at < most)
        .collect();
    let mut out = String::with_capacity(chars.len());
    for alike in chars.chunk_by(|(a, _), (b, _)| is_shown(*a) == is_shown(*b)) {
        match alike.first() {
            Some((at, _)) if is_shown(*at) => out.extend(alike.iter().map(|(_, c)| c)),
            _ if alike.iter().any(|(at, _)| marks[*at] == Mark::Payload) => {
                out.push_str("[payload]")
            }
            _ => out.push_str("***"),
        }
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
            ("at a://u:p'w@h now, b@c", "at a://***@h now, b@c"),
            ("sent Basic dXNlcjpw, got 401", "sent Basic ***, got 401"),
            (
                "authorization: Digest username=\"u\", response=\"r\"\n403",
                "authorization: ***\n403",
            ),
            ("basic access is off", "basic access is off"),
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

    // B13
    #[test]
    fn a_payload_uncovers_no_secret_and_a_secret_no_payload() {
        let payload = br#"{"grant_type":"password","code":"Authorization: Bearer "}"#;
        for (error, shown) in [
            ("h password=s3cr3t u", "h [payload]=*** u"),
            ("Authorization: Bearer abc", "[payload]"),
        ] {
            assert_eq!(presentable(error, payload), shown);
        }
        let payload = br#"{"token":"s3cr3t-and-more","name":"Ada"}"#;
        let quoted = format!("bad: {}", String::from_utf8_lossy(payload));
        assert_eq!(presentable(&quoted, payload), "bad: [payload]");
    }

    // B13
    #[test]
    fn what_follows_a_long_payload_is_told_and_no_secret_by_being_cut() {
        let payload = "x".repeat(5000);
        let error = format!("400: {payload} is odd");
        assert_eq!(
            presentable(&error, payload.as_bytes()),
            "400: [payload] is odd"
        );
        // What would tell that it is a password lies beyond what is looked at.
        for before in 0..40 {
            let before = "[".repeat(ERROR_LIMIT * LOOKED_AT - before);
            let error = format!("{before} a://user:hunter2@h");
            let redacted = redacted(&error, &[], PAYLOAD_RUN, ERROR_LIMIT);
            assert!(!redacted.contains("hun"), "{redacted}");
        }
    }

    // B8: not even an answer made for it keeps a relay busy. Were all of it looked at, this would take hours.
    #[test]
    fn what_a_text_is_full_of_costs_little() {
        for piece in [
            "://",
            "://a:b",
            "://a:b/",
            "token=,",
            "token=",
            "Bearer a",
            "password \"",
            "é://a:b@",
        ] {
            let text = piece.repeat((16 << 20) / piece.len());
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
