//! What an answer means for the event, and what may be told of it.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use crate::presentable::{SHORTEST_RUN, cut, redacted};
use crate::sink::Outcome;

/// How much of an answer is read, and for how long.
const READ_LIMIT: usize = 64 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);
/// How much of it goes into an error.
const EXCERPT: usize = 256;
/// What is shorter is in any text by chance.
const SECRET: usize = 6;

/// The outcome that an answer stands for. `told` is what an error must not tell: secrets, and
/// what was sent.
pub(super) async fn outcome(response: Response, told: Told<'_>) -> Outcome {
    let status = response.status();
    let wish = retry_after(response.headers(), SystemTime::now());
    // Also of an answer that nobody looks at: only then can the connection be used again.
    let text = read(response).await;
    if status.is_success() {
        return Outcome::Delivered;
    }
    let why = match told.excerpt(&text) {
        excerpt if excerpt.is_empty() => format!("the endpoint answered {status}"),
        excerpt => format!("the endpoint answered {status}: {excerpt}"),
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            again(why, wish, Outcome::Busy)
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
            again(why, wish, Outcome::RetryAfter)
        }
        _ if status.is_server_error() => again(why, wish, Outcome::RetryAfter),
        _ if status.is_redirection() => Outcome::Reject(format!(
            "{why} (redirects are not followed: change the URL)"
        )),
        _ => Outcome::Reject(why),
    }
}

fn again(why: String, wish: Option<Duration>, later: fn(String, Duration) -> Outcome) -> Outcome {
    match wish {
        Some(wish) => later(why, wish),
        None => Outcome::Retry(why),
    }
}

/// For how long the endpoint wants to be left alone: a number of seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The beginning of an answer, as much of it as comes soon.
async fn read(mut response: Response) -> Vec<u8> {
    let mut text = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = READ_LIMIT - text.len();
            text.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if text.len() == READ_LIMIT {
                return;
            }
        }
    };
    // Ended or not: the status is what counts.
    let _ = tokio::time::timeout(READ_TIME, reading).await;
    text
}

/// What was sent, and must not come back in an error.
#[derive(Clone, Copy)]
pub(super) struct Told<'t> {
    pub(super) secrets: &'t [String],
    pub(super) body: &'t [u8],
    /// What is in the body, maybe in another form, such as base64.
    pub(super) payload: &'t [u8],
    /// The body is compressed: what it says could not be recognised, so nothing is quoted.
    pub(super) is_compressed: bool,
}

impl Told<'_> {
    /// The first words of an answer, in one line.
    fn excerpt(self, text: &[u8]) -> String {
        if self.is_compressed {
            return String::new();
        }
        let mut text = String::from_utf8_lossy(text).into_owned();
        for secret in self.secrets.iter().filter(|secret| secret.len() >= SECRET) {
            text = text.replace(secret.as_str(), "***");
            // As some write it within JSON.
            text = text.replace(&secret.replace('/', "\\/"), "***");
        }
        let sent = match self.payload == self.body {
            true => &[self.body][..],
            false => &[self.body, self.payload],
        };
        // Whoever quotes what it was sent often quotes little of it: one value.
        let text = redacted(&text, sent, SHORTEST_RUN, 4 * EXCERPT);
        let words = text.split(|c: char| c.is_whitespace() || c.is_control() || c == '\u{fffd}');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        cut(&words.join(" "), EXCERPT).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_wish_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            let wish = retry_after(&headers, now).map(|wish| wish.as_secs());
            assert_eq!(wish, seconds, "{text}");
        }
    }

    // B13
    #[test]
    fn an_excerpt_is_short_and_tells_neither_secret_nor_payload() {
        let body = br#"{"card":"4111111111111111","ssn":"078-05-1120"}"#;
        let told = Told {
            secrets: &["s3cr3t/value".to_owned()],
            body,
            payload: body,
            is_compressed: false,
        };
        let of = |text: &str| told.excerpt(text.as_bytes());
        assert_eq!(of("no such\r\n  field\0"), "no such field");
        assert_eq!(of("x-key was s3cr3t/value."), "x-key was ***.");
        assert_eq!(of(r"x-key was s3cr3t\/value."), "x-key was ***.");
        assert_eq!(of("ssn 078-05-1120 is invalid"), "ssn [payload] is invalid");
        assert!(!of(r#"bad: {"card":"4111111111111111"}"#).contains("4111"));
        assert_eq!(of(r#"token=abc of "ssn":"07"#), "token=*** of [payload]");
        assert!(of(&"é".repeat(4000)).len() <= EXCERPT);
        assert_eq!(of(""), "");
        let compressed = Told {
            is_compressed: true,
            ..told
        };
        assert_eq!(compressed.excerpt(b"name Ada is odd"), "");
    }
}
