//! Names made of an event: topic, exchange, subject, stream or path of a destination.
//!
//! Pure. What a destination allows in a name is its sink's [`Rule`]; what it does not allow is
//! escaped or refused, never dropped or changed.

mod error;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use posthaste::Event;

pub use error::{RenderError, TemplateError};

use crate::escape::percent;

/// A text with fields of an event in it, such as `orders.{topic}` or `{tenant|none}/{topic}`.
///
/// A field stands in braces; after a `|` comes what to write if an event does not have it. `{{`
/// and `}}` stand for braces.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field, Option<String>),
}

/// What a template may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// The topic.
    Topic,
    /// The namespace, unless it is empty.
    Namespace,
    /// The tenant.
    Tenant,
    /// The type of the event.
    EventType,
    /// The type of the aggregate.
    AggregateType,
    /// The id of the aggregate.
    AggregateId,
    /// The ordering key, else the aggregate's id, else the event's.
    Key,
    /// The outbox, as `schema.table`.
    Table,
    /// The event's id.
    Id,
}

impl Field {
    const ALL: [(&'static str, Self); 9] = [
        ("topic", Self::Topic),
        ("namespace", Self::Namespace),
        ("tenant", Self::Tenant),
        ("event_type", Self::EventType),
        ("aggregate_type", Self::AggregateType),
        ("aggregate_id", Self::AggregateId),
        ("key", Self::Key),
        ("table", Self::Table),
        ("id", Self::Id),
    ];

    fn parse(name: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, field)| *field)
    }

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, field)| *field == self);
        known.expect("every field has a name").0
    }

    /// What an event has there. Nothing, and an empty text, are the same.
    fn of(self, event: &Event) -> Option<Cow<'_, str>> {
        let value = match self {
            Self::Topic => Some((&*event.topic).into()),
            Self::Namespace => Some((&*event.namespace).into()),
            Self::Tenant => event.tenant_id.map(|tenant| tenant.to_string().into()),
            Self::EventType => event.event_type.as_deref().map(Cow::Borrowed),
            Self::AggregateType => event.aggregate_type.as_deref().map(Cow::Borrowed),
            Self::AggregateId => event.aggregate_id.as_deref().map(Cow::Borrowed),
            Self::Key => Some(key(event)),
            Self::Table => Some(format!("{}.{}", event.table.schema(), event.table.name()).into()),
            Self::Id => Some(event.id.to_string().into()),
        };
        value.filter(|text| !text.is_empty())
    }
}

/// What keeps events together at a destination: the ordering key, else the aggregate's id, else
/// the event's own.
pub fn key(event: &Event) -> Cow<'_, str> {
    [&event.ordering_key, &event.aggregate_id]
        .into_iter()
        .flatten()
        .find(|key| !key.is_empty())
        .map_or_else(|| event.id.to_string().into(), |key| key.as_str().into())
}

/// What a destination allows in a name.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What is named, e.g. `a Kafka topic`.
    pub what: &'static str,
    /// Whether a character may stand there as it is: in the value of a field, or in the template's
    /// own text (`None`).
    pub allows: fn(Option<Field>, char) -> bool,
    /// What becomes of a field's other characters.
    pub otherwise: Otherwise,
    /// How many bytes a name has at most.
    pub longest: usize,
    /// What else must hold for the whole, e.g. that it is not `..`: says what is wrong.
    pub whole: fn(&str) -> Result<(), &'static str>,
}

/// What becomes of characters that a destination does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// They are percent-encoded, and so is `%`.
    Escape,
    /// The event is rejected.
    Reject,
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let brace = || TemplateError::Brace {
            template: text.to_owned(),
        };
        let mut parts = Vec::new();
        let mut own = String::new();
        let mut rest = text;
        while let Some(place) = rest.find(['{', '}']) {
            own.push_str(&rest[..place]);
            rest = &rest[place..];
            if let Some(after) = rest.strip_prefix("{{").or(rest.strip_prefix("}}")) {
                own.push_str(&rest[..1]);
                rest = after;
                continue;
            }
            let (inner, after) = rest
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'))
                .ok_or_else(brace)?;
            let (name, default) = match inner.split_once('|') {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (inner, None),
            };
            let field = Field::parse(name).ok_or_else(|| TemplateError::UnknownField {
                template: text.to_owned(),
                field: name.to_owned(),
            })?;
            if !own.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut own)));
            }
            parts.push(Part::Field(field, default));
            rest = after;
        }
        own.push_str(rest);
        if !own.is_empty() {
            parts.push(Part::Text(own));
        }
        match parts.is_empty() {
            true => Err(TemplateError::Empty),
            false => Ok(Self {
                text: text.to_owned(),
                parts,
            }),
        }
    }

    /// Checks at start-up that the template's own text may stand in a name of this destination.
    pub fn check(&self, rule: &Rule) -> Result<(), TemplateError> {
        for part in &self.parts {
            let (Part::Text(text) | Part::Field(_, Some(text))) = part else {
                continue;
            };
            if let Some(character) = text.chars().find(|c| !(rule.allows)(None, *c)) {
                return Err(TemplateError::Character {
                    template: self.text.clone(),
                    character,
                    what: rule.what,
                });
            }
        }
        Ok(())
    }

    /// The name for an event, as this destination allows it.
    pub fn render(&self, event: &Event, rule: &Rule) -> Result<String, RenderError> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Field(field, default) => match (field.of(event), default) {
                    (Some(value), _) => name.push_str(&allowed(&value, *field, rule)?),
                    (None, Some(default)) => name.push_str(default),
                    (None, None) => {
                        return Err(RenderError::Missing {
                            template: self.text.clone(),
                            field: field.name(),
                        });
                    }
                },
            }
        }
        let fits = match name.len() > rule.longest {
            true => Err("it is too long"),
            false if name.is_empty() => Err("it is empty"),
            false => (rule.whole)(&name),
        };
        match fits {
            Ok(()) => Ok(name),
            Err(why) => Err(RenderError::Whole {
                template: self.text.clone(),
                what: rule.what,
                why,
            }),
        }
    }

    /// The name, if it is the same for every event.
    pub fn fixed(&self) -> Option<&str> {
        match &self.parts[..] {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

fn allowed<'v>(value: &'v str, field: Field, rule: &Rule) -> Result<Cow<'v, str>, RenderError> {
    let allows = |c: char| (rule.allows)(Some(field), c);
    match (rule.otherwise, value.chars().find(|c| !allows(*c))) {
        (Otherwise::Escape, _) => Ok(percent(value, allows)),
        (Otherwise::Reject, None) => Ok(value.into()),
        (Otherwise::Reject, Some(character)) => Err(RenderError::Character {
            field: field.name(),
            character,
            what: rule.what,
        }),
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Self::parse(text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests;
