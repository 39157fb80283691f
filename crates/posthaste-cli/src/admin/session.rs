//! Sessions of browsers: a cookie in place of the token, for a working day at most.
//!
//! Kept in memory only: a daemon that restarts asks everybody again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

use super::token;

const LONGEST: Duration = Duration::from_secs(12 * 3600);
const SESSIONS: usize = 1000;

#[derive(Default)]
pub(super) struct Sessions {
    /// By the hash of the cookie, so that memory shown by accident lets nobody in.
    open: Mutex<HashMap<[u8; 32], Session>>,
    /// Whether TLS is spoken.
    secure: bool,
}

struct Session {
    token: String,
    began: Instant,
}

impl Sessions {
    pub(super) fn new(secure: bool) -> Self {
        Self {
            open: Mutex::default(),
            secure,
        }
    }

    /// Begins a session for a token, and gives back the cookie to set.
    pub(super) fn begin(&self, token: &str, now: Instant) -> HeaderValue {
        let secret = token::secret();
        let mut open = self.open.lock().expect("not poisoned");
        open.retain(|_, session| now.saturating_duration_since(session.began) < LONGEST);
        if open.len() >= SESSIONS
            && let Some(oldest) = open
                .iter()
                .min_by_key(|(_, session)| session.began)
                .map(|(hash, _)| *hash)
        {
            open.remove(&oldest);
        }
        let session = Session {
            token: token.to_owned(),
            began: now,
        };
        open.insert(Sha256::digest(secret.as_bytes()).into(), session);
        self.cookie(&secret, LONGEST.as_secs())
    }

    /// The name of the token that the caller's session is for.
    pub(super) fn find(&self, headers: &HeaderMap, now: Instant) -> Option<String> {
        let open = self.open.lock().expect("not poisoned");
        let session = open.get(&self.hash(headers)?)?;
        let holds = now.saturating_duration_since(session.began) < LONGEST;
        holds.then(|| session.token.clone())
    }

    /// Ends the caller's session, and gives back the cookie that takes the place of theirs.
    pub(super) fn end(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(hash) = self.hash(headers) {
            self.open.lock().expect("not poisoned").remove(&hash);
        }
        self.cookie("", 0)
    }

    fn hash(&self, headers: &HeaderMap) -> Option<[u8; 32]> {
        let cookies = headers.get_all(header::COOKIE).into_iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let (_, secret) = pairs.find(|(name, _)| *name == self.name())?;
        Some(Sha256::digest(secret.as_bytes()).into())
    }

    /// With the prefix, browsers take it from this very host only, and over TLS only.
    fn name(&self) -> &'static str {
        match self.secure {
            true => "__Host-posthaste",
            false => "posthaste",
        }
    }

    fn cookie(&self, secret: &str, seconds: u64) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = self.name();
        let cookie = format!(
            "{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
        );
        HeaderValue::from_str(&cookie).expect("plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        let value = HeaderValue::from_str(&format!("theme=dark; {pair}")).unwrap();
        HeaderMap::from_iter([(header::COOKIE, value)])
    }

    #[test]
    fn a_session_lasts_until_it_is_ended_or_the_day_is_over() {
        let sessions = Sessions::new(true);
        let now = Instant::now();
        let cookie = sessions.begin("ada", now);
        let text = cookie.to_str().unwrap();
        for attribute in [
            "__Host-",
            "HttpOnly",
            "SameSite=Strict",
            "Secure",
            "Path=/;",
        ] {
            assert!(text.contains(attribute), "{text}");
        }
        let headers = with(&cookie);
        assert_eq!(sessions.find(&headers, now).as_deref(), Some("ada"));
        assert_eq!(sessions.find(&headers, now + LONGEST), None);
        let gone = sessions.end(&headers);
        assert!(gone.to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(sessions.find(&headers, now), None);
        assert_eq!(sessions.find(&HeaderMap::new(), now), None);
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_goes_first() {
        let sessions = Sessions::new(false);
        let start = Instant::now();
        let first = with(&sessions.begin("first", start));
        let second = with(&sessions.begin("second", start + Duration::from_secs(1)));
        for _ in 0..SESSIONS - 1 {
            sessions.begin("other", start + Duration::from_secs(2));
        }
        let now = start + Duration::from_secs(3);
        assert_eq!(sessions.find(&first, now), None);
        assert!(sessions.find(&second, now).is_some());
    }
}
