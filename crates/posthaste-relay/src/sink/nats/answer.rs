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
    #[serde(default)]
    duplicate: bool,
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

impl Refusal {
    fn told(&self, subject: &str) -> String {
        let Self {
            err_code,
            description,
            ..
        } = self;
        format!("subject {subject:?}: {description} ({err_code})")
    }
}

/// The numbers of refusals that mean something in particular.
const TOO_LARGE: u32 = 10054;
const NOT_STORED: u32 = 10077;
const ACCOUNT_FULL: u32 = 10002;
const ACCOUNT_WITHOUT_ROOM: u32 = 10120;
const UNDER_WAY: u32 = 10158;
const TOO_MANY_AT_ONCE: u16 = 429;
/// A file takes no record of more than 32 MiB, and the first servers that say so misspell it.
const MESSAGE_TOO_LARGE: [&str; 3] = [
    "message size exceeds maximum allowed",
    "message too large",
    "message to large",
];

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    This(Outcome),
    /// An earlier try is still under way: a stream without a quorum knows the id, and has not stored the event.
    UnderWay(String),
}

/// Delivered, if a stream says that it has stored it, or had it before.
pub(super) fn read(subject: &str, answer: &[u8]) -> Said {
    match serde_json::from_slice(answer) {
        Ok(Answer {
            error: Some(refusal),
            ..
        }) if refusal.err_code == UNDER_WAY => Said::UnderWay(refusal.told(subject)),
        Ok(Answer {
            error: Some(refusal),
            ..
        }) => Said::This(refused(subject, &refusal)),
        Ok(Answer {
            stream,
            seq: 1..,
            error: None,
            ..
        }) if !stream.is_empty() => Said::This(Outcome::Delivered),
        // As servers before 2.10.19 say it.
        Ok(Answer {
            duplicate: true, ..
        }) => Said::UnderWay(format!("subject {subject:?}: an earlier try is under way")),
        // Somebody else listens there, too, and was faster.
        _ => Said::This(Outcome::Retry(format!(
            "what was answered is no acknowledgement of JetStream: \
             does something else answer on subject {subject:?}?"
        ))),
    }
}

fn refused(subject: &str, refusal: &Refusal) -> Outcome {
    let Refusal {
        code,
        err_code,
        description,
    } = refusal;
    let why = refusal.told(subject);
    match (*err_code, &**description) {
        (TOO_LARGE, _) => Outcome::Reject(why),
        (_, text) if MESSAGE_TOO_LARGE.contains(&text) => Outcome::Reject(why),
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
        let delivered =
            |answer: &str| read("a", answer.as_bytes()) == Said::This(Outcome::Delivered);
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
            match read("a", answer.as_bytes()) {
                Said::This(outcome) => outcome,
                other => panic!("{other:?}"),
            }
        };
        let too_large = refused(400, 10054, "message size exceeds maximum allowed");
        assert!(matches!(too_large, Outcome::Reject(_)));
        let full = refused(503, 10077, "maximum messages exceeded");
        assert!(matches!(full, Outcome::Unavailable(_)));
        let subject_full = refused(503, 10077, "maximum messages per subject exceeded");
        assert!(matches!(subject_full, Outcome::Retry(_)));
        let no_jetstream = refused(503, 10039, "jetstream not enabled for account");
        assert!(matches!(no_jetstream, Outcome::Unavailable(_)));
        for too_large_for_a_file in ["message to large", "message too large"] {
            let refused = refused(503, 10077, too_large_for_a_file);
            assert!(matches!(refused, Outcome::Reject(_)));
        }
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

    // F9
    #[test]
    fn what_is_under_way_is_neither_stored_nor_refused() {
        for answer in [
            r#"{"stream":"S","seq":0,"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}"#,
            r#"{"stream":"S","seq":0,"duplicate":true}"#,
        ] {
            let said = read("a", answer.as_bytes());
            assert!(matches!(said, Said::UnderWay(_)), "{said:?}");
        }
    }
}
