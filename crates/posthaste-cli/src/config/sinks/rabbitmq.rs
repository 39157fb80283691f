//! RabbitMQ.

use std::sync::Arc;

use posthaste_relay::sink::{RabbitMq, Sink};

use super::{
    CA_FILE, CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE, CONNECT_TIMEOUT, Default, Group, Key, Kind,
    PASSWORD, PASSWORD_FILE, SOURCE, SinkType, client_certificate, envelope, envelope_key, pem,
    refuse, timeout_key,
};

pub(super) const TYPE: SinkType = SinkType {
    name: "rabbitmq",
    doc: "Publishes each event to an exchange of RabbitMQ. See docs/sinks/rabbitmq.md.",
    keys: &[
        Key {
            name: "url",
            kind: Kind::Text,
            default: Default::Required,
            doc: "The server, with the virtual host as path; `amqps://` for TLS. Passwords have a key \
                  of their own.",
            example: "amqp://localhost:5672/shop",
        },
        Key {
            name: "exchange",
            kind: Kind::Text,
            default: Default::Required,
            doc: "The exchange, which may be a template. Empty: the default exchange, whose routing \
                  keys are names of queues.",
            example: "orders",
        },
        Key {
            name: "exchange_type",
            kind: Kind::Text,
            default: Default::Is("topic"),
            doc: "The exchange's type: `topic`, `direct`, `fanout`, `headers`, or a plugin's.",
            example: "fanout",
        },
        Key {
            name: "declare",
            kind: Kind::Boolean,
            default: Default::Is("true"),
            doc: "Whether to declare the exchange, durable, if it is not there.",
            example: "false",
        },
        Key {
            name: "routing_key",
            kind: Kind::Text,
            default: Default::Is("{topic}"),
            doc: "The routing key, a template.",
            example: "{tenant|none}.{topic}",
        },
        envelope_key("raw", "cloudevents"),
        SOURCE,
        Key {
            name: "app_id",
            kind: Kind::Text,
            default: Default::Is("posthaste"),
            doc: "The property `app_id` of messages.",
            example: "shop",
        },
        timeout_key("10s"),
        CONNECT_TIMEOUT,
        Key {
            name: "heartbeat",
            kind: Kind::Duration,
            default: Default::Is("10s"),
            doc: "How often each side shows that it is there, in whole seconds.",
            example: "60s",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "The user to log in as. Empty: the one of the address, else `guest`.",
            example: "relay",
        },
        PASSWORD,
        PASSWORD_FILE,
        Key {
            name: "login_by_certificate",
            kind: Kind::Boolean,
            default: Default::Is("false"),
            doc: "Whether to log in with the client's certificate, in place of a user. Needs \
                  RabbitMQ's plugin `rabbitmq_auth_mechanism_ssl`.",
            example: "true",
        },
        CA_FILE,
        CLIENT_CERTIFICATE_FILE,
        CLIENT_KEY_FILE,
    ],
    make,
};

fn make(keys: &mut Group<'_>) -> Option<Arc<dyn Sink>> {
    let envelope = envelope(keys);
    let (url, exchange) = (keys.text("url"), keys.text("exchange"));
    let (url, exchange) = (url?, exchange?);
    let named = match name_in(&url) {
        // The whole sink is pointed at: the line of the address would show the password.
        Err(why) => return refuse(keys, "", why),
        Ok(name) => name,
    };
    let mut builder = RabbitMq::builder(url, exchange)
        .exchange_type(keys.text("exchange_type")?)
        .declare(keys.boolean("declare")?)
        .routing_key(keys.text("routing_key")?)
        .envelope(envelope?)
        .app_id(keys.text("app_id")?)
        .timeout(keys.duration("timeout")?)
        .connect_timeout(keys.duration("connect_timeout")?)
        .heartbeat(keys.duration("heartbeat")?);
    match (keys.some_text("user").or(named), keys.text("password")) {
        (Some(user), Some(password)) => builder = builder.user(user, password),
        (None, None) => {}
        (Some(_), None) => return refuse(keys, "user", "a user needs a password"),
        (None, Some(_)) => return refuse(keys, "password", "a password needs a user"),
    }
    if let Some(authority) = pem(keys, "ca_file")? {
        builder = builder.trust(authority);
    }
    if let Some((certificate, key)) = client_certificate(keys)? {
        builder = builder.client_certificate(certificate, key);
    }
    if keys.boolean("login_by_certificate")? {
        builder = builder.by_certificate();
    }
    match builder.build() {
        Ok(sink) => Some(Arc::new(sink)),
        Err(error) => refuse(keys, "", &error.to_string()),
    }
}

/// The user that an address names.
fn name_in(url: &str) -> Result<Option<String>, &'static str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.rsplit_once('@') {
        None => Ok(None),
        Some((who, _)) if who.contains(':') => {
            Err("the address has a password in it: use `user`, and `password` or `password_file`")
        }
        Some((who, _)) if who.contains('%') => {
            Err("the address has a name with special characters in it: use `user`")
        }
        Some((who, _)) => Ok(Some(who.to_owned())),
    }
}
