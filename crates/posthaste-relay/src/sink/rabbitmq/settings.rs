//! How a server and its exchange are set up: a builder that refuses what cannot work, and says why.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::ExchangeKind;
use lapin::types::ShortString;
use lapin::uri::{AMQPScheme, AMQPUri, SASLMechanism};

use super::RabbitMq;
use super::connect::Post;
use super::message::{EXCHANGE, ROUTING_KEY, Writer};
use crate::envelope::Envelope;
use crate::sink::SinkError;
use crate::sink::suspects::Suspects;
use crate::sink::tls::{self, Certificate};
use crate::template::{Rule, Template};

/// Sets up a [`RabbitMq`] sink. Everything but address and exchange has a default.
pub struct RabbitMqBuilder {
    url: String,
    exchange: String,
    routing_key: String,
    exchange_type: String,
    declare: bool,
    envelope: Envelope,
    user: Option<(String, String)>,
    by_certificate: bool,
    app_id: String,
    timeout: Duration,
    connect_timeout: Duration,
    heartbeat: Duration,
    authorities: Vec<Vec<u8>>,
    certificate: Option<Certificate>,
}

impl RabbitMqBuilder {
    pub(super) fn new(url: String, exchange: String) -> Self {
        Self {
            url,
            exchange,
            routing_key: "{topic}".to_owned(),
            exchange_type: "topic".to_owned(),
            declare: true,
            envelope: Envelope::raw(),
            user: None,
            by_certificate: false,
            app_id: "posthaste".to_owned(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            heartbeat: Duration::from_secs(10),
            authorities: Vec::new(),
            certificate: None,
        }
    }

    /// The routing key, a template. Defaults to `{topic}`.
    pub fn routing_key(mut self, template: impl Into<String>) -> Self {
        self.routing_key = template.into();
        self
    }

    /// The type of the exchange: `topic`, `direct`, `fanout`, `headers`, or one that a plugin brings.
    /// Defaults to `topic`.
    pub fn exchange_type(mut self, name: impl Into<String>) -> Self {
        self.exchange_type = name.into();
        self
    }

    /// Whether to declare the exchange (durable), if it is not there when it is first needed: one that is deleted
    /// later is left to whoever deleted it. If not, it must be there: then the user needs no permission to configure
    /// it. Defaults to true.
    pub fn declare(mut self, declare: bool) -> Self {
        self.declare = declare;
        self
    }

    /// In which form events travel. Defaults to raw.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// Who logs in, in place of what the address says.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Logs in with the client's certificate (SASL EXTERNAL), which needs RabbitMQ's plugin
    /// `rabbitmq_auth_mechanism_ssl`.
    pub fn by_certificate(mut self) -> Self {
        self.by_certificate = true;
        self
    }

    /// The property `app_id` of messages. Defaults to `posthaste`.
    pub fn app_id(mut self, name: impl Into<String>) -> Self {
        self.app_id = name.into();
        self
    }

    /// How long a confirmation may take. Defaults to 10 s. Keep it shorter than the relay's
    /// `dispatch_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long it may take to connect, TLS, login and the exchange included. Defaults to 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often each side shows that it is there, in whole seconds. A connection over which
    /// nothing came for twice as long is given up. Defaults to 10 s.
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    /// Trusts this certificate authority (PEM), besides those that the system trusts.
    pub fn trust(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(pem.into());
        self
    }

    /// Shows this certificate to the server (both PEM).
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificate = Some(Certificate {
            chain: certificate.into(),
            key: key.into(),
        });
        self
    }

