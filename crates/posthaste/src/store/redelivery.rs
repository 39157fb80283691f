//! Redelivery as a job: at a rate, step by step, to be paused, resumed and cancelled.
//!
//! A job keeps a filter and how far it got. Ages in the filter count from when the job began, and events
//! that ended since are none of its business: what it redelivered and died again is not sent again.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Filter, StoreError};
use crate::event::{DeadReason, Record, Status};
use crate::pattern::Pattern;

/// What a job is to redeliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// Which events: dead ones if it names no status, or delivered ones if it says so.
    pub filter: Filter,
    /// At most this many a second. `None`: as fast as they come.
    pub rate: Option<u32>,
}

/// A redelivery under way, or one that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// Which events.
    pub filter: Filter,
    /// At most this many a second.
    pub rate: Option<u32>,
    /// Where it stands.
    pub state: JobState,
    /// How many events matched when it began. 0 as well if there were too many to count them in time.
    pub total: u64,
    /// How many it has redelivered.
    pub redelivered: u64,
    /// Who began it.
    pub actor: String,
    /// Why.
    pub why: String,
    /// When it began.
    pub created_at: SystemTime,
    /// When it last changed.
    pub updated_at: SystemTime,
    /// When it was done, or cancelled.
    pub ended_at: Option<SystemTime>,
}

impl Job {
    /// Why a job cannot be worked on.
    pub(super) const UNREADABLE: &str =
        "a job holds what this version cannot read: upgrade posthaste, or cancel the job";

    /// Whether it is this redelivery: of the same events, at the same rate.
    pub fn is(&self, redelivery: &Redelivery) -> bool {
        let rate = redelivery.rate.map(storable_rate);
        let filter = redelivery.meant().ok();
        // As it is read back: times are kept in seconds.
        let filter = filter.and_then(|filter| Filter::from_json(&filter.to_json()));
        self.rate.map(storable_rate) == rate && filter.as_ref() == Some(&self.filter)
    }
}

/// Databases keep no more.
fn storable_rate(rate: u32) -> u32 {
    rate.min(i32::MAX.unsigned_abs())
}

/// A job that was begun, or that was there already.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedJob {
    /// The job.
    pub job: Job,
    /// Whether it was begun just now. `false`: there was one of this id, which stays as it is.
    pub new: bool,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// A relay works on it.
    Running,
    /// Left alone until somebody resumes it.
    Paused,
    /// All its events were redelivered: final.
    Done,
    /// Given up: final. What was redelivered stays so.
    Cancelled,
}

