//! NATS JetStream.

use std::sync::Arc;

use posthaste_relay::sink::{Nats, Sink};

use super::{
    CA_FILE, CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE, CONNECT_TIMEOUT, Default, Group, Key, Kind,
    PASSWORD, PASSWORD_FILE, SOURCE, SinkType, client_certificate, envelope, envelope_key, pem,
    refuse, timeout_key,
};

pub(super) const TYPE: SinkType = SinkType {
    name: "nats",
    doc: "Publishes each event to a stream of NATS JetStream. See docs/sinks/nats.md.",
    keys: &[
        Key {
            name: "servers",
            kind: Kind::Texts,
            default: Default::Required,
            doc: "The servers of one cluster, or the only one; `tls://` for TLS.",
            example: "nats://localhost:4222",
        },
        Key {
            name: "subject",
            kind: Kind::Text,
            default: Default::Is("{topic}"),
            doc: "The subject, a template. A stream has to store it.",
            example: "events.{topic}",
        },
        envelope_key("raw", "cloudevents"),
        SOURCE,
        timeout_key("10s"),
        CONNECT_TIMEOUT,
        Key {
            name: "user",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "The user to log in as, with a password.",
            example: "relay",
        },
        PASSWORD,
        PASSWORD_FILE,
        Key {
            name: "token",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "A token to log in with, in place of a user.",
            example: "a-token",
        },
        Key {
            name: "token_file",
            kind: Kind::File("token"),
            default: Default::Unset,
            doc: "A file that holds the token, in place of `token`.",
            example: "/run/secrets/nats_token",
        },
        Key {
            name: "nkey",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "The seed of an nkey to log in with (`SU…`), in place of a user.",
            example: "SUAIQ7X4GBQKJWHHP5MQSH6RLDEON2E7SMVYHITQUMMZAD4QZZZ6IAR53M",
        },
        Key {
            name: "nkey_file",
            kind: Kind::File("nkey"),
            default: Default::Unset,
            doc: "A file that holds the seed, in place of `nkey`.",
            example: "/run/secrets/nats_nkey",
        },
        Key {
            name: "credentials",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "Credentials to log in with, as `nsc` makes them, in place of a user.",
            example: "-----BEGIN NATS USER JWT----- …",
        },
        Key {
            name: "credentials_file",
            kind: Kind::File("credentials"),
            default: Default::Unset,
            doc: "The file that holds the credentials (`.creds`), in place of `credentials`.",
            example: "/run/secrets/relay.creds",
        },
        CA_FILE,
        CLIENT_CERTIFICATE_FILE,
        CLIENT_KEY_FILE,
    ],
    make,
};

fn make(keys: &mut Group<'_>) -> Option<Arc<dyn Sink>> {
    let envelope = envelope(keys);
    let servers = keys.texts("servers");
    let (first, others) = match servers.split_first() {
        Some(split) => split,
        None if keys.values.is_broken(&keys.at("servers")) => return None,
        None => return refuse(keys, "servers", "there must be at least one server"),
    };
    let mut builder = Nats::builder(first)
        .subject(keys.text("subject")?)
        .envelope(envelope?)
        .timeout(keys.duration("timeout")?)
        .connect_timeout(keys.duration("connect_timeout")?);
    for server in others {
        builder = builder.server(server);
    }
    match (keys.some_text("user"), keys.text("password")) {
        (Some(user), Some(password)) => builder = builder.user(user, password),
        (None, None) => {}
        (Some(_), None) => return refuse(keys, "user", "a user needs a password"),
        (None, Some(_)) => return refuse(keys, "password", "a password needs a user"),
    }
    if let Some(token) = keys.text("token") {
        builder = builder.token(token);
    }
    if let Some(seed) = keys.text("nkey") {
        builder = builder.nkey(seed);
    }
    if let Some(credentials) = keys.text("credentials") {
        builder = builder.credentials(credentials);
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
