//! How a relay is set up: a builder that refuses what cannot work, and says why.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Store;
use posthaste::store::{Ordering, Scope};

use crate::dispatch::Destination;
use crate::relay::Relay;
use crate::retry::Retry;
use crate::route::Pattern;
use crate::sink::Sink;

/// Longer than anything sensible, and within what every clock and database can hold.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Whether relays of one outbox share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Any number of relays, each with events of its own.
    #[default]
    Parallel,
    /// One relay works, the others stand by.
    SingleActive,
}

/// What the cleaner does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaning {
    /// Whether to clean at all. Defaults to true.
    pub enabled: bool,
    /// How often to look. Defaults to a minute.
    pub interval: Duration,
    /// How long delivered events are kept. Defaults to seven days. Zero: an event is deleted in
    /// the very statement that settles it, which is the fastest, and there is nothing to clean.
    pub retention: Duration,
    /// How long dead events are kept. Defaults to `None`: for ever.
    pub dead_retention: Option<Duration>,
    /// Whether events move to the archive table instead of being deleted. Defaults to false.
    pub archive: bool,
    /// How many events one statement removes at most. Defaults to 1,000.
    pub batch_size: u32,
}

impl Default for Cleaning {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(60),
            retention: Duration::from_secs(7 * 86_400),
            dead_retention: None,
            archive: false,
            batch_size: 1000,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) batch_size: u32,
    pub(crate) poll_interval: Duration,
    pub(crate) lease: Duration,
    pub(crate) dispatch_timeout: Duration,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    pub(crate) retry: Retry,
    pub(crate) max_attempts: u32,
    pub(crate) scope: Scope,
    pub(crate) ordering: Ordering,
    pub(crate) mode: Mode,
    pub(crate) cleaning: Cleaning,
    pub(crate) stats_interval: Duration,
    pub(crate) mask_tenant: bool,
    pub(crate) random: fn() -> f64,
}

/// Sets up a [`Relay`]. Every setting has a default; a destination is needed.
pub struct Builder {
    store: Arc<dyn Store>,
    settings: Settings,
    destinations: Vec<Destination>,
    routes: Vec<(Pattern, String)>,
}

/// Why a relay was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// These settings cannot work.
    #[error("the relay cannot work with these settings: {}", .0.join("; "))]
    Refused(Vec<String>),
}

impl SettingsError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "relay.settings"
    }
}

impl Builder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            settings: Settings {
                batch_size: 500,
                poll_interval: Duration::from_secs(1),
                lease: Duration::from_secs(60),
                dispatch_timeout: Duration::from_secs(30),
                in_flight: 2000,
                in_flight_bytes: 16 * 1024 * 1024,
                retry: Retry::default(),
                max_attempts: 25,
                scope: Scope::default(),
                ordering: Ordering::None,
                mode: Mode::default(),
                cleaning: Cleaning::default(),
                stats_interval: Duration::from_secs(15),
                mask_tenant: false,
                random: rand::random::<f64>,
            },
            destinations: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// Adds a destination. With only one, everything goes there unless routes say otherwise.
    pub fn destination(mut self, name: impl Into<String>, sink: impl Sink) -> Self {
        self.destinations
            .push(Destination::new(name.into(), Arc::new(sink)));
        self
    }

    /// How many deliveries the destination added last gets at the same time.
    /// Defaults to as many as there are in flight.
    pub fn concurrency(mut self, deliveries: usize) -> Self {
        if let Some(destination) = self.destinations.last_mut() {
            destination.limit(deliveries);
        }
        self
    }

    /// Sends topics that match the pattern (`*` stands for anything) to a destination.
    /// The first match wins; an event that no route is for is dead (`rejected`).
    pub fn route(mut self, pattern: &str, destination: impl Into<String>) -> Self {
        self.routes
            .push((Pattern::new(pattern), destination.into()));
        self
    }

    /// How many events one claim asks for. Defaults to 500.
    pub fn batch_size(mut self, events: u32) -> Self {
        self.settings.batch_size = events;
        self
    }

    /// How often to look when nothing has happened for a while. Defaults to a second;
    /// after something happened the relay looks far more often.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self
    }

    /// For how long events are leased. Defaults to 60 s. Prolonged while work goes on.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long one delivery may take. Defaults to 30 s.
    pub fn dispatch_timeout(mut self, timeout: Duration) -> Self {
        self.settings.dispatch_timeout = timeout;
        self
    }

    /// How many events to have in hand. Defaults to 2,000.
    pub fn in_flight(mut self, events: usize) -> Self {
        self.settings.in_flight = events;
        self
    }

    /// About how many bytes of payload to have in hand. Defaults to 16 MiB.
    pub fn in_flight_bytes(mut self, bytes: usize) -> Self {
        self.settings.in_flight_bytes = bytes;
        self
    }

    /// When to try again. Defaults to equal jitter from 1 s to 5 min.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// After how many attempts an event is dead. Defaults to 25.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// Which events are this relay's. Defaults to all.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.settings.scope = scope;
        self
    }

    /// In which order events are delivered. Defaults to none.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.settings.ordering = ordering;
        self
    }

    /// Whether relays of this outbox share the work. Defaults to parallel.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// What the cleaner does.
    pub fn cleaning(mut self, cleaning: Cleaning) -> Self {
        self.settings.cleaning = cleaning;
        self
    }

    /// How often to count what is in the outbox, for metrics. Defaults to 15 s.
    pub fn stats_interval(mut self, interval: Duration) -> Self {
        self.settings.stats_interval = interval;
        self
    }

    /// Whether tenants are masked in logs. Defaults to false.
    pub fn mask_tenant(mut self, mask: bool) -> Self {
        self.settings.mask_tenant = mask;
        self
    }

    /// Where random numbers in `0.0..1.0` come from, for jitter.
    pub fn random(mut self, random: fn() -> f64) -> Self {
        self.settings.random = random;
        self
    }

    /// Checks all settings at once, and builds the relay.
    pub fn build(mut self) -> Result<Relay, SettingsError> {
        if let ([only], true) = (&self.destinations[..], self.routes.is_empty()) {
            self.routes = vec![(Pattern::new("*"), only.name.clone())];
        }
        let mut problems = self.settings.problems();
        problems.extend(self.routing_problems());
        if !problems.is_empty() {
            return Err(SettingsError::Refused(problems));
        }
        let place = |name: &str| self.destinations.iter().position(|d| d.name == name);
        let routes = self
            .routes
            .iter()
            .filter_map(|(pattern, name)| Some((pattern.clone(), place(name)?)))
            .collect();
        Ok(Relay::new(
            self.store,
            self.settings,
            self.destinations,
            routes,
        ))
    }

    fn routing_problems(&self) -> Vec<String> {
        let names: Vec<&str> = self.destinations.iter().map(|d| d.name.as_str()).collect();
        let mut problems = Vec::new();
        if names.is_empty() {
            problems.push("there is no destination: add one with `destination`".to_owned());
        } else if self.routes.is_empty() {
            problems.push(
                "there are several destinations: say with `route` what goes where".to_owned(),
            );
        }
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                problems.push(format!("there are two destinations named {name:?}"));
            }
        }
        for (pattern, name) in &self.routes {
            if !names.contains(&name.as_str()) {
                problems.push(format!(
                    "the route for {pattern:?} names the destination {name:?}, which is not there"
                ));
            }
        }
        problems
    }
}

