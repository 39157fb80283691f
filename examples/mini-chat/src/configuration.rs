//! What the deployment configures: how often the dispatcher looks, and how it tries again.
//!
//! All of it is read when the service starts, and stays as it is while a dispatcher runs.

use std::time::Duration;

use posthaste::store::Scope;
use posthaste_relay::{Retry, Settings};

use crate::usage::NAMESPACE;

/// The settings of a dispatcher, unless the environment says otherwise: what the document gives, and our choice
/// where it leaves that to the deployment. `posthaste.toml` has the same, for operators.
pub fn settings() -> Settings {
    Settings {
        // Of the document, and of the profile `mini-chat`.
        retry: Retry::EqualJitter {
            base: Duration::from_secs(1),
            max: Duration::from_secs(300),
        },
        scope: Scope {
            namespace: Some(NAMESPACE.to_owned()),
            ..Scope::default()
        },
        // Ours. The relay insists on a poll interval of at most a third of the lease.
        batch_size: 100,
        poll_interval: Duration::from_secs(1),
        lease: Duration::from_secs(30),
        dispatch_timeout: Duration::from_secs(10),
        max_attempts: 10,
        ..Settings::default()
    }
}

/// A variable that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {should_be}")]
pub struct ConfigurationError {
    name: &'static str,
    should_be: &'static str,
}

/// The [`settings`], with what these variables say. One that is empty counts as not there.
///
/// | variable | default |
/// |---|---|
/// | `MINI_CHAT_POLL_INTERVAL` | 1s |
/// | `MINI_CHAT_RETRY_BASE` | 1s |
/// | `MINI_CHAT_RETRY_MAX` | 300s |
/// | `MINI_CHAT_MAX_ATTEMPTS` | 10 |
pub fn configured(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Settings, ConfigurationError> {
    let given = |name: &str| variable(name).filter(|text| !text.is_empty());
    let time = |name: &'static str, default: Duration| match given(name) {
        None => Ok(default),
        Some(text) => parse_duration(&text).ok_or(ConfigurationError {
            name,
            should_be: "a time such as 500ms, 1s or 5m",
        }),
    };
    let mut settings = settings();
    settings.poll_interval = time("MINI_CHAT_POLL_INTERVAL", settings.poll_interval)?;
    if let Retry::EqualJitter { base, max } = &mut settings.retry {
        *base = time("MINI_CHAT_RETRY_BASE", *base)?;
        *max = time("MINI_CHAT_RETRY_MAX", *max)?;
    }
    if let Some(text) = given("MINI_CHAT_MAX_ATTEMPTS") {
        settings.max_attempts = text.parse().map_err(|_| ConfigurationError {
            name: "MINI_CHAT_MAX_ATTEMPTS",
            should_be: "a whole number",
        })?;
    }
    Ok(settings)
}

/// Reads `500ms`, `1.5s` or `5m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let (number, seconds) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}
