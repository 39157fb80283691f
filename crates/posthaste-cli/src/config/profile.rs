//! Ready-made values for the five systems that the seed documents describe.
//!
//! A profile sets what its document gives, and nothing else: what the document leaves open is the default.

/// The names of the profiles.
pub(crate) const PROFILES: &[&str] = &["mini-chat", "org", "order-service", "logistics", "farm"];

/// What a profile sets: a key within its outbox, the value, and where the document says so.
pub(crate) type Preset = (&'static str, &'static str, &'static str);

/// What the profile of this name sets.
pub(crate) fn presets(profile: &str) -> &'static [Preset] {
    match profile {
        "mini-chat" => MINI_CHAT,
        "org" => ORG,
        "order-service" => ORDER_SERVICE,
        "logistics" => LOGISTICS,
        "farm" => FARM,
        _ => &[],
    }
}

/// What the profile sets for one key, and where the document says so.
pub(crate) fn preset(profile: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let found = presets(profile).iter().find(|(name, _, _)| *name == key);
    found.map(|(_, value, section)| (*value, *section))
}

// 000, Mini Chat. Lease, batch and attempts are "supplied by the deploying module": the
// `max_attempts = 3` of section 3 tells how attempts are counted, it is not a setting. Its rule for
// the poll interval, at most a third of the lease, is the relay's own.
const MINI_CHAT: &[Preset] = &[
    (
        "retry.policy",
        "equal-jitter",
        "section 3, retry scheduling: uniform_random(delay / 2, delay)",
    ),
    (
        "retry.base",
        "1s",
        "section 3, retry scheduling: base_delay, 1 s",
    ),
    (
        "retry.max",
        "300s",
        "section 3, retry scheduling: max_delay, 300 s",
    ),
];

// 001, DEV-PLAN-017.
const ORG: &[Preset] = &[
    (
        "mode",
        "single-active",
        "section 10.1: OUTBOX_RELAY_SINGLE_ACTIVE=true, and decision 3",
    ),
    (
        "relay.enabled",
        "true",
        "section 10.1: OUTBOX_RELAY_ENABLED",
    ),
    (
        "relay.batch_size",
        "100",
        "sections 6.2 and 10.1: batch_size=100",
    ),
    (
        "relay.poll_interval",
        "1s",
        "sections 6.2 and 10.1: poll_interval=1s",
    ),
    ("relay.lease", "60s", "sections 6.2 and 10.1: lock_ttl=60s"),
    (
        "relay.dispatch_timeout",
        "30s",
        "section 10.1: OUTBOX_RELAY_DISPATCH_TIMEOUT=30s",
    ),
    (
        "relay.error_limit",
        "2KiB",
        "sections 7 and 10.1: OUTBOX_LAST_ERROR_MAX_BYTES=2048",
    ),
    (
        "retry.policy",
        "additive-jitter",
        "section 6.2: min(1s*2^(attempts-1), 60s) + jitter(0~200ms)",
    ),
    ("retry.base", "1s", "section 6.2: backoff from 1s"),
    ("retry.max", "60s", "section 6.2: backoff up to 60s"),
    ("retry.jitter", "200ms", "section 6.2: jitter(0~200ms)"),
    (
        "retry.max_attempts",
        "25",
        "sections 6.2 and 10.1: max_attempts=25",
    ),
    (
        "clean.enabled",
        "true",
        "section 10.1: OUTBOX_CLEANER_ENABLED",
    ),
    (
        "clean.interval",
        "1m",
        "section 10.1: OUTBOX_CLEANER_INTERVAL=1m",
    ),
    (
        "clean.retention",
        "168h",
        "section 10.1: OUTBOX_CLEANER_RETENTION=168h",
    ),
    (
        "clean.dead_retention",
        "0s",
        "section 10.1: OUTBOX_CLEANER_DEAD_RETENTION=0",
    ),
];

// 002, order-service. Rule 3 allows either to keep everything or to clean after 30 days; the
// number is what can be set.
const ORDER_SERVICE: &[Preset] = &[
    (
        "relay.batch_size",
        "10",
        "Polling Strategy: 10 events per poll",
    ),
    (
        "relay.poll_interval",
        "5s",
        "Polling Strategy: fixedDelay = 5000",
    ),
    ("retry.policy", "exponential", "Retry Logic: exponential"),
    ("retry.base", "100ms", "Retry Logic: 100ms, 200ms, …"),
    ("retry.max", "1600ms", "Retry Logic: …, 800ms, 1600ms"),
    ("retry.max_attempts", "5", "Retry Logic: max attempts 5"),
    (
        "clean.retention",
        "30d",
        "Critical Rules, 3: cleanup after 30 days",
    ),
];

// 003, logistics. The document has no longest delay: the default of five minutes is not reached
// in its six attempts. Five retries that may not be exceeded, after the first attempt, are six attempts.
const LOGISTICS: &[Preset] = &[
    ("relay.batch_size", "50", "section 3.1: LIMIT 50"),
    (
        "relay.poll_interval",
        "200ms",
        "section 1.2: polling interval 200ms",
    ),
    (
        "retry.policy",
        "exponential",
        "section 3.3: power(2, retries)",
    ),
    (
        "retry.base",
        "1s",
        "section 3.1: 1 second * power(2, retry_count), from retry_count = 0",
    ),
    (
        "retry.max_attempts",
        "6",
        "section 3.3: 5 retries, dead if exceeded; with the first attempt 6",
    ),
];

// 004, farm management. There the retry count is compared after it was raised, so that three are
// all attempts. It names a retention period, but no length of it.
const FARM: &[Preset] = &[
    ("relay.batch_size", "50", "section 4: BatchSize 50"),
    ("relay.poll_interval", "5s", "section 4: IntervalSeconds 5"),
    (
        "retry.policy",
        "fixed",
        "section 4: RetryDelaySeconds, always the same",
    ),
    ("retry.base", "10s", "section 4: RetryDelaySeconds 10"),
    ("retry.max_attempts", "3", "section 4: MaxRetryAttempts 3"),
];
