//! How an endpoint is set up: a builder that refuses what cannot work, and says why.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::header;
use reqwest::dns::Resolve;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};

use super::alive::Endpoint;
use super::guard::{Guard, Guarded, System};
use super::sign::Secret;
use super::{Http, PATH, url};
use crate::envelope::Envelope;
use crate::sink::SinkError;
use crate::sink::suspects::Suspects;
use crate::sink::tls::{self, Certificate};
use crate::template::Template;

/// Idle connections are let go before servers close them, mostly.
const IDLE: Duration = Duration::from_secs(30);
/// All calls share one connection of HTTP/2: it is asked this often whether it is still there.
const PING: Duration = Duration::from_secs(5);

/// Sets up an [`Http`] sink. Everything but the URL has a default.
pub struct HttpBuilder {
    url: String,
    envelope: Envelope,
    secrets: Vec<String>,
    timeout: Duration,
    connect_timeout: Duration,
    headers: Vec<(String, String)>,
    authorization: Option<String>,
    /// What errors must not tell, besides the values of headers.
    untold: Vec<String>,
    allowed: Vec<String>,
    any_address: bool,
    authorities: Vec<Vec<u8>>,
    certificate: Option<Certificate>,
}

impl HttpBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            envelope: Envelope::cloud_events(),
            secrets: Vec::new(),
            timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            headers: Vec::new(),
            authorization: None,
            untold: Vec::new(),
            allowed: Vec::new(),
            any_address: false,
            authorities: Vec::new(),
            certificate: None,
        }
    }

    /// In which form events travel. Defaults to CloudEvents in binary mode.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    /// Signs every call with this secret (`whsec_…`). To replace a secret, give the new and the
    /// old one until all receivers know the new: each call then has two signatures.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// How long an answer may take, from the start of the call. Defaults to 15 s. Keep it shorter
    /// than the relay's `dispatch_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long it may take to connect, TLS included. Defaults to 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Adds a header to every call.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends a bearer token.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.authorization = Some(format!("Bearer {token}"));
        self.untold.push(token);
        self
    }

    /// Sends a user's name and password.
    pub fn basic(mut self, user: &str, password: impl Into<String>) -> Self {
        let password = password.into();
        let both = STANDARD.encode(format!("{user}:{password}"));
        self.authorization = Some(format!("Basic {both}"));
        self.untold.extend([both, password]);
        self
    }

    /// Allows addresses that are not of the internet: a network (`10.0.0.0/8`), an address, or the
    /// name of a host, wherever it is.
    pub fn allow(mut self, what: impl Into<String>) -> Self {
        self.allowed.push(what.into());
        self
    }

    /// Allows every address. Only for URLs that nobody else can choose.
    pub fn allow_any_address(mut self) -> Self {
        self.any_address = true;
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
    pub fn build(self) -> Result<Http, SinkError> {
        self.build_with(System)
    }

    pub(super) fn build_with(self, resolver: impl Resolve + 'static) -> Result<Http, SinkError> {
        let mut problems = Vec::new();
        let secrets = self.read_secrets(&mut problems);
        let headers = self.read_headers(&mut problems);
        let guard = self.read_guard(&mut problems);
        let place = self.read_url(&guard).map_err(|why| problems.push(why)).ok();
        let tls = tls::config(&self.authorities, self.certificate.as_ref());
        let tls = tls.map_err(|why| problems.push(why)).ok();
        let tls = tls.map(|mut tls| {
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            tls
        });
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            problems.push("timeouts must be longer than zero".to_owned());
        }
        let (
            Some(Place {
                origin,
                path,
                fixed,
            }),
            Some(tls),
            true,
        ) = (place, tls, problems.is_empty())
        else {
            return Err(SinkError::refused("webhook", problems));
        };
        let resolver = Guarded {
            guard,
            resolver: Arc::new(resolver),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(Arc::new(resolver))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
            .timeout(self.timeout)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(IDLE)
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING)
            .build()
            .map_err(|error| SinkError::refused("webhook", vec![format!("no client: {error}")]))?;
        let values = self.headers.into_iter().map(|(_, value)| value);
        Ok(Http {
            endpoint: Endpoint::new(client, origin, self.connect_timeout),
            path,
            fixed,
            envelope: self.envelope,
            secrets,
            headers,
            untold: self
                .untold
                .into_iter()
                .chain(self.secrets)
                .chain(values)
                .collect(),
            suspects: Suspects::default(),
        })
    }

    fn read_secrets(&self, problems: &mut Vec<String>) -> Vec<Secret> {
        let secrets = self.secrets.iter().map(|text| Secret::parse(text));
        let read =
            secrets.filter_map(|secret| secret.map_err(|why| problems.push(why.to_owned())).ok());
        read.collect()
    }

    fn read_headers(&self, problems: &mut Vec<String>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let key = HeaderName::try_from(name)
                .ok()
                .filter(|_| !header::is_reserved(name));
            let value = HeaderValue::try_from(value).ok();
            match (key, value) {
                (Some(key), Some(value)) if !headers.contains_key(&key) => {
                    headers.insert(key, sensitive(value));
                }
                (Some(_), Some(_)) => problems.push(format!("header {name:?} is there twice")),
                (Some(_), None) => {
                    problems.push(format!("header {name:?} has no value that HTTP can carry"))
                }
                (None, _) => problems.push(format!("header {name:?} is reserved, or no header")),
            }
        }
        if let Some(value) = &self.authorization {
            match HeaderValue::try_from(value) {
                Ok(value) => drop(headers.insert(AUTHORIZATION, sensitive(value))),
                Err(_) => {
                    problems.push("the token has characters that HTTP cannot carry".to_owned())
                }
            }
        }
        headers
    }

    fn read_guard(&self, problems: &mut Vec<String>) -> Guard {
        let mut guard = Guard {
            off: self.any_address,
            ..Guard::default()
        };
        for what in &self.allowed {
            if guard.allow(what).is_none() {
                problems.push(format!(
                    "{what:?} is no network, address or name of a host to allow"
                ));
            }
        }
        guard
    }

    fn read_url(&self, guard: &Guard) -> Result<Place, String> {
        let refuse = |why: &str| Err(format!("the URL cannot be used: {why}"));
        let Some((scheme, rest)) = self.url.split_once("://") else {
            return refuse("write it as https://host/path");
        };
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if host.contains(['{', '}']) {
            return refuse("only path and query may have fields of events in them");
        }
        if host.contains('@') {
            return refuse("use `basic` for a name and password");
        }
        if path.contains('#') {
            return refuse("a fragment is never sent");
        }
        let origin = match Url::parse(&format!("{scheme}://{host}")) {
            Ok(url) if url.path().len() > 1 => return refuse("the host has a \\ in it"),
            Ok(url) if matches!(url.scheme(), "http" | "https") => url,
            Ok(_) => return refuse("only http and https are possible"),
            Err(error) => return refuse(&error.to_string()),
        };
        // An address in the URL itself is looked up by nobody.
        if let Some(address) = literal(&origin)
            && !guard.allows("", address)
        {
            return refuse(&format!(
                "{address} is no public address: allow it, if it is meant to be reached"
            ));
        }
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        if path.len() > PATH.longest {
            return refuse("its path is too long");
        }
        if let Err(why) = (PATH.whole)(&path) {
            return refuse(why);
        }
        let path = Template::parse(&path).map_err(|error| error.to_string())?;
        path.check(&PATH).map_err(|error| error.to_string())?;
        let origin = origin.as_str().trim_end_matches('/').to_owned();
        let fixed = path.fixed().map(|path| url(&origin, path)).transpose()?;
        Ok(Place {
            origin,
            path,
            fixed,
        })
    }
}

/// Where calls go: scheme, host and port, the template of what follows, and the whole if no event changes it.
struct Place {
    origin: String,
    path: Template,
    fixed: Option<Url>,
}

/// The address that stands in a URL, however it is written there.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}
