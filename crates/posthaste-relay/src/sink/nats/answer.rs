//! What the answer to a publication means for an event.

use serde::Deserialize;

use crate::sink::Outcome;

/// What JetStream answers.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// The numbers of refusals that mean something in particular.
const TOO_LARGE: u32 = 10054;
const NOT_STORED: u32 = 10077;
const ACCOUNT_FULL: u32 = 10002;
const ACCOUNT_WITHOUT_ROOM: u32 = 10120;
const TOO_MANY_AT_ONCE: u16 = 429;
const MESSAGE_TOO_LARGE_FOR_STORE: &str = "message size exceeds maximum allowed";
/// As servers write it: a file takes no record of more than 32 MiB.
const MESSAGE_TOO_LARGE_FOR_FILE: &str = "message to large";

/// Delivered, if a stream says that it has stored it, or had it before.
pub(super) fn outcome(subject: &str, answer: &[u8]) -> Outcome {
    match serde_json::from_slice(answer) {
        Ok(Answer {
            error: Some(refusal),
            ..
        }) => refused(subject, &refusal),
        Ok(Answer {
            stream,
            seq: 1..,
            error: None,
        }) if !stream.is_empty() => Outcome::Delivered,
        // Somebody else listens there, too, and was faster.
        _ => Outcome::Retry(format!(
            "what was answered is no acknowledgement of JetStream: \
             does something else answer on subject {subject:?}?"
        )),
    }
}

fn refused(subject: &str, refusal: &Refusal) -> Outcome {
    let Refusal {
        code,
        err_code,
        description,
    } = refusal;
    let why = format!("subject {subject:?}: {description} ({err_code})");
    match (*err_code, &**description) {
        (TOO_LARGE, _) | (_, MESSAGE_TOO_LARGE_FOR_STORE | MESSAGE_TOO_LARGE_FOR_FILE) => {
            Outcome::Reject(why)
        }
        // One subject has reached its limit; its stream takes others.
        (NOT_STORED, text) if text.contains("per subject") => Outcome::Retry(why),
        // The account is full, though the code blames who asks.
        (ACCOUNT_FULL | ACCOUNT_WITHOUT_ROOM, _) => Outcome::Unavailable(why),
        // The stream is full, or the server, or there is no leader: nobody's fault, and it passes.
        _ if matches!(*code, 500 | 503 | TOO_MANY_AT_ONCE) => Outcome::Unavailable(why),
        _ => Outcome::Retry(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F9: only what JetStream says counts as an acknowledgement.
    #[test]
    fn what_is_no_acknowledgement_delivers_nothing() {
        let delivered = |answer: &str| outcome("a", answer.as_bytes()) == Outcome::Delivered;
        assert!(delivered(r#"{"stream":"S","seq":1}"#));
        assert!(delivered(
            r#"{"stream":"S","seq":1,"duplicate":true,"domain":"d"}"#
        ));
        for other in [
            "",
            "+ACK",
            "{}",
            "null",
            r#"{"stream":"S"}"#,
            r#"{"stream":"S","seq":0}"#,
            r#"{"stream":"","seq":7}"#,
            r#"{"stream":"S","seq":1,"error":{"code":503}}"#,
        ] {
            assert!(!delivered(other), "{other}");
        }
    }

    // F6 F9
    #[test]
    fn refusals_are_told_apart() {
        let refused = |code: u16, number: u32, text: &str| {
            let answer = format!(
                r#"{{"stream":"S","seq":0,"error":{{"code":{code},"err_code":{number},"description":"{text}"}}}}"#
            );
            outcome("a", answer.as_bytes())
        };
        let too_large = refused(400, 10054, "message size exceeds maximum allowed");
        assert!(matches!(too_large, Outcome::Reject(_)));
        let full = refused(503, 10077, "maximum messages exceeded");
        assert!(matches!(full, Outcome::Unavailable(_)));
        let subject_full = refused(503, 10077, "maximum messages per subject exceeded");
        assert!(matches!(subject_full, Outcome::Retry(_)));
        let no_jetstream = refused(503, 10039, "jetstream not enabled for account");
        assert!(matches!(no_jetstream, Outcome::Unavailable(_)));
        let too_large_for_a_file = refused(503, 10077, "message to large");
        assert!(matches!(too_large_for_a_file, Outcome::Reject(_)));
        for (code, number, text) in [
            (400, 10002, "resource limits exceeded for account"),
            (
                400,
                10120,
                "no JetStream default or applicable tiered limit present",
            ),
            (429, 10167, "too many requests"),
        ] {
            let passes = refused(code, number, text);
            assert!(matches!(passes, Outcome::Unavailable(_)), "{passes:?}");
        }
        let sealed = refused(400, 10109, "invalid operation on sealed stream");
        assert!(matches!(sealed, Outcome::Retry(_)));
    }
}