    /// Checks all settings at once, and makes the sink. It does not connect yet.
    pub fn build(self) -> Result<RabbitMq, SinkError> {
        let mut problems = Vec::new();
        let uri = self.read_url().map_err(|why| problems.push(why)).ok();
        let exchange = match self.exchange.as_str() {
            "" => None,
            text => read_template(text, &EXCHANGE, &mut problems),
        };
        let routing_key = read_template(&self.routing_key, &ROUTING_KEY, &mut problems);
        let is_tls = uri
            .as_ref()
            .is_some_and(|uri| uri.scheme == AMQPScheme::AMQPS);
        let has_certificates = !self.authorities.is_empty() || self.certificate.is_some();
        if uri.is_some() && !is_tls && has_certificates {
            problems.push("certificates are for TLS: write the address with amqps://".to_owned());
        }
        if self.by_certificate && self.certificate.is_none() {
            problems.push("logging in by certificate needs a client certificate".to_owned());
        }
        let tls = match is_tls || has_certificates {
            true => tls::config(&self.authorities, self.certificate.as_ref())
                .map_err(|why| problems.push(why))
                .ok(),
            false => None,
        };
        let kind = self.read_kind(&mut problems);
        let app_id = ShortString::try_new(self.app_id.as_str())
            .map_err(|_| problems.push("app_id has up to 255 bytes".to_owned()))
            .ok();
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            problems.push("timeouts must be longer than zero".to_owned());
        }
        if !(1..=3600).contains(&self.heartbeat.as_secs()) || self.heartbeat.subsec_nanos() != 0 {
            problems.push("the heartbeat is whole seconds, from 1 s to 1 h".to_owned());
        }
        match (uri, routing_key, app_id, problems.is_empty()) {
            (Some(uri), Some(routing_key), Some(app_id), true) => Ok(RabbitMq {
                post: Arc::new(Post {
                    uri,
                    tls: tls.map(Into::into),
                    writer: Writer {
                        envelope: self.envelope,
                        exchange,
                        routing_key,
                        app_id,
                    },
                    exchange_type: kind,
                    declare: self.declare,
                    known: Mutex::default(),
                    timeout: self.timeout,
                    connect_timeout: self.connect_timeout,
                }),
                jobs: Mutex::new(None),
                suspects: Suspects::default(),
            }),
            _ => Err(SinkError::refused("RabbitMQ sink", problems)),
        }
    }

    fn read_kind(&self, problems: &mut Vec<String>) -> ExchangeKind {
        match self.exchange_type.as_str() {
            "topic" => ExchangeKind::Topic,
            "direct" => ExchangeKind::Direct,
            "fanout" => ExchangeKind::Fanout,
            "headers" => ExchangeKind::Headers,
            other => {
                if !other.starts_with("x-") || other.len() > 255 {
                    problems.push(format!(
                        "there is no type of exchanges {other:?}: use topic, direct, fanout, headers \
                         or a plugin's, which begins with x-"
                    ));
                }
                ExchangeKind::Custom(other.to_owned())
            }
        }
    }

    /// What is wrong is told without the address: it may hold a password.
    fn read_url(&self) -> Result<AMQPUri, String> {
        let refuse = |why: &str| {
            Err(format!(
                "the address cannot be used: {why}; write it as amqp://user:password@host:5672/vhost, \
                 with special characters percent-encoded"
            ))
        };
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return refuse("it has no scheme");
        };
        if !matches!(scheme, "amqp" | "amqps") {
            return refuse("only amqp and amqps are possible");
        }
        if rest.contains(['?', '#']) {
            return refuse("it has no options, there are settings for that");
        }
        let authority = rest.split('/').next().unwrap_or_default();
        let place = authority.rsplit('@').next().unwrap_or_default();
        if place.is_empty() || place.starts_with(':') {
            return refuse("the host is missing");
        }
        let Ok(mut uri) = self.url.parse::<AMQPUri>() else {
            return refuse("it is not an address");
        };
        // The parser takes an IPv6 address for no host at all.
        if let Some((address, _)) = place
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            uri.authority.host = address.to_owned();
        }
        if uri.vhost.is_empty() {
            "/".clone_into(&mut uri.vhost);
        }
        if uri.vhost.len() > 255 {
            return refuse("a vhost has up to 255 bytes");
        }
        if let Some((name, password)) = &self.user {
            uri.authority.userinfo.username.clone_from(name);
            uri.authority.userinfo.password.clone_from(password);
        }
        uri.query.heartbeat = u16::try_from(self.heartbeat.as_secs()).ok();
        uri.query.auth_mechanism = self.by_certificate.then_some(SASLMechanism::External);
        Ok(uri)
    }
}

fn read_template(text: &str, rule: &Rule, problems: &mut Vec<String>) -> Option<Template> {
    let template = Template::parse(text).and_then(|template| {
        template.check(rule)?;
        Ok(template)
    });
    template
        .map_err(|error| problems.push(error.to_string()))
        .ok()
}
