//! The envelope: what travels of an event, the same for every destination.
//!
//! Pure. It never looks inside a payload, and says nothing about how a protocol sends things;
//! `docs/envelope.md` has the names that consumers see.

mod binding;
mod cloud_event;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use posthaste::{Event, header, time};

pub use binding::Binding;

use crate::escape::is_unreserved;

const STRUCTURED: &str = "application/cloudevents+json; charset=utf-8";

/// In which form events travel. Defaults to raw.
///
/// ```
/// use posthaste_relay::Envelope;
///
/// let envelope = Envelope::cloud_events().source("https://shop.example/orders").unwrap();
/// assert_eq!("cloudevents".parse(), Ok(Envelope::cloud_events()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope {
    form: Form,
    source: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Form {
    #[default]
    Raw,
    Binary,
    Structured,
}

/// An event as it travels: a body, and what is beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed<'e> {
    /// What the body is.
    pub content_type: Cow<'e, str>,
    /// The payload as it was enqueued, or the JSON that holds it.
    pub body: Bytes,
    properties: Vec<(Name<'e>, Cow<'e, str>)>,
}

/// What a value beside the body is called; a [`Binding`] makes it the name that consumers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name<'e> {
    /// A field of the event, in a raw envelope: the same in every protocol.
    Field(&'static str),
    /// An attribute of CloudEvents.
    Attribute(&'static str),
    /// The same in every protocol: the trace context, and the producer's headers.
    Plain(&'e str),
}

/// Why an envelope cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// There is no such envelope.
    #[error("there is no envelope {0:?}: use raw, cloudevents or cloudevents-structured")]
    Unknown(String),
    /// A source must be a URI reference.
    #[error("source {0:?} is no URI reference: write e.g. https://shop.example/orders or /orders")]
    Source(String),
}

impl EnvelopeError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "envelope.unknown",
            Self::Source(_) => "envelope.source",
        }
    }
}

/// Why an event cannot travel: it was not checked when it was enqueued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be carried: {why}")]
pub struct SealError {
    what: String,
    why: &'static str,
}

impl Envelope {
    /// The payload is the body; what describes it travels as headers that begin with `posthaste-`.
    pub fn raw() -> Self {
        Self::default()
    }

    /// CloudEvents 1.0 in binary mode: the payload is the body, attributes travel as headers.
    pub fn cloud_events() -> Self {
        Self::of(Form::Binary)
    }

    /// CloudEvents 1.0 in structured mode: one JSON object holds attributes and payload.
    pub fn cloud_events_structured() -> Self {
        Self::of(Form::Structured)
    }

    fn of(form: Form) -> Self {
        Self { form, source: None }
    }

    /// The `source` of CloudEvents. Defaults to `/<schema>/<table>` of the outbox.
    pub fn source(mut self, source: impl Into<String>) -> Result<Self, EnvelopeError> {
        let source = source.into();
        match is_uri_reference(&source) {
            true => self.source = Some(source),
            false => return Err(EnvelopeError::Source(source)),
        }
        Ok(self)
    }

    /// Makes of an event what travels. Two deliveries of one event are the same.
    pub fn seal<'e>(&'e self, event: &'e Event) -> Result<Sealed<'e>, SealError> {
        check(event)?;
        let mut properties = match self.form {
            Form::Raw => fields(event),
            Form::Binary => self
                .attributes(event)
                .into_iter()
                .map(|(name, value)| (Name::Attribute(name), value))
                .collect(),
            Form::Structured => Vec::new(),
        };
        let trace = trace(event).map(|(name, value)| (Name::Plain(name), value.into()));
        properties.extend(trace);
        // The JSON of structured mode is not encoded: there it is an attribute.
        let of_payload = |name: &str| name == header::CONTENT_ENCODING;
        let headers =
            headers(event).filter(|(name, _)| self.form != Form::Structured || !of_payload(name));
        properties.extend(headers.map(|(name, value)| (Name::Plain(name), value.as_str().into())));
        let (content_type, body) = match self.form {
            Form::Structured => (STRUCTURED, self.structured(event)),
            _ => (event.content_type.as_str(), event.payload.clone()),
        };
        Ok(Sealed {
            content_type: content_type.into(),
            body,
            properties,
        })
    }
}

impl FromStr for Envelope {
    type Err = EnvelopeError;