impl JobState {
    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the name in the database.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Paused, Self::Done, Self::Cancelled]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Whether it is over.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }

    /// What the audit log calls it when an operator brings a job there.
    pub(super) fn act(self) -> &'static str {
        match self {
            Self::Running => "resume job",
            Self::Paused => "pause job",
            Self::Done => "end job",
            Self::Cancelled => "cancel job",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Redelivery {
    /// The filter as a job keeps it: of events that can be redelivered, and from the first on.
    pub(super) fn meant(&self) -> Result<Filter, StoreError> {
        let mut filter = self.filter.clone();
        filter.after = None;
        let ended = |status: &Status| matches!(status, Status::Dead | Status::Delivered);
        if !filter.status.iter().all(ended) {
            return Err(StoreError::Settings(
                "only dead and delivered events can be redelivered: leave other statuses out of the filter"
                    .to_owned(),
            ));
        }
        if self.rate == Some(0) {
            return Err(StoreError::Settings(
                "a job that redelivers nothing a second never ends: give a rate of at least 1, or none"
                    .to_owned(),
            ));
        }
        if filter.status.is_empty() {
            filter.status = vec![Status::Dead];
        }
        Ok(filter)
    }
}

/// Why an event was redelivered, for the audit log.
pub(super) fn told(why: &str, job: Uuid) -> String {
    format!("{why} (job {job})")
}

/// For so long a job may save up what its rate allows: a relay that was away does not rush. Slow
/// jobs save up one event.
pub(super) fn savings(rate: u32) -> f64 {
    f64::max(1.0, 1.0 / f64::from(rate.max(1)))
}

impl Filter {
    /// Whether what an operator gave up is meant: it is named, one by one or by its reason.
    pub fn names_discarded(&self) -> bool {
        !self.ids.is_empty() || self.reason.is_some()
    }

    /// Whether an event that matches is to be redelivered. What an operator gave up stays so, unless it
    /// is named.
    pub fn redelivers(&self, record: &Record) -> bool {
        self.names_discarded() || record.dead_reason != Some(DeadReason::Discarded)
    }

    /// Of those that match, the ones that stay given up. `None`: there are none.
    pub fn left_out(&self) -> Option<Self> {
        let may_be_dead = self.status.is_empty() || self.status.contains(&Status::Dead);
        (may_be_dead && !self.names_discarded()).then(|| Self {
            reason: Some(DeadReason::Discarded),
            status: vec![Status::Dead],
            ..self.clone()
        })
    }

    /// The same filter, if its ages count from this long ago.
    #[cfg(feature = "postgres")]
    pub(super) fn as_of(&self, ago: Duration) -> Self {
        let back = |age: Option<Duration>| age.map(|age| age.saturating_add(ago));
        Self {
            older_than: back(self.older_than),
            newer_than: back(self.newer_than),
            ended_for: back(self.ended_for),
            ..self.clone()
        }
    }

    /// As text that can be read back.
    pub(super) fn to_json(&self) -> String {
        let seconds = |age: &Option<Duration>| age.map(|age| age.as_secs_f64());
        let value = json!({
            "namespace": self.scope.namespace,
            "topics": self.scope.topics,
            "tenant_id": self.scope.tenant_id.map(|id| id.to_string()),
            "status": self.status.iter().map(|status| status.as_str()).collect::<Vec<_>>(),
            "ids": self.ids.iter().map(Uuid::to_string).collect::<Vec<_>>(),
            "topic": self.topic.as_ref().map(Pattern::as_str),
            "older_than": seconds(&self.older_than),
            "newer_than": seconds(&self.newer_than),
            "ended_for": seconds(&self.ended_for),
            "error": self.error,
            "fingerprint": self.fingerprint,
            "reason": self.reason.map(DeadReason::as_str),
            "event_type": self.event_type,
            "aggregate_type": self.aggregate_type,
            "aggregate_id": self.aggregate_id,
        });
        let fields = value.as_object().cloned().unwrap_or_default();
        let given: Map<String, Value> = fields
            .into_iter()
            .filter(|(_, value)| !value.is_null() && value.as_array().is_none_or(|a| !a.is_empty()))
            .collect();
        Value::Object(given).to_string()
    }

    /// Reads it back. `None`: it is not what was written.
    pub(super) fn from_json(json: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(json) else {
            return None;
        };
        let mut filter = Self::default();
        for (name, value) in fields {
            let text = || value.as_str().map(str::to_owned);
            let age = || Duration::try_from_secs_f64(value.as_f64()?).ok();
            let texts = || {
                let values = value.as_array()?.iter();
                values
                    .map(|value| value.as_str().map(str::to_owned))
                    .collect::<Option<Vec<String>>>()
            };
            match name.as_str() {
                "namespace" => filter.scope.namespace = Some(text()?),
                "topics" => filter.scope.topics = texts()?,
                "tenant_id" => filter.scope.tenant_id = Some(text()?.parse().ok()?),
                "status" => {
                    let read = texts()?
                        .iter()
                        .map(|name| Status::parse(name))
                        .collect::<Option<_>>();
                    filter.status = read?;
                }
                "ids" => {
                    let read = texts()?
                        .iter()
                        .map(|id| id.parse().ok())
                        .collect::<Option<_>>();
                    filter.ids = read?;
                }
                "topic" => filter.topic = Some(Pattern::new(text()?)),
                "older_than" => filter.older_than = Some(age()?),
                "newer_than" => filter.newer_than = Some(age()?),
                "ended_for" => filter.ended_for = Some(age()?),
                "error" => filter.error = Some(text()?),
                "fingerprint" => filter.fingerprint = Some(text()?),
                "reason" => filter.reason = Some(DeadReason::parse(&text()?)?),
                "event_type" => filter.event_type = Some(text()?),
                "aggregate_type" => filter.aggregate_type = Some(text()?),
                "aggregate_id" => filter.aggregate_id = Some(text()?),
                // A condition that is not understood must not be taken for none.
                _ => return None,
            }
        }
        Some(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Scope;

    #[test]
    fn a_filter_is_read_back_as_it_was_written() {
        let full = Filter {
            scope: Scope {
                namespace: Some("eu".to_owned()),
                topics: vec!["a".to_owned(), "b".to_owned()],
                tenant_id: Some(Uuid::from_u128(7)),
            },
            status: vec![Status::Dead, Status::Delivered],
            ids: vec![Uuid::from_u128(8)],
            topic: Some(Pattern::new("shop.*")),
            older_than: Some(Duration::from_millis(1500)),
            newer_than: Some(Duration::from_secs(7200)),
            ended_for: Some(Duration::from_secs(1)),
            error: Some("\"odd\" → text".to_owned()),
            fingerprint: Some(String::new()),
            reason: Some(DeadReason::Exhausted),
            event_type: Some("placed".to_owned()),
            aggregate_type: Some("order".to_owned()),
            aggregate_id: Some("42".to_owned()),
            after: None,
        };
        for filter in [Filter::default(), full] {
            assert_eq!(Filter::from_json(&filter.to_json()), Some(filter));
        }
        for odd in [
            "",
            "[]",
            "{\"colour\": \"red\"}",
            "{\"reason\": \"boredom\"}",
        ] {
            assert_eq!(Filter::from_json(odd), None, "{odd}");
        }
    }

    #[test]
    fn only_what_has_ended_is_redelivered() {
        let meant = |status: &[Status]| {
            let filter = Filter {
                status: status.to_vec(),
                after: Some(7),
                ..Filter::default()
            };
            Redelivery { filter, rate: None }.meant()
        };
        let dead = meant(&[]).unwrap();
        assert_eq!((dead.status, dead.after), (vec![Status::Dead], None));
        let delivered = meant(&[Status::Delivered]).unwrap();
        assert_eq!(delivered.status, [Status::Delivered]);
        let mixed = meant(&[Status::Dead, Status::Pending]);
        assert_eq!(mixed.unwrap_err().code(), "store.settings");
    }
}
