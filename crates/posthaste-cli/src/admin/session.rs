//! Sessions of browsers: a cookie in place of the token, for a working day at most.
//!
//! Kept in memory only: a daemon that restarts asks everybody again.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

use super::auth::Secure;
use super::token;

const LONGEST: Duration = Duration::from_secs(12 * 3600);
const SESSIONS: usize = 1000;
/// As many of one token: who signs in again and again ends their own sessions, and nobody else's.
const EACH: usize = 100;

#[derive(Default)]
pub(super) struct Sessions {
    /// By the hash of the cookie, so that memory shown by accident lets nobody in.
    open: Mutex<HashMap<[u8; 32], Session>>,
}

struct Session {
    token: String,
    began: Instant,
}

impl Sessions {
    /// Begins a session for a token, and gives back the cookie to set.
    pub(super) fn begin(&self, token: &str, secure: Secure, now: Instant) -> HeaderValue {
        let secret = token::secret();
        let mut open = self.open.lock().expect("not poisoned");
        open.retain(|_, session| now.saturating_duration_since(session.began) < LONGEST);
        let oldest = |open: &HashMap<[u8; 32], Session>, of: Option<&str>| {
            let those = open
                .iter()
                .filter(|(_, it)| of.is_none_or(|of| it.token == of));
            let first = those.min_by_key(|(_, session)| session.began);
            first.map(|(hash, _)| *hash)
        };
        let own = open.values().filter(|it| it.token == token).count();
        let gives_way = match (own >= EACH, open.len() >= SESSIONS) {
            (true, _) => oldest(&open, Some(token)),
            (false, true) => oldest(&open, None),
            (false, false) => None,
        };
        if let Some(hash) = gives_way {
            open.remove(&hash);
        }
        let session = Session {
            token: token.to_owned(),
            began: now,
        };
        open.insert(Sha256::digest(secret.as_bytes()).into(), session);
        cookie(&secret, secure, LONGEST.as_secs())
    }

    /// The name of the token that the caller's session is for.
    pub(super) fn find(&self, headers: &HeaderMap, secure: Secure, now: Instant) -> Option<String> {
        let open = self.open.lock().expect("not poisoned");
        let session = open.get(&hash(headers, secure)?)?;
        let holds = now.saturating_duration_since(session.began) < LONGEST;
        holds.then(|| session.token.clone())
    }

    /// Ends the caller's session, and gives back the cookie that takes the place of theirs.
    pub(super) fn end(&self, headers: &HeaderMap, secure: Secure) -> HeaderValue {
        if let Some(hash) = hash(headers, secure) {
            self.open.lock().expect("not poisoned").remove(&hash);
        }
        cookie("", secure, 0)
    }
}

fn hash(headers: &HeaderMap, secure: Secure) -> Option<[u8; 32]> {
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, secret) = pairs.find(|(it, _)| *it == name(secure))?;
    Some(Sha256::digest(secret.as_bytes()).into())
}

/// With the prefix, browsers take it from this very host only, and over TLS only.
fn name(secure: Secure) -> &'static str {
    match secure {
        Secure(true) => "__Host-posthaste",
        Secure(false) => "posthaste",
    }
}

fn cookie(secret: &str, secure: Secure, seconds: u64) -> HeaderValue {
    let name = name(secure);
    let only = if secure.0 { "; Secure" } else { "" };
    let cookie =
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{only}");
    HeaderValue::from_str(&cookie).expect("plain text")
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
        let sessions = Sessions::default();
        let now = Instant::now();
        let cookie = sessions.begin("ada", Secure(true), now);
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
        let find = |headers: &HeaderMap, now| sessions.find(headers, Secure(true), now);
        assert_eq!(find(&headers, now).as_deref(), Some("ada"));
        assert_eq!(find(&headers, now + LONGEST), None);
        // What came over TLS is not taken without it.
        assert_eq!(sessions.find(&headers, Secure(false), now), None);
        let gone = sessions.end(&headers, Secure(true));
        assert!(gone.to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(find(&headers, now), None);
        assert_eq!(find(&HeaderMap::new(), now), None);
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_goes_first() {
        let sessions = Sessions::default();
        let start = Instant::now();
        let plain = Secure(false);
        let first = with(&sessions.begin("first", plain, start));
        let second = with(&sessions.begin("second", plain, start + Duration::from_secs(1)));
        let now = start + Duration::from_secs(3);
        for _ in 0..2 * SESSIONS {
            sessions.begin("other", plain, start + Duration::from_secs(2));
        }
        // One token that signs in again and again ends nobody else's session.
        assert!(sessions.find(&first, plain, now).is_some());
        let rest = SESSIONS - EACH - 1;
        for place in 0..rest {
            let token = format!("one of many {place}");
            sessions.begin(&token, plain, start + Duration::from_secs(2));
        }
        assert_eq!(sessions.find(&first, plain, now), None);
        assert!(sessions.find(&second, plain, now).is_some());
    }
}
