//! Who calls: by a token, by the session that a token began, or nobody in particular.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Instant, SystemTime};

use http::{HeaderMap, header};

use super::fault::Fault;
use super::role::Role;
use super::session::Sessions;
use super::token::{self, Token};

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// For the audit log.
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) by: By,
}

impl Caller {
    /// Whom to count requests and streams for: on this machine, by where they come from.
    pub(super) fn key(&self, peer: Option<Peer>) -> String {
        match self.by {
            By::Machine => Peer::key(peer),
            By::Token | By::Session => self.name.clone(),
        }
    }
}

/// How the caller is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum By {
    /// There are no tokens: by being on this machine.
    Machine,
    Token,
    Session,
}

/// Where a request came from, as far as one host is told from another: an address of IPv4, or a network of IPv6,
/// in which one host may have any number of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Peer(IpAddr);

impl Peer {
    pub(super) fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            v4 => v4,
        })
    }

    /// No token has such a name.
    pub(super) fn key(peer: Option<Self>) -> String {
        peer.map_or_else(String::new, |peer| format!("from {}", peer.0))
    }
}

/// Whether the browser speaks TLS, to us or to something before us: then so do cookies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Secure(pub(super) bool);

pub(super) struct Auth {
    tokens: Vec<Token>,
    without_tokens: Role,
    pub(super) sessions: Sessions,
}

impl Auth {
    pub(super) fn new(tokens: Vec<Token>, without_tokens: Role) -> Self {
        Self {
            tokens,
            without_tokens,
            sessions: Sessions::default(),
        }
    }

    /// Whether anybody has to say who they are.
    pub(super) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Who calls.
    pub(super) fn caller(&self, headers: &HeaderMap, secure: Secure) -> Result<Caller, Fault> {
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            let secret = value.to_str().ok().and_then(bearer);
            let unknown = || Fault::new("admin.unauthenticated", "this is no token of ours");
            return self.by_secret(secret.ok_or_else(unknown)?);
        }
        if !self.has_tokens() {
            return Ok(Caller {
                name: "local".to_owned(),
                role: self.without_tokens,
                by: By::Machine,
            });
        }
        let nobody = || Fault::new("admin.unauthenticated", "who calls is not known");
        let name = self.sessions.find(headers, secure, Instant::now());
        let name = name.ok_or_else(nobody)?;
        let token = self.tokens.iter().find(|token| token.name == name);
        self.unless_expired(token.ok_or_else(nobody)?, By::Session)
    }

    /// Who has this secret.
    pub(super) fn by_secret(&self, secret: &str) -> Result<Caller, Fault> {
        match token::find(&self.tokens, secret) {
            Some(token) => self.unless_expired(token, By::Token),
            None => Err(Fault::new(
                "admin.unauthenticated",
                "this is no token of ours",
            )),
        }
    }

    fn unless_expired(&self, token: &Token, by: By) -> Result<Caller, Fault> {
        if token.is_expired(SystemTime::now()) {
            let message = format!("the token {:?} has expired", token.name);
            return Err(Fault::new("admin.token_expired", message));
        }
        Ok(Caller {
            name: token.name.clone(),
            role: token.role,
            by,
        })
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| secret.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_caller_whatever_addresses_it_has() {
        let peer = |address: &str| Peer::new(address.parse().unwrap());
        let host = peer("2001:db8:1:2::7");
        assert_eq!(host, peer("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(host, peer("2001:db8:1:3::7"));
        assert_eq!(peer("::ffff:192.0.2.7"), peer("192.0.2.7"));
        assert_ne!(peer("::ffff:192.0.2.7"), peer("::ffff:192.0.2.8"));
        assert_ne!(peer("192.0.2.7"), peer("192.0.2.8"));
    }
}
