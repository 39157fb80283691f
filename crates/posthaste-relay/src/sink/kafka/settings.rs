//! How a cluster is set up: a builder that refuses what cannot work, and says why.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::answer::told;
use super::link::Link;
use super::{Kafka, Setup, Slot, TOPIC};
use crate::envelope::Envelope;
use crate::sink::SinkError;
use crate::sink::suspects::Suspects;
use crate::template::Template;

/// What librdkafka can do: it counts milliseconds, and looks at timeouts once in a second.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(300);
const SIZES: std::ops::RangeInclusive<usize> = 1000..=1_000_000_000;

/// What this sink's guarantees rest on, or what has a setting of its own.
const OURS: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "compression.codec",
    "compression.type",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.broker.list",
    "queue.buffering.max.ms",
    "request.required.acks",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "statistics.interval.ms",
    "transactional.id",
];

/// How batches are compressed on the way to a broker, and in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of algorithms say it all")]
pub enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// How a user proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Sends the password. Only over TLS.
    Plain,
    /// SCRAM with SHA-256: the password does not travel.
    ScramSha256,
    /// SCRAM with SHA-512: the password does not travel.
    ScramSha512,
}

/// Sets up a [`Kafka`] sink. Everything but the brokers has a default.
pub struct KafkaBuilder {
    brokers: Vec<String>,
    topic: String,
    envelope: Envelope,
    timeout: Duration,
    linger: Duration,
    compression: Compression,
    max_message_size: usize,
    tls: bool,
    authorities: Vec<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    sasl: Option<(Mechanism, String, String)>,
    properties: Vec<(String, String)>,
}

impl KafkaBuilder {
    pub(super) fn new(brokers: Vec<String>) -> Self {
        Self {
            brokers,
            topic: "{topic}".to_owned(),
            envelope: Envelope::raw(),
            timeout: Duration::from_secs(15),
            linger: Duration::from_millis(2),
            compression: Compression::None,
            max_message_size: 64 * 1024 * 1024,
            tls: false,
            authorities: Vec::new(),
            certificate: None,
            sasl: None,
            properties: Vec::new(),
        }
    }

    /// The topic, which may have fields of the event in it. Defaults to `{topic}`.
    pub fn topic(mut self, template: impl Into<String>) -> Self {
        self.topic = template.into();
        self
    }

