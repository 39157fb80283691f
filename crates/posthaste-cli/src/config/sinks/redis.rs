//! Redis streams.

use std::sync::Arc;

use posthaste_relay::sink::{Redis, Sink};

use super::{
    CA_FILE, CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE, CONNECT_TIMEOUT, Default, Group, Key, Kind,
    PASSWORD, PASSWORD_FILE, SOURCE, SinkType, client_certificate, envelope, envelope_key, pem,
    refuse, timeout_key,
};

pub(super) const TYPE: SinkType = SinkType {
    name: "redis",
    doc: "Adds each event to a Redis stream. See docs/sinks/redis.md.",
    keys: &[
        Key {
            name: "url",
            kind: Kind::Text,
            default: Default::Required,
            doc: "The server; `rediss://` for TLS. After the port may come the number of a database.",
            example: "redis://localhost:6379",
        },
        Key {
            name: "key",
            kind: Kind::Text,
            default: Default::Is("{topic}"),
            doc: "The key of the stream, a template.",
            example: "events:{topic}",
        },
        envelope_key("raw", "cloudevents"),
        SOURCE,
        Key {
            name: "max_length",
            kind: Kind::Integer {
                min: 1,
                max: i64::MAX as u64,
            },
            default: Default::Unset,
            doc: "A stream forgets its oldest entries once it has more than about this many, whether \
                  they were read or not. Unset: nothing is forgotten.",
            example: "1000000",
        },
        Key {
            name: "connections",
            kind: Kind::Integer { min: 1, max: 256 },
            default: Default::Is("4"),
            doc: "Over how many connections events go at the same time. A server with `appendfsync always` waits for \
                  its disk once for what has come over all of them.",
            example: "8",
        },
        timeout_key("10s"),
        CONNECT_TIMEOUT,
        Key {
            name: "user",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "The user to log in as. Empty: the server's default user.",
            example: "relay",
        },
        PASSWORD,
        PASSWORD_FILE,
        CA_FILE,
        CLIENT_CERTIFICATE_FILE,
        CLIENT_KEY_FILE,
    ],
    make,
};

fn make(keys: &mut Group<'_>) -> Option<Arc<dyn Sink>> {
    let envelope = envelope(keys);
    let mut builder = Redis::builder(keys.text("url")?)
        .key(keys.text("key")?)
        .envelope(envelope?)
        .timeout(keys.duration("timeout")?)
        .connect_timeout(keys.duration("connect_timeout")?);
    if let Some(length) = keys.integer("max_length") {
        builder = builder.max_length(length);
    }
    if let Some(number) = keys.integer("connections") {
        builder = builder.connections(usize::try_from(number).unwrap_or(usize::MAX));
    }
    if let Some(name) = keys.some_text("user") {
        builder = builder.user(name);
    }
    if let Some(password) = keys.text("password") {
        builder = builder.password(password);
    }
    if let Some(authority) = pem(keys, "ca_file")? {
        builder = builder.trust(authority);
    }
    if let Some((certificate, key)) = client_certificate(keys)? {
        builder = builder.client_certificate(certificate, key);
    }
    match builder.build() {
        Ok(sink) => Some(Arc::new(sink)),
        Err(error) => refuse(keys, "", &error.to_string()),
    }
}
