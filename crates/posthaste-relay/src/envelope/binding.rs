//! What each protocol calls the things that travel beside the body.
//!
//! The names of CloudEvents attributes are those of the binding that its specification gives.

use std::borrow::Cow;

use super::{Name, Sealed};
use crate::escape::percent;

/// A protocol, with its own way to write headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Header fields of HTTP.
    Http,
    /// Record headers of Kafka.
    Kafka,
    /// Headers of AMQP 0.9.1. The content type is a property there, and no header.
    Amqp,
    /// Headers of NATS.
    Nats,
    /// Fields of an entry of a Redis stream.
    Redis,
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Self::Http | Self::Nats => "ce-",
            Self::Kafka | Self::Redis => "ce_",
            Self::Amqp => "cloudEvents_",
        }
    }

    /// Whether values are limited to printable ASCII.
    fn is_ascii(self) -> bool {
        matches!(self, Self::Http | Self::Nats)
    }

    fn name<'e>(self, name: &Name<'e>) -> Cow<'e, str> {
        match name {
            Name::Field(name) => Cow::Borrowed(name),
            Name::Attribute(attribute) => format!("{}{attribute}", self.prefix()).into(),
            Name::Plain(name) => Cow::Borrowed(name),
        }
    }

    fn value<'v>(self, name: &Name<'_>, value: &'v str) -> Cow<'v, str> {
        match name {
            Name::Plain(_) => Cow::Borrowed(value),
            _ if self.is_ascii() => percent(value, |c| c.is_ascii_graphic() && c != '"'),
            _ => Cow::Borrowed(value),
        }
    }
}

impl Sealed<'_> {
    /// All that travels beside the body, as this protocol writes it: names and values, each name once.
    /// The content type is among them wherever it is a header.
    pub fn headers(&self, binding: Binding) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let content_type = match binding {
            Binding::Http | Binding::Kafka | Binding::Redis => Some("content-type"),
            Binding::Nats => Some("Content-Type"),
            Binding::Amqp => None,
        };
        // NATS alone has an attribute of CloudEvents for it.
        let attribute = (binding == Binding::Nats && self.is_binary_cloud_event())
            .then_some("ce-datacontenttype");
        let content_types = [content_type, attribute].into_iter().flatten();
        let properties = self.properties.iter();
        content_types
            .map(|name| (Cow::Borrowed(name), Cow::Borrowed(&*self.content_type)))
            .chain(
                properties
                    .map(move |(name, value)| (binding.name(name), binding.value(name, value))),
            )
    }
}