    /// In which form events travel. Defaults to raw.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// How long an acknowledgement may take, with all that is repeated on the way. Defaults to
    /// 15 s. Keep it shorter than the relay's `dispatch_timeout`, by some seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long to wait for more records to go into a batch. Defaults to 2 ms.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// How batches are compressed. Defaults to not at all.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Larger records are not even sent. Defaults to 64 MiB, as the topic has a limit of its own. Keep
    /// it below the broker's `socket.request.max.bytes` (100 MiB): more breaks the connection.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.max_message_size = bytes;
        self
    }

    /// Connects with TLS, and trusts the authorities that the system trusts.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Connects with TLS, and trusts these certificate authorities (PEM), in place of the system's.
    pub fn trust(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(pem.into());
        self.tls()
    }

    /// Connects with TLS, and shows this certificate to brokers (both PEM).
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificate = Some((certificate.into(), key.into()));
        self.tls()
    }

    /// Logs in with SASL.
    pub fn sasl(
        mut self,
        mechanism: Mechanism,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.sasl = Some((mechanism, user.into(), password.into()));
        self
    }

    /// Sets a property of librdkafka, for what has no setting here: see its
    /// [list](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Checks all settings at once, and makes the sink. It does not connect yet.
    pub fn build(self) -> Result<Kafka, SinkError> {
        let mut problems = Vec::new();
        let brokers = self.read_brokers(&mut problems);
        let topic = read_topic(&self.topic).map_err(|why| problems.push(why));
        if !TIMEOUTS.contains(&self.timeout) {
            problems.push("the timeout must be from 1 s to 5 min".to_owned());
        }
        if self.linger >= self.timeout {
            problems.push("`linger` must be shorter than the timeout".to_owned());
        }
        if !SIZES.contains(&self.max_message_size) {
            problems.push("`max_message_size` must be from 1000 to 1000000000 bytes".to_owned());
        }
        let untold = self.untold();
        let mut config = self.config(&mut problems);
        self.add_properties(&mut config, &mut problems);
        if problems.is_empty() {
            // Without brokers it connects to nobody; what does not fit together is told all the same.
            if let Err(why) = Link::new(&config, untold.clone().into()) {
                problems.push(why);
            }
        }
        config.set("bootstrap.servers", &brokers);
        let (Ok(topic), true) = (topic, problems.is_empty()) else {
            return Err(SinkError::refused("Kafka sink", problems));
        };
        Ok(Kafka {
            topic,
            envelope: self.envelope,
            setup: Setup {
                brokers,
                config,
                timeout: self.timeout,
                untold: untold.into(),
            },
            together: Slot::default(),
            alone: Slot {
                is_alone: true,
                ..Slot::default()
            },
            suspects: Suspects::default(),
            missing: Default::default(),
        })
    }

    fn read_brokers(&self, problems: &mut Vec<String>) -> String {
        if self.brokers.is_empty() {
            problems.push("name at least one broker, as host:port".to_owned());
        }
        for broker in &self.brokers {
            let odd = |c: char| c.is_whitespace() || c.is_control() || "/,{}?#".contains(c);
            if broker.contains('@') {
                problems
                    .push("a broker is host:port: use `sasl` for a name and password".to_owned());
            } else if broker.is_empty() || broker.contains(odd) {
                problems.push(format!("{broker:?} is no broker: write it as host:port"));
            }
        }
        self.brokers.join(",")
    }

    /// What must be in no error or log.
    fn untold(&self) -> Vec<String> {
        let password = self.sasl.iter().map(|(_, _, password)| password.clone());
        let secret = |name: &str| {
            let words = [
                "password",
                "passphrase",
                "secret",
                "pem",
                "oauthbearer.config",
            ];
            words.iter().any(|word| name.contains(word))
        };
        let properties = self.properties.iter();
        let secrets = properties.filter(|(name, _)| secret(name));
        password
            .chain(secrets.map(|(_, value)| value.clone()))
            .collect()
    }

    fn config(&self, problems: &mut Vec<String>) -> ClientConfig {
        let timeout = self.timeout.as_millis().to_string();
        let mut config = ClientConfig::new();
        config.set_log_level(
            match self.properties.iter().any(|(name, _)| name == "debug") {
                true => RDKafkaLogLevel::Debug,
                false => RDKafkaLogLevel::Info,
            },
        );
        config
            .set("client.id", "posthaste")
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", &timeout)
            .set("request.timeout.ms", &timeout)
            // A request that is not answered ends its connection.
            .set("socket.timeout.ms", &timeout)
            .set("socket.connection.setup.timeout.ms", &timeout)
            .set("socket.keepalive.enable", "true")
            // Outages are short for the relay's circuit to notice their end.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "500")
            // A topic that was just created may not be known everywhere. One that is not there should
            // not hold up an event for longer.
            .set("topic.metadata.propagation.max.ms", "2000")
            // The same partition for a key as clients in Java choose.
            .set("partitioner", "murmur2_random")
            .set("linger.ms", self.linger.as_millis().to_string())
            .set("message.max.bytes", self.max_message_size.to_string())
            .set("compression.type", self.compression.name())
            .set("enable.metrics.push", "false")
            .set(
                "security.protocol",
                match (self.tls, self.sasl.is_some()) {
                    (false, false) => "plaintext",
                    (true, false) => "ssl",
                    (false, true) => "sasl_plaintext",
                    (true, true) => "sasl_ssl",
                },
            );
        if let Some((mechanism, user, password)) = &self.sasl {
            if user.is_empty() || password.is_empty() {
                problems.push("`sasl` needs a user and a password".to_owned());
            }
            config
                .set("sasl.mechanism", mechanism.name())
                .set("sasl.username", user)
                .set("sasl.password", password);
        }
        let mut text = |what: &str, pem: &[u8]| match String::from_utf8(pem.to_vec()) {
            Ok(pem) if pem.contains("-----BEGIN") => pem,
            _ => {
                problems.push(format!("the {what} is no PEM"));
                String::new()
            }
        };
        if !self.authorities.is_empty() {
            let pems = self.authorities.iter();
            let pems: Vec<String> = pems.map(|pem| text("certificate authority", pem)).collect();
            config.set("ssl.ca.pem", pems.join("\n"));
        } else if self.tls {
            config.set("ssl.ca.location", "probe");
        }
        if let Some((certificate, key)) = &self.certificate {
            config
                .set("ssl.certificate.pem", text("certificate", certificate))
                .set("ssl.key.pem", text("certificate's key", key));
        }
        config
    }

    fn add_properties(&self, config: &mut ClientConfig, problems: &mut Vec<String>) {
        for (name, value) in &self.properties {
            if OURS.contains(&name.as_str()) {
                problems.push(format!(
                    "property {name:?} is one that this sink sets itself"
                ));
                continue;
            }
            let mut alone = ClientConfig::new();
            match alone.set(name, value).create_native_config() {
                Ok(_) => drop(config.set(name, value)),
                // Its value may be a secret.
                Err(KafkaError::ClientConfig(_, why, ..)) => {
                    let why = told(&why, std::slice::from_ref(value));
                    problems.push(format!("property {name:?} cannot be set: {why}"));
                }
                Err(_) => problems.push(format!("property {name:?} cannot be set")),
            }
        }
    }
}

fn read_topic(text: &str) -> Result<Template, String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    template.check(&TOPIC).map_err(|error| error.to_string())?;
    match template.fixed() {
        Some(name) if name.len() > TOPIC.longest => Err("the topic's name is too long".to_owned()),
        Some(name) => (TOPIC.whole)(name)
            .map(|()| template.clone())
            .map_err(|why| format!("the topic cannot be used: {why}")),
        None => Ok(template),
    }
}

impl Compression {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl Mechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}
