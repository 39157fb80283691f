//! Who calls: by a token, by the session that a token began, or nobody in particular.

use std::net::IpAddr;
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

/// How the caller is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum By {
    /// There are no tokens: by being on this machine.
    Machine,
    Token,
    Session,
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

pub(super) struct Auth {
    tokens: Vec<Token>,
    without_tokens: Role,
    pub(super) sessions: Sessions,
}

impl Auth {
    pub(super) fn new(tokens: Vec<Token>, without_tokens: Role, secure: bool) -> Self {
        Self {
            tokens,
            without_tokens,
            sessions: Sessions::new(secure),
        }
    }

    /// Whether anybody has to say who they are.
    pub(super) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Who calls.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Fault> {
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
        let name = self.sessions.find(headers, Instant::now());
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