    fn from_str(text: &str) -> Result<Self, EnvelopeError> {
        match text {
            "raw" => Ok(Self::raw()),
            "cloudevents" => Ok(Self::cloud_events()),
            "cloudevents-structured" => Ok(Self::cloud_events_structured()),
            other => Err(EnvelopeError::Unknown(other.to_owned())),
        }
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            Form::Raw => "raw",
            Form::Binary => "cloudevents",
            Form::Structured => "cloudevents-structured",
        })
    }
}

impl Sealed<'_> {
    fn is_binary_cloud_event(&self) -> bool {
        matches!(self.properties.first(), Some((Name::Attribute(_), _)))
    }
}

fn fields(event: &Event) -> Vec<(Name<'_>, Cow<'_, str>)> {
    let namespace = Some(event.namespace.as_str()).filter(|name| !name.is_empty());
    [
        ("posthaste-id", Some(event.id.to_string().into())),
        ("posthaste-topic", Some((&*event.topic).into())),
        (
            "posthaste-sequence",
            Some(event.sequence.to_string().into()),
        ),
        (
            "posthaste-time",
            Some(time::rfc3339(event.created_at).into()),
        ),
        ("posthaste-namespace", namespace.map(Cow::Borrowed)),
        (
            "posthaste-tenant",
            event.tenant_id.map(|tenant| tenant.to_string().into()),
        ),
        (
            "posthaste-type",
            given(&event.event_type).map(Cow::Borrowed),
        ),
        (
            "posthaste-aggregate-type",
            given(&event.aggregate_type).map(Cow::Borrowed),
        ),
        (
            "posthaste-aggregate-id",
            given(&event.aggregate_id).map(Cow::Borrowed),
        ),
        (
            "posthaste-key",
            given(&event.ordering_key).map(Cow::Borrowed),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((Name::Field(name), value?)))
    .collect()
}

fn trace(event: &Event) -> impl Iterator<Item = (&'static str, &str)> {
    let trace = event.trace.as_ref();
    let parent = trace.map(|trace| ("traceparent", trace.traceparent.as_str()));
    let state = trace.and_then(|trace| trace.tracestate.as_deref());
    parent
        .into_iter()
        .chain(state.map(|state| ("tracestate", state)))
}

/// A text that says something: an empty one is the same as none.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The headers that travel. A dead letter leaves behind what cannot: its event may have died of that.
fn headers(event: &Event) -> impl Iterator<Item = (&String, &String)> {
    let is_letter = event.headers.contains_key(header::DEAD_LETTER_OF);
    let headers = event.headers.iter();
    headers.filter(move |header| !is_letter || header::check_stored([*header]).is_ok())
}

/// What [`posthaste::Outbox`] checks at enqueue, for rows that came another way.
fn check(event: &Event) -> Result<(), SealError> {
    let refuse = |what: &str, why| SealError {
        what: what.to_owned(),
        why,
    };
    header::check_stored(headers(event)).map_err(|(name, why)| {
        let name: String = name.chars().take(64).collect();
        refuse(&format!("header {name:?}"), why)
    })?;
    for (what, text) in [
        ("topic", Some(&event.topic)),
        ("namespace", Some(&event.namespace)),
        ("aggregate_type", event.aggregate_type.as_ref()),
        ("aggregate_id", event.aggregate_id.as_ref()),
        ("event_type", event.event_type.as_ref()),
        ("ordering_key", event.ordering_key.as_ref()),
    ] {
        if text.is_some_and(|text| text.chars().any(char::is_control)) {
            return Err(refuse(what, "it has control characters"));
        }
    }
    let is_printable = |text: &str| text.bytes().all(|b| matches!(b, b' '..=b'~'));
    if event.content_type.is_empty() || !is_printable(&event.content_type) {
        return Err(refuse("content_type", "write it as type/subtype in ASCII"));
    }
    match trace(event).find(|(_, value)| !is_printable(value)) {
        Some((what, _)) => Err(refuse(what, "it must be printable ASCII")),
        None => Ok(()),
    }
}

fn is_uri_reference(text: &str) -> bool {
    let allowed = |c: char| is_unreserved(c) || ":/?#[]@!$&'()*+,;=%".contains(c);
    let escapes_are_whole = text.split('%').skip(1).all(|rest| {
        let hex = |place: usize| {
            rest.as_bytes()
                .get(place)
                .is_some_and(u8::is_ascii_hexdigit)
        };
        hex(0) && hex(1)
    });
    !text.is_empty() && text.chars().all(allowed) && escapes_are_whole
}

#[cfg(test)]
mod tests;
