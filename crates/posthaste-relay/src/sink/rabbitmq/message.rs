//! An event as a message of AMQP 0.9.1: where it goes, its properties and headers.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use posthaste::{Event, header};
use std::time::UNIX_EPOCH;

use crate::envelope::{Binding, Envelope};
use crate::template::{Otherwise, Rule, Template};

/// Properties and headers must fit into one frame, of 128 KiB by default; something is left for what
/// goes around them.
const HEADERS_LIMIT: usize = 120 * 1024;
/// So many bytes a short text has at most.
const SHORT: usize = 255;
const PERSISTENT: u8 = 2;

/// Servers take any text here, but a text with control characters is somebody's mistake.
pub(super) const EXCHANGE: Rule = Rule {
    what: "the name of an exchange",
    allows: |_, c| !c.is_control(),
    otherwise: Otherwise::Reject,
    longest: SHORT,
    whole: |_| Ok(()),
};

pub(super) const ROUTING_KEY: Rule = Rule {
    what: "a routing key",
    ..EXCHANGE
};

/// Makes messages of events.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) envelope: Envelope,
    /// None: the default exchange.
    pub(super) exchange: Option<Template>,
    pub(super) routing_key: Template,
    pub(super) app_id: ShortString,
}

/// What is published.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
}

impl Writer {
    /// The message of an event, or why it has none and never will.
    pub(super) fn message(&self, event: &Event) -> Result<Message, String> {
        let sealed = self
            .envelope
            .seal(event)
            .map_err(|error| error.to_string())?;
        let (exchange, routing_key) = self.address(event)?;
        let mut properties = BasicProperties::default()
            .with_content_type(short("content_type", &sealed.content_type)?)
            .with_delivery_mode(PERSISTENT)
            .with_message_id(short("id", &event.id.to_string())?)
            .with_app_id(self.app_id.clone());
        if let Ok(since) = event.created_at.duration_since(UNIX_EPOCH) {
            properties = properties.with_timestamp(since.as_secs());
        }
        // One that is too long for a property travels as a header alone.
        let kind = event.event_type.as_ref().filter(|kind| !kind.is_empty());
        if let Ok(kind) = ShortString::try_new(kind.unwrap_or(&event.topic).as_str()) {
            properties = properties.with_type(kind);
        }
        let mut headers = FieldTable::default();
        let mut size = 0;
        for (name, value) in sealed.headers(Binding::Amqp) {
            if name == header::CONTENT_ENCODING {
                properties = properties.with_content_encoding(short(&name, &value)?);
                continue;
            }
            size += name.len() + value.len() + 6;
            let value = AMQPValue::LongString(LongString::from(&*value));
            headers.insert(short("the name of a header", &name)?, value);
        }
        if size > HEADERS_LIMIT {
            return Err(format!(
                "headers of {size} bytes are too large: RabbitMQ carries up to {HEADERS_LIMIT}"
            ));
        }
        Ok(Message {
            exchange,
            routing_key,
            properties: properties.with_headers(headers),
            body: sealed.body,
        })
    }

    /// Exchange and routing key.
    pub(super) fn address(&self, event: &Event) -> Result<(ShortString, ShortString), String> {
        let render = |template: &Template, rule| {
            let name = template.render(event, rule);
            name.map_err(|error| error.to_string())
        };
        let exchange = match &self.exchange {
            Some(template) => render(template, &EXCHANGE)?,
            None => String::new(),
        };
        let routing_key = render(&self.routing_key, &ROUTING_KEY)?;
        Ok((
            short("exchange", &exchange)?,
            short("routing_key", &routing_key)?,
        ))
    }
}

fn short(what: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text)
        .map_err(|_| format!("{what} is too long: RabbitMQ carries up to {SHORT} bytes there"))
}
