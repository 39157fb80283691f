//! How a server is set up: a builder that refuses what cannot work, and says why.

use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisConnectionInfo;

use super::link::Place;
use super::{KEY, Redis};
use crate::envelope::Envelope;
use crate::sink::SinkError;
use crate::sink::link::Shared;
use crate::sink::suspects::Suspects;
use crate::sink::tls::{self, Certificate};
use crate::template::Template;

const PORT: u16 = 6379;
const CONNECTIONS: usize = 4;

/// Sets up a [`Redis`] sink. Everything but the URL has a default.
pub struct RedisBuilder {
    url: String,
    key: String,
    envelope: Envelope,
    max_length: Option<u64>,
    connections: usize,
    user: Option<String>,
    password: Option<String>,
    timeout: Duration,
    connect_timeout: Duration,
    authorities: Vec<Vec<u8>>,
    certificate: Option<Certificate>,
}

/// What a URL says.
struct Url {
    host: String,
    port: u16,
    database: i64,
    is_tls: bool,
}

impl RedisBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            key: "{topic}".to_owned(),
            envelope: Envelope::raw(),
            max_length: None,
            connections: CONNECTIONS,
            user: None,
            password: None,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            authorities: Vec::new(),
            certificate: None,
        }
    }

    /// The key of the stream, a template. Defaults to `{topic}`.
    pub fn key(mut self, template: impl Into<String>) -> Self {
        self.key = template.into();
        self
    }

    /// In which form events travel. Defaults to raw.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// Lets a stream forget its oldest entries once it has more than about this many, whether they were
    /// read or not. By default nothing is forgotten.
    pub fn max_length(mut self, entries: u64) -> Self {
        self.max_length = Some(entries);
        self
    }

    /// Over how many connections events go at the same time. Defaults to 4: a server that waits for its disk before it
    /// answers (`appendfsync always`) does so once for what has come over all of them.
    pub fn connections(mut self, number: usize) -> Self {
        self.connections = number;
        self
    }

    /// The user to log in as. Defaults to `default`, the server's own.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// The password to log in with.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// How long an answer may take. Defaults to 10 s. Keep it shorter than the relay's
    /// `dispatch_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long it may take to connect, TLS and login included. Defaults to 5 s.
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
    pub fn build(self) -> Result<Redis, SinkError> {
        let mut problems = Vec::new();
        let url = read_url(&self.url).map_err(|why| problems.push(why)).ok();
        let key = Template::parse(&self.key).and_then(|key| key.check(&KEY).map(|()| key));
        let key = key.map_err(|error| problems.push(error.to_string())).ok();
        let tls = match self.wants_tls(url.as_ref()) {
            true => tls::config(&self.authorities, self.certificate.as_ref()).map(Some),
            false => Ok(None),
        };
        let tls = tls.map_err(|why| problems.push(why)).ok();
        if url.as_ref().is_some_and(|url| !url.is_tls) && self.wants_tls(None) {
            problems.push("certificates are for TLS: write the URL as rediss://…".to_owned());
        }
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            problems.push("timeouts must be longer than zero".to_owned());
        }
        if self.max_length == Some(0) {
            problems.push("a stream of length zero would forget everything".to_owned());
        }
        if self.connections == 0 {
            problems.push("without a connection nothing can be delivered".to_owned());
        }
        if self.user.is_some() && self.password.is_none() {
            problems.push("a user needs a password".to_owned());
        }
        let (Some(url), Some(key), Some(tls), true) = (url, key, tls, problems.is_empty()) else {
            return Err(SinkError::refused("Redis sink", problems));
        };
        let mut login = RedisConnectionInfo::default()
            .set_db(url.database)
            .set_skip_set_lib_name();
        if let Some(name) = self.user {
            login = login.set_username(name);
        }
        if let Some(password) = self.password {
            login = login.set_password(password);
        }
        Ok(Redis {
            place: Place {
                host: url.host,
                port: url.port,
                tls: tls.map(Arc::new),
                login,
                connect_timeout: self.connect_timeout,
            },
            key,
            envelope: self.envelope,
            max_length: self.max_length,
            timeout: self.timeout,
            number: self.connections,
            connections: Shared::default(),
            suspects: Suspects::default(),
        })
    }

    fn wants_tls(&self, url: Option<&Url>) -> bool {
        let by_url = url.is_some_and(|url| url.is_tls);
        by_url || self.certificate.is_some() || !self.authorities.is_empty()
    }
}

/// `redis[s]://host[:port][/database]`
fn read_url(url: &str) -> Result<Url, String> {
    let refuse = |why: &str| Err(format!("the URL cannot be used: {why}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        return refuse("write it as redis://host:port");
    };
    let is_tls = match scheme {
        "redis" => false,
        "rediss" => true,
        _ => return refuse("it begins with redis:// or, for TLS, rediss://"),
    };
    if rest.contains('@') {
        return refuse("use `user` and `password` for a name and password");
    }
    let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match database {
        "" => 0,
        number => match number.parse() {
            Ok(number @ 0..) => number,
            _ => return refuse("after the port comes the number of a database, or nothing"),
        },
    };
    let (host, port) = match address.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, rest))) => (host, rest.strip_prefix(':')),
        Some(None) => return refuse("a ] is missing"),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port.map(str::parse) {
        None => PORT,
        Some(Ok(port @ 1..)) => port,
        Some(_) => return refuse("a port is a number between 1 and 65535"),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "?#{}".contains(c)) {
        return refuse("write it as redis://host:port");
    }
    Ok(Url {
        host: host.to_owned(),
        port,
        database,
        is_tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (url, host, port, database, is_tls) in [
            ("redis://localhost", "localhost", 6379, 0, false),
            ("redis://r.example:7000/3", "r.example", 7000, 3, false),
            ("rediss://[::1]:7000/", "::1", 7000, 0, true),
            ("rediss://[::1]", "::1", 6379, 0, true),
        ] {
            let read = read_url(url).unwrap();
            assert_eq!(
                (&*read.host, read.port, read.database, read.is_tls),
                (host, port, database, is_tls),
                "{url}"
            );
        }
    }

    // B13
    #[test]
    fn urls_that_cannot_be_used_are_refused_without_being_quoted() {
        for url in [
            "localhost:6379",
            "http://localhost",
            "redis://",
            "redis://:6379",
            "redis://user:canary@localhost",
            "redis://localhost:0",
            "redis://localhost:70000",
            "redis://localhost/zero",
            "redis://localhost/-1",
            "redis://[::1",
            "redis://{topic}",
        ] {
            let why = read_url(url).err().unwrap();
            assert!(!why.contains("canary"), "{why}");
        }
    }
}
