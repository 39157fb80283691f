//! Which events a command is about: flags into a [`Filter`].

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use posthaste::store::{Filter, Scope};
use posthaste::{DeadReason, Pattern, Status};
use uuid::Uuid;

use crate::time::parse_duration;

/// What narrows the events down. All that is given must hold.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct FilterArgs {
    /// Only this event; can be given several times
    #[arg(long = "id", value_name = "ID", value_parser = parse_id)]
    pub(crate) ids: Vec<Uuid>,
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    /// Only enqueued longer ago than this, e.g. 90s, 1h30m, 7d
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub(crate) older_than: Option<Duration>,
    /// Only enqueued since this long ago
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub(crate) newer_than: Option<Duration>,
}

/// What kind of events, whichever and however old.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct KindArgs {
    /// Only these topics: * stands for any text, ? for one character
    #[arg(long, value_name = "PATTERN")]
    pub(crate) topic: Option<String>,
    /// Only this namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Only this tenant
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<Uuid>,
    /// Only with this text in their last error
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only dead of errors of this kind, as the dashboard and the admin API tell it
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) fingerprint: Option<String>,
    /// Only dead for this reason
    #[arg(long, value_name = "REASON", value_parser = reason())]
    pub(crate) reason: Option<DeadReason>,
    /// Only of this event type
    #[arg(long, value_name = "TYPE")]
    pub(crate) event_type: Option<String>,
    /// Only of this aggregate, or of all aggregates of this type
    #[arg(long, value_name = "TYPE[/ID]", value_parser = parse_aggregate)]
    pub(crate) aggregate: Option<Aggregate>,
}

/// A type of aggregates, or one of them.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
}

impl FilterArgs {
    /// The filter for events with one of these statuses.
    pub(crate) fn with_status(&self, status: &[Status]) -> Filter {
        Filter {
            ids: self.ids.clone(),
            older_than: self.older_than,
            newer_than: self.newer_than,
            ..self.kind.with_status(status)
        }
    }
}

impl KindArgs {
    /// The filter for events with one of these statuses.
    pub(crate) fn with_status(&self, status: &[Status]) -> Filter {
        let aggregate = self.aggregate.clone();
        Filter {
            scope: Scope {
                namespace: self.namespace.clone(),
                topics: Vec::new(),
                tenant_id: self.tenant,
            },
            status: status.to_vec(),
            topic: self.topic.as_ref().map(Pattern::new),
            error: self.error.clone(),
            fingerprint: self.fingerprint.clone(),
            reason: self.reason,
            event_type: self.event_type.clone(),
            aggregate_type: aggregate.as_ref().map(|aggregate| aggregate.kind.clone()),
            aggregate_id: aggregate.and_then(|aggregate| aggregate.id),
            ..Filter::default()
        }
    }

    /// Whether only dead events can be meant.
    pub(crate) fn is_of_the_dead(&self) -> bool {
        self.reason.is_some() || self.fingerprint.is_some()
    }

    /// As it was typed, for what is told and written down.
    pub(crate) fn told(&self) -> String {
        let aggregate = self.aggregate.as_ref().map(|it| match &it.id {
            Some(id) => format!("{}/{id}", it.kind),
            None => it.kind.clone(),
        });
        let typed = [
            ("topic", self.topic.clone()),
            ("namespace", self.namespace.clone()),
            ("tenant", self.tenant.map(|tenant| tenant.to_string())),
            ("error", self.error.clone()),
            ("fingerprint", self.fingerprint.clone()),
            ("reason", self.reason.map(|reason| reason.to_string())),
            ("event type", self.event_type.clone()),
            ("aggregate", aggregate),
        ];
        let typed = typed
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name} {value:?}")));
        typed.collect::<Vec<_>>().join(", ")
    }
}

/// Reads the id of an event.
pub(crate) fn parse_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        "an id looks like 01a1eca3-42e4-72d0-9016-c14d791e1203: `posthaste list` and `posthaste dead` show them"
            .to_owned()
    })
}

/// Reads `order` or `order/42`. The id may hold further slashes.
pub(crate) fn parse_aggregate(text: &str) -> Result<Aggregate, String> {
    let (kind, id) = match text.split_once('/') {
        Some((kind, id)) => (kind, Some(id)),
        None => (text, None),
    };
    match kind.is_empty() || id.is_some_and(str::is_empty) {
        true => Err("write it as TYPE or TYPE/ID".to_owned()),
        false => Ok(Aggregate {
            kind: kind.to_owned(),
            id: id.map(str::to_owned),
        }),
    }
}

/// Reads one of these statuses.
pub(crate) fn status(statuses: &'static [Status]) -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(statuses.iter().map(|status| status.as_str()))
        .map(|name| Status::parse(&name).expect("one of the possible values"))
}

fn reason() -> impl TypedValueParser<Value = DeadReason> {
    let reasons = [
        DeadReason::Exhausted,
        DeadReason::Rejected,
        DeadReason::Crashed,
        DeadReason::Malformed,
        DeadReason::Parked,
        DeadReason::Discarded,
    ];
    PossibleValuesParser::new(reasons.map(DeadReason::as_str))
        .map(|name| DeadReason::parse(&name).expect("one of the possible values"))
}
