//! Kafka.

use std::sync::Arc;

use posthaste_relay::sink::kafka::{Compression, KafkaBuilder, Mechanism};
use posthaste_relay::sink::{Kafka, Sink};

use super::{
    CLIENT_CERTIFICATE_FILE, CLIENT_KEY_FILE, Default, Group, Key, Kind, PASSWORD, PASSWORD_FILE,
    SOURCE, SinkType, client_certificate, envelope, envelope_key, pem, refuse, timeout_key,
};

pub(super) const TYPE: SinkType = SinkType {
    name: "kafka",
    doc: "Sends each event to a topic of Kafka, acknowledged by all in-sync replicas. See \
          docs/sinks/kafka.md.",
    keys: &[
        Key {
            name: "brokers",
            kind: Kind::Texts,
            default: Default::Required,
            doc: "Some of the cluster's brokers, each as host:port.",
            example: "kafka-1.example:9092,kafka-2.example:9092",
        },
        Key {
            name: "topic",
            kind: Kind::Text,
            default: Default::Is("{topic}"),
            doc: "The topic of Kafka, which must exist. May be a template, such as `shop.{topic}`.",
            example: "shop.{topic}",
        },
        envelope_key("raw", "cloudevents"),
        SOURCE,
        timeout_key("15s"),
        Key {
            name: "linger",
            kind: Kind::Duration,
            default: Default::Is("2ms"),
            doc: "How long to wait for more events to go into a batch.",
            example: "10ms",
        },
        Key {
            name: "compression",
            kind: Kind::Word(&["none", "gzip", "snappy", "lz4", "zstd"]),
            default: Default::Is("none"),
            doc: "How batches are compressed.",
            example: "lz4",
        },
        Key {
            name: "max_message_size",
            kind: Kind::Size,
            default: Default::Is("64MiB"),
            doc: "Larger events are rejected without being sent. The topic has a limit of its own.",
            example: "1MiB",
        },
        Key {
            name: "tls",
            kind: Kind::Boolean,
            default: Default::Is("false"),
            doc: "Whether to connect with TLS. `ca_file` and `client_certificate_file` switch it on, too.",
            example: "true",
        },
        Key {
            name: "ca_file",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "The certificate authorities (PEM) to trust, in place of those that the system \
                  trusts.",
            example: "/etc/ssl/kafka-ca.pem",
        },
        CLIENT_CERTIFICATE_FILE,
        CLIENT_KEY_FILE,
        Key {
            name: "sasl",
            kind: Kind::Word(&["none", "plain", "scram-sha-256", "scram-sha-512"]),
            default: Default::Is("none"),
            doc: "How to log in, as `user` with `password`. Use `plain` with TLS only: it sends the \
                  password.",
            example: "scram-sha-512",
        },
        Key {
            name: "user",
            kind: Kind::Text,
            default: Default::Is(""),
            doc: "Who logs in.",
            example: "relay",
        },
        PASSWORD,
        PASSWORD_FILE,
        Key {
            name: "properties",
            kind: Kind::Texts,
            default: Default::Is(""),
            doc: "Properties of librdkafka, each as name=value, for what has no key here. The values of \
                  passwords and secrets are not shown.",
            example: "batch.size=500000,client.rack=eu-1a",
        },
    ],
    make,
};

fn make(keys: &mut Group<'_>) -> Option<Arc<dyn Sink>> {
    let envelope = envelope(keys);
    let size = keys.integer("max_message_size")?;
    let mut builder = Kafka::builder(keys.required_texts("brokers")?)
        .topic(keys.text("topic")?)
        .envelope(envelope?)
        .timeout(keys.duration("timeout")?)
        .linger(keys.duration("linger")?)
        .max_message_size(usize::try_from(size).unwrap_or(usize::MAX))
        .compression(match &*keys.text("compression")? {
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        });
    if keys.boolean("tls")? {
        builder = builder.tls();
    }
    builder = certificates(keys, builder)?;
    builder = log_in(keys, builder)?;
    for property in keys.texts("properties") {
        match property.split_once('=') {
            Some((name, value)) => builder = builder.property(name.trim(), value.trim()),
            None => return refuse(keys, "properties", "a property is written as name=value"),
        }
    }
    match builder.build() {
        Ok(sink) => Some(Arc::new(sink)),
        Err(error) => refuse(keys, "", &error.to_string()),
    }
}

fn certificates(keys: &mut Group<'_>, mut builder: KafkaBuilder) -> Option<KafkaBuilder> {
    if let Some(pem) = pem(keys, "ca_file")? {
        builder = builder.trust(pem);
    }
    Some(match client_certificate(keys)? {
        Some((certificate, key)) => builder.client_certificate(certificate, key),
        None => builder,
    })
}

fn log_in(keys: &mut Group<'_>, builder: KafkaBuilder) -> Option<KafkaBuilder> {
    let mechanism = match &*keys.text("sasl")? {
        "plain" => Mechanism::Plain,
        "scram-sha-256" => Mechanism::ScramSha256,
        "scram-sha-512" => Mechanism::ScramSha512,
        _ if keys.some_text("user").is_some() => {
            return refuse(keys, "user", "`sasl` says not to log in: choose how");
        }
        _ => return Some(builder),
    };
    match (keys.some_text("user"), keys.some_text("password")) {
        (Some(user), Some(password)) => Some(builder.sasl(mechanism, user, password)),
        _ => refuse(
            keys,
            "sasl",
            "`user` and `password` (or `password_file`) are missing",
        ),
    }
}
