//! The operator's switches, from the environment: their names, their defaults, and what is wrong with
//! a value.
//!
//! How a relay works with them is the relay's own business.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::Table;
use posthaste_relay::{Cleaning, Mode, Retry, Settings};

/// All switches.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `OUTBOX_RELAY_ENABLED`: whether to deliver. Defaults to true.
    pub relay_enabled: bool,
    /// `OUTBOX_RELAY_TABLES`: which outboxes to deliver. Defaults to none.
    pub relay_tables: Vec<Table>,
    /// `OUTBOX_RELAY_SINGLE_ACTIVE`: whether one instance delivers and the others stand by. Defaults
    /// to true.
    pub relay_single_active: bool,
    /// `OUTBOX_RELAY_POLL_INTERVAL`: how often to look. Defaults to 1 s.
    pub relay_poll_interval: Duration,
    /// `OUTBOX_RELAY_BATCH_SIZE`: how many events to claim at once. Defaults to 100.
    pub relay_batch_size: u32,
    /// `OUTBOX_RELAY_LOCK_TTL`: for how long. Defaults to 60 s.
    pub relay_lock_ttl: Duration,
    /// `OUTBOX_RELAY_MAX_ATTEMPTS`: after how many attempts an event is dead. Defaults to 25.
    pub relay_max_attempts: u32,
    /// `OUTBOX_RELAY_DISPATCH_TIMEOUT`: how long one delivery may take. Defaults to 30 s.
    pub relay_dispatch_timeout: Duration,
    /// `OUTBOX_LAST_ERROR_MAX_BYTES`: how much of an error is kept. Defaults to 2,048.
    pub last_error_max_bytes: usize,
    /// `OUTBOX_LOG_MASK_TENANT`: whether logs tell no tenant. Defaults to false.
    pub log_mask_tenant: bool,
    /// `OUTBOX_CLEANER_ENABLED`: whether to clean. Defaults to true.
    pub cleaner_enabled: bool,
    /// `OUTBOX_CLEANER_TABLES`: which outboxes to clean. Defaults to those of the relay.
    pub cleaner_tables: Vec<Table>,
    /// `OUTBOX_CLEANER_INTERVAL`: how often to clean. Defaults to 1 min.
    pub cleaner_interval: Duration,
    /// `OUTBOX_CLEANER_RETENTION`: how long delivered events are kept. Defaults to 168 h.
    pub cleaner_retention: Duration,
    /// `OUTBOX_CLEANER_DEAD_RETENTION`: how long dead events are kept. Defaults to 0: for ever.
    pub cleaner_dead_retention: Option<Duration>,
    /// `PROMETHEUS_METRICS_PATH`, if `PROMETHEUS_METRICS_ENABLED`: where Prometheus finds the metrics.
    /// Defaults to `/debug/prometheus`, and to not at all.
    pub metrics_path: Option<String>,
    /// `ORG_LISTEN`: the address that answers there. Defaults to 127.0.0.1:3200.
    pub listen: SocketAddr,
}

/// What is wrong in the environment: all of it, each variable by its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment is not valid: {}", .0.join("; "))]
pub struct EnvironmentError(pub Vec<String>);

impl Environment {
    /// Reads the environment of this process.
    pub fn of_process() -> Result<Self, EnvironmentError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads variables. One that is empty counts as not there.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, EnvironmentError> {
        let mut reader = Reader {
            variable,
            problems: Vec::new(),
        };
        let relay_tables = reader.tables("OUTBOX_RELAY_TABLES", &[]);
        let metrics = reader.switch("PROMETHEUS_METRICS_ENABLED", "false");
        let path = reader.path("PROMETHEUS_METRICS_PATH", "/debug/prometheus");
        let dead_retention = reader.duration("OUTBOX_CLEANER_DEAD_RETENTION", "0");
        let environment = Self {
            relay_enabled: reader.switch("OUTBOX_RELAY_ENABLED", "true"),
            relay_single_active: reader.switch("OUTBOX_RELAY_SINGLE_ACTIVE", "true"),
            relay_poll_interval: reader.duration("OUTBOX_RELAY_POLL_INTERVAL", "1s"),
            relay_batch_size: reader.number("OUTBOX_RELAY_BATCH_SIZE", "100"),
            relay_lock_ttl: reader.duration("OUTBOX_RELAY_LOCK_TTL", "60s"),
            relay_max_attempts: reader.number("OUTBOX_RELAY_MAX_ATTEMPTS", "25"),
            relay_dispatch_timeout: reader.duration("OUTBOX_RELAY_DISPATCH_TIMEOUT", "30s"),
            last_error_max_bytes: reader.number("OUTBOX_LAST_ERROR_MAX_BYTES", "2048") as usize,
            log_mask_tenant: reader.switch("OUTBOX_LOG_MASK_TENANT", "false"),
            cleaner_enabled: reader.switch("OUTBOX_CLEANER_ENABLED", "true"),
            cleaner_tables: reader.tables("OUTBOX_CLEANER_TABLES", &relay_tables),
            cleaner_interval: reader.duration("OUTBOX_CLEANER_INTERVAL", "1m"),
            cleaner_retention: reader.duration("OUTBOX_CLEANER_RETENTION", "168h"),
            cleaner_dead_retention: Some(dead_retention).filter(|time| !time.is_zero()),
            metrics_path: metrics.then_some(path),
            listen: reader.address("ORG_LISTEN", "127.0.0.1:3200"),
            relay_tables,
        };
        match reader.problems.is_empty() {
            true => Ok(environment),
            false => Err(EnvironmentError(reader.problems)),
        }
    }

