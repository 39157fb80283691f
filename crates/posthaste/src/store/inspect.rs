//! What an operator asks a store for: which events, what they say, how they ended, who acted on them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Scope;
use crate::event::{DeadReason, Record, Status};
use crate::pattern::Pattern;

/// No event has been there for so long.
const EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Which events to list or count. Empty: all. What is given must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only these.
    pub scope: Scope,
    /// Only with one of these. Empty: any.
    pub status: Vec<Status>,
    /// Only these. Empty: any.
    pub ids: Vec<Uuid>,
    /// Only of topics that match.
    pub topic: Option<Pattern>,
    /// Only enqueued longer ago than this, by the database's clock.
    pub older_than: Option<Duration>,
    /// Only enqueued since this long ago, by the database's clock.
    pub newer_than: Option<Duration>,
    /// Only delivered or dead for longer than this, by the database's clock.
    pub ended_for: Option<Duration>,
    /// Only with this text in their last error, in upper and lower case as given.
    pub error: Option<String>,
    /// Only dead of an error with this [`fingerprint`](super::fingerprint). Empty: of none.
    pub fingerprint: Option<String>,
    /// Only dead for this reason.
    pub reason: Option<DeadReason>,
    /// Only of this type.
    pub event_type: Option<String>,
    /// Only of aggregates of this type.
    pub aggregate_type: Option<String>,
    /// Only of the aggregates with this id.
    pub aggregate_id: Option<String>,
    /// Only after this sequence, to read on from a page.
    pub after: Option<i64>,
}

impl Filter {
    /// Whether nothing but the status decides, however it is put: what a careful tool does only if told twice.
    pub fn is_everything(&self) -> bool {
        let Self {
            scope,
            status: _,
            ids,
            topic,
            older_than,
            newer_than,
            ended_for,
            error,
            fingerprint,
            reason,
            event_type,
            aggregate_type,
            aggregate_id,
            after: _,
        } = self;
        *scope == Scope::default()
            && ids.is_empty()
            && topic.as_ref().is_none_or(Pattern::says_nothing)
            && older_than.is_none_or(|age| age.is_zero())
            && newer_than.is_none_or(|age| age >= EVER)
            && ended_for.is_none_or(|time| time.is_zero())
            && error.as_ref().is_none_or(String::is_empty)
            && fingerprint.is_none()
            && reason.is_none()
            && event_type.is_none()
            && aggregate_type.is_none()
            && aggregate_id.is_none()
    }

    /// The same of dead events only. `None`: none of them is meant.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn of_the_dead(&self) -> Option<Self> {
        let any = self.status.is_empty() || self.status.contains(&Status::Dead);
        (any && !self.matches_nothing()).then(|| Self {
            status: vec![Status::Dead],
            ..self.clone()
        })
    }

    /// Whether a text holds NUL: no event does, and a database may refuse to be asked for it.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(super) fn matches_nothing(&self) -> bool {
        let texts = [
            &self.scope.namespace,
            &self.error,
            &self.fingerprint,
            &self.event_type,
            &self.aggregate_type,
            &self.aggregate_id,
        ];
        let pattern = self.topic.as_ref().map(Pattern::as_str);
        texts
            .into_iter()
            .flatten()
            .map(String::as_str)
            .chain(self.scope.topics.iter().map(String::as_str))
            .chain(pattern)
            .any(|text| text.contains('\0'))
    }
}

/// What an event says. Kept apart from its [`Record`]: not everybody who may see that an event
/// is there may also read it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// What the payload is.
    pub content_type: String,
    /// The headers. Of an event that is malformed, values that are no texts are shown as JSON.
    pub headers: BTreeMap<String, String>,
    /// The payload, untouched.
    pub payload: Bytes,
}

impl Content {
    /// From what is stored, the headers being JSON of any kind.
    pub(super) fn new(content_type: String, headers: &[u8], payload: Bytes) -> Self {
        let headers = match serde_json::from_slice(headers) {
            Ok(Value::Object(headers)) => texts(headers),
            Ok(other) => BTreeMap::from([(String::new(), text(other))]),
            Err(_) => BTreeMap::new(),
        };
        Self {
            content_type,
            headers,
            payload,
        }
    }
}