impl Settings {
    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        let mut refuse = |wrong: bool, why: &str| {
            if wrong {
                problems.push(why.to_owned());
            }
        };
        refuse(self.batch_size == 0, "batch_size must be at least 1");
        refuse(self.in_flight == 0, "in_flight must be at least 1");
        refuse(
            self.in_flight_bytes == 0,
            "in_flight_bytes must be at least 1",
        );
        refuse(
            self.in_flight < self.batch_size as usize,
            "in_flight must be at least batch_size, or a batch could never be taken",
        );
        refuse(self.max_attempts == 0, "max_attempts must be at least 1");
        refuse(
            self.poll_interval.is_zero(),
            "poll_interval must be longer than zero",
        );
        refuse(
            self.dispatch_timeout.is_zero(),
            "dispatch_timeout must be longer than zero",
        );
        refuse(
            self.lease < Duration::from_millis(100),
            "lease must be at least 100 ms",
        );
        refuse(
            self.poll_interval > self.lease / 3,
            "poll_interval must be at most a third of lease, or leases would run out between two looks",
        );
        refuse(
            self.dispatch_timeout > self.lease.saturating_mul(2) / 3,
            "dispatch_timeout must be at most two thirds of lease, or a delivery could outlive its lease",
        );
        refuse(
            self.cleaning.interval.is_zero(),
            "the cleaner's interval must be longer than zero",
        );
        refuse(
            self.cleaning.batch_size == 0,
            "the cleaner's batch_size must be at least 1",
        );
        refuse(
            self.cleaning.archive && self.cleaning.retention.is_zero(),
            "with retention zero there is nothing left to archive: set a retention, or archive to false",
        );
        refuse(
            self.stats_interval.is_zero(),
            "stats_interval must be longer than zero",
        );
        for (name, duration) in [
            ("poll_interval", Some(self.poll_interval)),
            ("lease", Some(self.lease)),
            ("dispatch_timeout", Some(self.dispatch_timeout)),
            (
                "the longest retry delay",
                Some(self.retry.delay(u32::MAX, 1.0)),
            ),
            ("the cleaner's interval", Some(self.cleaning.interval)),
            ("retention", Some(self.cleaning.retention)),
            ("dead_retention", self.cleaning.dead_retention),
            ("stats_interval", Some(self.stats_interval)),
        ] {
            if duration.is_some_and(|duration| duration > LONGEST) {
                problems.push(format!("{name} must be at most a hundred years"));
            }
        }
        problems.extend(self.retry.problem().map(str::to_owned));
        problems
    }

    /// Whether delivered events stay in the table.
    pub(crate) fn keep(&self) -> bool {
        !self.cleaning.retention.is_zero()
    }
}
