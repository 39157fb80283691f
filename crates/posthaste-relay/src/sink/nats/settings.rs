//! How servers are set up: a builder that refuses what cannot work, and says why.

use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};

use super::link::{Login, Place};
use super::{Nats, SUBJECT};
use crate::envelope::Envelope;
use crate::sink::SinkError;
use crate::sink::link::Shared;
use crate::sink::suspects::Suspects;
use crate::sink::tls::{self, Certificate};
use crate::template::Template;

/// The length of the seed of an nkey, and how that of a user begins.
const SEED: (usize, &str) = (58, "SU");

/// Sets up a [`Nats`] sink. Everything but the server has a default.
pub struct NatsBuilder {
    servers: Vec<String>,
    subject: String,
    envelope: Envelope,
    logins: Vec<Login>,
    timeout: Duration,
    connect_timeout: Duration,
    authorities: Vec<Vec<u8>>,
    certificate: Option<Certificate>,
}

impl NatsBuilder {
    pub(super) fn new(server: String) -> Self {
        Self {
            servers: vec![server],
            subject: "{topic}".to_owned(),
            envelope: Envelope::raw(),
            logins: Vec::new(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            authorities: Vec::new(),
            certificate: None,
        }
    }

    /// A further server of the same cluster, to connect to if another is down.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// The subject, a template. Defaults to `{topic}`.
    pub fn subject(mut self, template: impl Into<String>) -> Self {
        self.subject = template.into();
        self
    }

    /// In which form events travel. Defaults to raw.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// Logs in with a user's name and password.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.logins.push(Login::User {
            name: name.into(),
            password: password.into(),
        });
        self
    }

    /// Logs in with a token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.logins.push(Login::Token(token.into()));
        self
    }

    /// Logs in with an nkey, by its seed (`SU…`).
    pub fn nkey(mut self, seed: impl Into<String>) -> Self {
        self.logins.push(Login::NKey(seed.into()));
        self
    }

    /// Logs in with credentials: what stands in a file that `nsc` makes (`.creds`).
    pub fn credentials(mut self, text: impl Into<String>) -> Self {
        self.logins.push(Login::Credentials(text.into()));
        self
    }

    /// How long an acknowledgement may take. Defaults to 10 s. Keep it shorter than the relay's
    /// `dispatch_timeout`. A server that says nothing for three quarters of it is taken for gone.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long it may take to connect to a server, TLS and login included. Defaults to 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
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
    pub fn build(self) -> Result<Nats, SinkError> {
        let mut problems = Vec::new();
        let servers: Vec<ServerAddr> = self
            .servers
            .iter()
            .filter_map(|server| read_server(server).map_err(|why| problems.push(why)).ok())
            .collect();
        let subject = Template::parse(&self.subject);
        let subject = subject.and_then(|subject| subject.check(&SUBJECT).map(|()| subject));
        let subject = subject
            .map_err(|error| problems.push(error.to_string()))
            .ok();
        if let Some(Err(why)) = subject
            .as_ref()
            .and_then(Template::fixed)
            .map(SUBJECT.whole)
        {
            problems.push(format!("the subject cannot be used: {why}"));
        }
        let tls = tls::config(&self.authorities, self.certificate.as_ref());
        let tls = tls.map_err(|why| problems.push(why)).ok();
        if self.timeout < Duration::from_millis(100) || self.connect_timeout.is_zero() {
            problems.push(
                "timeouts must be longer than zero, and `timeout` at least 100 ms".to_owned(),
            );
        }
        let login = self.read_login(&mut problems);
        let (Some(subject), Some(tls), true) = (subject, tls, problems.is_empty()) else {
            return Err(SinkError::refused("NATS sink", problems));
        };
        Ok(Nats {
            place: Place {
                servers,
                login,
                tls,
                connect_timeout: self.connect_timeout,
            },
            subject,
            envelope: self.envelope,
            timeout: self.timeout,
            connection: Shared::default(),
            suspects: Suspects::default(),
        })
    }

    fn read_login(&self, problems: &mut Vec<String>) -> Login {
        let login = match &self.logins[..] {
            [] => Login::Nobody,
            [one] => one.clone(),
            _ => {
                problems
                    .push("log in with one of a user, a token, an nkey or credentials".to_owned());
                Login::Nobody
            }
        };
        if let Login::NKey(seed) = &login
            && (seed.len(), seed.get(..2)) != (SEED.0, Some(SEED.1))
        {
            problems.push("the nkey is no seed of a user: it begins with SU".to_owned());
        }
        if let Err(why) = login.apply(ConnectOptions::new()) {
            problems.push(why);
        }
        login
    }
}

/// `nats://host[:port]`, or `tls://…`
fn read_server(url: &str) -> Result<ServerAddr, String> {
    let refuse = |why: &str| Err(format!("the server cannot be used: {why}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse("write it as nats://host:port");
    };
    if !matches!(scheme, "nats" | "tls") {
        return refuse("it begins with nats:// or, for TLS, tls://");
    }
    if rest.contains('@') {
        return refuse("use `user`, `token` and the like to log in");
    }
    let rest = rest.trim_end_matches('/');
    if rest.is_empty() || rest.contains(['/', '?', '#', '{', '}']) {
        return refuse("write it as nats://host:port");
    }
    match format!("{scheme}://{rest}").parse() {
        Ok(server) => Ok(server),
        Err(_) => refuse("write it as nats://host:port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // B13
    #[test]
    fn servers_that_cannot_be_used_are_refused_without_being_quoted() {
        for url in [
            "nats://localhost",
            "tls://n.example:4333/",
            "nats://[::1]:4222",
        ] {
            assert!(read_server(url).is_ok(), "{url}");
        }
        for url in [
            "localhost:4222",
            "http://localhost",
            "nats://",
            "nats://user:canary@localhost",
            "nats://localhost:70000",
            "nats://localhost/path",
            "nats://{topic}",
        ] {
            let why = read_server(url).err().unwrap();
            assert!(!why.contains("canary"), "{why}");
        }
    }
}