/// Headers that may be those of a malformed event, as texts.
pub(super) fn texts(headers: Map<String, Value>) -> BTreeMap<String, String> {
    let texts = headers.into_iter().map(|(name, value)| (name, text(value)));
    texts.collect()
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// When an event was delivered or died: where to go on following with [`finished`].
///
/// [`finished`]: super::Store::finished
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// When, by the database's clock.
    pub at: SystemTime,
    /// Which of those that ended at the same time.
    pub sequence: i64,
}

impl Mark {
    /// Before everything.
    pub const START: Self = Self {
        at: SystemTime::UNIX_EPOCH,
        sequence: i64::MIN,
    };

    /// This much earlier.
    pub fn back(self, by: Duration) -> Self {
        Self {
            at: self.at.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH),
            sequence: i64::MIN,
        }
    }
}

impl Record {
    /// When it was delivered or died, if it did.
    pub fn mark(&self) -> Option<Mark> {
        self.delivered_at.or(self.dead_at).map(|at| Mark {
            at,
            sequence: self.sequence,
        })
    }
}

/// What an operator did to one event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// When.
    pub at: SystemTime,
    /// Who.
    pub actor: String,
    /// What: `redeliver`, `discard`, `clean`, `pause`, `resume`, or an act on a job, such as `start job`.
    pub act: String,
    /// To which event. Nil: to no single one.
    pub event_id: Uuid,
    /// The topic of the event.
    pub topic: String,
    /// Why.
    pub why: String,
}

impl Audit {
    /// Where a page that began at `from` ended. Entries have no numbers: it is the time of the last one,
    /// and how many of that very time were told.
    pub fn last(page: &[Self], from: Option<Mark>) -> Option<Mark> {
        let at = page.last()?.at;
        let mut told = page.iter().filter(|entry| entry.at == at).count() as i64;
        if let Some(from) = from.filter(|from| from.at == at) {
            told += from.sequence;
        }
        Some(Mark { at, sequence: told })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K6, B18
    #[test]
    fn a_filter_that_leaves_nothing_out_is_told_from_one_that_does() {
        let any = Filter::default;
        for everything in [
            any(),
            Filter {
                status: vec![Status::Dead],
                after: Some(7),
                ..any()
            },
            Filter {
                topic: Some(Pattern::new("**")),
                ..any()
            },
            Filter {
                topic: Some(Pattern::new("?*")),
                ..any()
            },
            Filter {
                newer_than: Some(Duration::from_secs(100 * 365 * 86_400)),
                ..any()
            },
            Filter {
                older_than: Some(Duration::ZERO),
                error: Some(String::new()),
                ..any()
            },
        ] {
            assert!(everything.is_everything(), "{everything:?}");
        }
        for some in [
            Filter {
                ids: vec![Uuid::nil()],
                ..any()
            },
            Filter {
                topic: Some(Pattern::new("shop.*")),
                ..any()
            },
            Filter {
                topic: Some(Pattern::new("")),
                ..any()
            },
            Filter {
                topic: Some(Pattern::new("?")),
                ..any()
            },
            Filter {
                newer_than: Some(Duration::from_secs(365 * 86_400)),
                ..any()
            },
            Filter {
                reason: Some(DeadReason::Rejected),
                ..any()
            },
            Filter {
                scope: Scope {
                    namespace: Some(String::new()),
                    ..Scope::default()
                },
                ..any()
            },
        ] {
            assert!(!some.is_everything(), "{some:?}");
        }
    }

    #[test]
    fn headers_of_a_malformed_event_are_shown_as_they_are() {
        let shown = |json: &str| {
            Content::new(String::new(), json.as_bytes(), Bytes::new())
                .headers
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(shown(r#"{"a": "b", "c": [1]}"#), "a=b c=[1]");
        assert_eq!(shown("[1]"), "=[1]");
        assert_eq!(shown("{"), "");
    }
}