    /// The outboxes that this instance has to do with.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if self.relay_enabled {
            tables.extend(self.relay_tables.iter().cloned());
        }
        if self.cleaner_enabled {
            tables.extend(self.cleaner_tables.iter().cloned());
        }
        tables.sort();
        tables.dedup();
        tables
    }

    /// What the relay of one outbox is to do. The profile `org`, as far as nothing else is said.
    pub fn settings(&self, table: &Table) -> Settings {
        let defaults = Settings::default();
        Settings {
            deliver: self.relay_enabled && self.relay_tables.contains(table),
            mode: match self.relay_single_active {
                true => Mode::SingleActive,
                false => Mode::Parallel,
            },
            poll_interval: self.relay_poll_interval,
            batch_size: self.relay_batch_size,
            in_flight: defaults.in_flight.max(self.relay_batch_size as usize),
            lease: self.relay_lock_ttl,
            max_attempts: self.relay_max_attempts,
            dispatch_timeout: self.relay_dispatch_timeout,
            error_limit: self.last_error_max_bytes,
            mask_tenant: self.log_mask_tenant,
            retry: Retry::AdditiveJitter {
                base: Duration::from_secs(1),
                max: Duration::from_secs(60),
                jitter: Duration::from_millis(200),
            },
            cleaning: Cleaning {
                enabled: self.cleaner_enabled && self.cleaner_tables.contains(table),
                interval: self.cleaner_interval,
                retention: self.cleaner_retention,
                dead_retention: self.cleaner_dead_retention,
                ..Cleaning::default()
            },
            ..defaults
        }
    }
}

/// Reads one variable after the other, and gathers what is wrong.
struct Reader<V> {
    variable: V,
    problems: Vec<String>,
}

impl<V: Fn(&str) -> Option<String>> Reader<V> {
    /// The value of a variable, or the one that its default gives.
    fn value<T>(
        &mut self,
        name: &str,
        default: &str,
        should_be: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let given = (self.variable)(name).filter(|text| !text.is_empty());
        let read = given.as_deref().map(&parse);
        if read.as_ref().is_some_and(Option::is_none) {
            self.problems.push(format!("{name} must be {should_be}"));
        }
        read.flatten()
            .or_else(|| parse(default))
            .expect("every default can be read")
    }

    fn switch(&mut self, name: &str, default: &str) -> bool {
        self.value(name, default, "true or false", |text| text.parse().ok())
    }

    fn number(&mut self, name: &str, default: &str) -> u32 {
        self.value(name, default, "a whole number", |text| text.parse().ok())
    }

    fn duration(&mut self, name: &str, default: &str) -> Duration {
        let should_be = "a time such as 500ms, 30s, 1m or 168h";
        self.value(name, default, should_be, parse_duration)
    }

    fn address(&mut self, name: &str, default: &str) -> SocketAddr {
        let should_be = "an address such as 127.0.0.1:3200";
        self.value(name, default, should_be, |text| text.parse().ok())
    }

    fn path(&mut self, name: &str, default: &str) -> String {
        let should_be = "a path such as /debug/prometheus";
        // Braces would be placeholders of the router.
        let plain = |text: &str| text.starts_with('/') && !text.contains(['{', '}', '*', ':']);
        self.value(name, default, should_be, |text| {
            plain(text).then(|| text.to_owned())
        })
    }

    fn tables(&mut self, name: &str, default: &[Table]) -> Vec<Table> {
        let should_be = "names of outboxes such as public.org_outbox,public.hrm_outbox";
        let read: Vec<Table> = self.value(name, "", should_be, |text| {
            let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
            names.map(|name| Table::parse(name).ok()).collect()
        });
        match read.is_empty() {
            true => default.to_vec(),
            false => read,
        }
    }
}

/// Reads a time as Go writes it: `1m30s`, `168h`, `200ms`, or `0`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let millis = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(millis)?;
        total = total.checked_add(Duration::from_millis(part))?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}
