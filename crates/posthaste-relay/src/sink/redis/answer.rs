//! What a server's answer means for an event.

use ::redis::{ErrorKind, RedisError, ServerError, Value};

use crate::sink::Outcome;

/// Delivered, if the answer is the id of an entry, such as `1700000000000-0`.
pub(super) fn acknowledged(key: &str, answer: &Value) -> Outcome {
    let text = match answer {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        Value::SimpleString(text) => text,
        _ => "",
    };
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    match text.split_once('-') {
        Some((time, count)) if is_number(time) && is_number(count) => Outcome::Delivered,
        // Something in between answered, and nothing was added.
        _ => Outcome::Retry(format!(
            "what was answered is no id of an entry of stream {key:?}: is it Redis that answers?"
        )),
    }
}

/// What follows from an error that the server answered to an `XADD`.
pub(super) fn outcome(key: &str, error: &ServerError) -> Outcome {
    let (code, said) = (error.code(), without_arguments(error.details()));
    let unavailable = |what: &str| Outcome::Unavailable(format!("{what} ({code} {said})"));
    let retry = |what: String| Outcome::Retry(format!("{what} ({code} {said})"));
    match code {
        "OOM" => unavailable("the server is out of memory: it takes no events until there is room"),
        "READONLY" => unavailable("the server is a replica: deliver to the primary"),
        "MISCONF" => unavailable("the server cannot write to its disk, and refuses all writes"),
        "NOREPLICAS" => unavailable("the server has too few replicas, and refuses all writes"),
        "LOADING" | "MASTERDOWN" | "BUSY" | "TRYAGAIN" => unavailable("the server is not ready"),
        "NOAUTH" | "WRONGPASS" => unavailable("the server wants another user and password"),
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => {
            unavailable("this is a Redis Cluster, which is not supported")
        }
        "WRONGTYPE" => retry(format!("key {key:?} is no stream")),
        "NOPERM" => retry(format!("this user may not add to stream {key:?}")),
        _ => retry(format!("stream {key:?} refused it")),
    }
}

/// Whether another connection might be answered otherwise: after a fail-over the same name leads to another
/// server, of which the one before need not know, and rights that were granted since count for new connections.
pub(super) fn is_about_the_connection(code: &str, outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable(_)) || code == "NOPERM"
}

/// An error in words that hold neither password nor payload.
pub(super) fn told(error: &RedisError) -> String {
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
            "the server refused the user or the password".to_owned()
        }
        (_, Some(code)) => format!("{code} {}", without_arguments(error.detail())),
        _ => without_arguments(Some(&error.to_string())),
    }
}

/// A server that does not know a command quotes its arguments.
fn without_arguments(details: Option<&str>) -> String {
    let details = details.unwrap_or("no details");
    let cut = details.find(", with args").unwrap_or(details.len());
    details[..cut].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisError {
        let (code, detail) = line.split_once(' ').unwrap();
        ::redis::make_extension_error(code.to_owned(), Some(detail.to_owned()))
    }

    // F9: only the id of an entry counts as an acknowledgement.
    #[test]
    fn what_is_no_id_of_an_entry_delivers_nothing() {
        let id = "1700000000000-0";
        for answer in [
            Value::BulkString(id.into()),
            Value::SimpleString(id.to_owned()),
        ] {
            assert_eq!(acknowledged("k", &answer), Outcome::Delivered);
        }
        for answer in [
            Value::Nil,
            Value::Okay,
            Value::Int(1),
            Value::SimpleString("QUEUED".to_owned()),
            Value::BulkString("-".into()),
            Value::BulkString("1700000000000".into()),
            Value::Array(vec![Value::BulkString(id.into())]),
        ] {
            let outcome = acknowledged("k", &answer);
            assert!(matches!(outcome, Outcome::Retry(_)), "{answer:?}");
        }
    }

    // B13
    #[test]
    fn a_command_that_a_server_does_not_know_is_not_quoted_with_what_was_sent() {
        let line =
            "ERR unknown command 'XADD', with args beginning with: 'k' '*' 'payload' 'canary'";
        let told = told(&error(line));
        assert_eq!(told, "ERR unknown command 'XADD'");
    }

    // B13
    #[test]
    fn a_refused_password_is_told_in_our_words() {
        let told = told(&error("WRONGPASS canary is wrong"));
        assert!(
            !told.contains("canary") && told.contains("password"),
            "{told}"
        );
    }
}
