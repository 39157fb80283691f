//! Tokens: 256 random bits for the caller, their SHA-256 for the file, a name for the audit log.
//!
//! A line of the file holds no secret: `NAME ROLE sha256:HEX [EXPIRES]`.

use std::fmt::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::role::{ROLES, Role};

/// So that tools which look for leaked secrets know one of ours.
const PREFIX: &str = "phst_";
const LONGEST_NAME: usize = 64;

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) expires: Option<Timestamp>,
    hash: Hash,
}

/// SHA-256 of a secret of 256 bits: it cannot be turned round, nor guessed.
#[derive(Clone, PartialEq)]
struct Hash([u8; 32]);

impl Token {
    /// Makes one. Gives back what the caller gets, which is kept nowhere, beside what is kept.
    pub(crate) fn create(name: &str, role: Role, expires: Option<Timestamp>) -> (String, Self) {
        let secret = secret();
        let token = Self {
            name: name.to_owned(),
            role,
            expires,
            hash: Hash::of(&secret),
        };
        (secret, token)
    }

    /// Reads a line of the file. What is wrong is told without quoting it: it may be a secret.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut parts = line.split_whitespace();
        let (name, role, hash) = (parts.next(), parts.next(), parts.next());
        let (Some(name), Some(role), Some(hash)) = (name, role, hash) else {
            return Err("a token is NAME ROLE sha256:HEX [EXPIRES]".to_owned());
        };
        if !is_name(name) {
            return Err(format!(
                "the name of a token has 1 to {LONGEST_NAME} letters, digits or . _ @ -"
            ));
        }
        let role = Role::named(role)
            .ok_or_else(|| format!("the role of a token is one of {}", ROLES.join(", ")))?;
        let hash = Hash::parse(hash)
            .ok_or_else(|| "the hash of a token is sha256: and 64 hex digits".to_owned())?;
        let expires = match parts.next().map(str::parse) {
            None => None,
            Some(Ok(at)) => Some(at),
            Some(Err(_)) => {
                return Err("a token expires at a time such as 2030-01-01T00:00:00Z".to_owned());
            }
        };
        match parts.next() {
            Some(_) => Err("a token is NAME ROLE sha256:HEX [EXPIRES], and no more".to_owned()),
            None => Ok(Self {
                name: name.to_owned(),
                role,
                expires,
                hash,
            }),
        }
    }

    /// Its line of the file.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{} {} {:?}", self.name, self.role, self.hash);
        if let Some(at) = self.expires {
            let _ = write!(line, " {at:.0}");
        }
        line
    }

    pub(crate) fn is_expired(&self, now: SystemTime) -> bool {
        let now = Timestamp::try_from(now).unwrap_or(Timestamp::MAX);
        self.expires.is_some_and(|at| at <= now)
    }
}

/// The token that a secret is for, in a time that tells nothing about any of them. Expired ones
/// are found, too. What we did not make is for none: the hash of a word would be quickly guessed.
pub(crate) fn find<'t>(tokens: &'t [Token], secret: &str) -> Option<&'t Token> {
    if !secret.starts_with(PREFIX) {
        return None;
    }
    let hash = Hash::of(secret);
    let mut found = None;
    for token in tokens {
        // Every one is looked at, found or not.
        if bool::from(hash.0.ct_eq(&token.hash.0)) {
            found = Some(token);
        }
    }
    found
}

/// 256 random bits, as text.
pub(crate) fn secret() -> String {
    format!(
        "{PREFIX}{}",
        URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
    )
}

pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits)
}

impl Hash {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut hash = [0; 32];
        for (place, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * place..2 * place + 2)?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn what_is_kept_lets_in_whoever_has_the_secret_and_nobody_else() {
        let (ada, kept) = Token::create("ada", Role::Operator, None);
        let (bob, other) = Token::create("bob", Role::Viewer, None);
        let tokens = [kept.clone(), other];
        assert_eq!(find(&tokens, &ada), Some(&kept));
        assert_eq!(find(&tokens, &bob).map(|it| &*it.name), Some("bob"));
        assert!(find(&tokens, "").is_none() && find(&tokens, &ada[1..]).is_none());
        assert!(ada.len() > 43 && ada != bob && !kept.line().contains(&ada));
        assert_eq!(Token::parse(&kept.line()), Ok(kept));
    }

    #[test]
    fn a_word_opens_nothing_even_if_somebody_wrote_down_its_hash() {
        let line = format!("ada operator {:?}", Hash::of("test"));
        let tokens = [Token::parse(&line).unwrap()];
        assert_eq!(find(&tokens, "test"), None);
    }

    #[test]
    fn a_token_ends_at_its_time() {
        let at = Timestamp::from_second(1000).unwrap();
        let (_, token) = Token::create("ada", Role::Viewer, Some(at));
        assert_eq!(Token::parse(&token.line()), Ok(token.clone()));
        let after = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(!token.is_expired(after(999)) && token.is_expired(after(1000)));
    }

    #[test]
    fn a_line_that_is_wrong_is_told_without_quoting_it() {
        let hash = format!("sha256:{}", "0".repeat(64));
        for line in [
            "phst_secret".to_owned(),
            format!("ada root {hash}"),
            format!("a/b viewer {hash}"),
            "ada viewer phst_secret".to_owned(),
            format!("ada viewer {hash} tomorrow"),
            format!("ada viewer {hash} 2030-01-01T00:00:00Z phst_secret"),
            format!("ada viewer sha256:{}", "é".repeat(32)),
        ] {
            let why = Token::parse(&line).unwrap_err();
            assert!(!why.contains("phst_secret"), "{why}");
        }
    }
}
