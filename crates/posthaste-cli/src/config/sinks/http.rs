//! Webhooks.

use std::sync::Arc;

use posthaste_relay::sink::{Http, Sink};

use super::{
    CA_FILE, CONNECT_TIMEOUT, Default, Group, Key, Kind, SOURCE, SinkType, envelope, envelope_key,
    pem, refuse, timeout_key,
};

pub(super) const TYPE: SinkType = SinkType {
    name: "http",
    doc: "Posts each event to a URL, signed as Standard Webhooks say. See docs/sinks/http.md.",
    keys: &[
        Key {
            name: "url",
            kind: Kind::Text,
            default: Default::Required,
            doc: "Where to post. The path may be a template, such as `/events/{topic}`.",
            example: "https://shop.example/hooks/{topic}",
        },
        envelope_key("cloudevents", "cloudevents-structured"),
        SOURCE,
        timeout_key("15s"),
        CONNECT_TIMEOUT,
        Key {
            name: "secret",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "Signs every call (`whsec_…`). Unset: calls are not signed.",
            example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        },
        Key {
            name: "secret_file",
            kind: Kind::File("secret"),
            default: Default::Unset,
            doc: "A file that holds the secret, in place of `secret`.",
            example: "/run/secrets/webhook",
        },
        Key {
            name: "old_secret",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "Signs every call as well, until all receivers know the new secret.",
            example: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        },
        Key {
            name: "old_secret_file",
            kind: Kind::File("old_secret"),
            default: Default::Unset,
            doc: "A file that holds the old secret, in place of `old_secret`.",
            example: "/run/secrets/old_webhook",
        },
        Key {
            name: "bearer",
            kind: Kind::Secret,
            default: Default::Unset,
            doc: "A token to send as `Authorization: Bearer`.",
            example: "a-token",
        },
        Key {
            name: "bearer_file",
            kind: Kind::File("bearer"),
            default: Default::Unset,
            doc: "A file that holds the token, in place of `bearer`.",
            example: "/run/secrets/token",
        },
        Key {
            name: "allow",
            kind: Kind::Texts,
            default: Default::Is(""),
            doc: "Addresses that are not of the internet and may be called all the same: networks, \
                  addresses or names of hosts.",
            example: "10.0.0.0/8,hooks.internal",
        },
        Key {
            name: "allow_any_address",
            kind: Kind::Boolean,
            default: Default::Is("false"),
            doc: "Whether every address may be called. Only for URLs that nobody else can choose.",
            example: "true",
        },
        CA_FILE,
    ],
    make,
};

fn make(keys: &mut Group<'_>) -> Option<Arc<dyn Sink>> {
    let envelope = envelope(keys);
    let mut builder = Http::builder(keys.text("url")?)
        .envelope(envelope?)
        .timeout(keys.duration("timeout")?)
        .connect_timeout(keys.duration("connect_timeout")?);
    for name in ["secret", "old_secret"] {
        if let Some(secret) = keys.text(name) {
            builder = builder.secret(secret);
        }
    }
    if let Some(token) = keys.text("bearer") {
        builder = builder.bearer(token);
    }
    for what in keys.texts("allow") {
        builder = builder.allow(what);
    }
    if keys.boolean("allow_any_address")? {
        builder = builder.allow_any_address();
    }
    if let Some(authority) = pem(keys, "ca_file")? {
        builder = builder.trust(authority);
    }
    match builder.build() {
        Ok(sink) => Some(Arc::new(sink)),
        Err(error) => refuse(keys, "", &error.to_string()),
    }
}
