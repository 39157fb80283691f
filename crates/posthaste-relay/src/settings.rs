//! How a relay is set up: a builder that refuses what cannot work, and says why.

use std::sync::Arc;
use std::time::Duration;

use posthaste::store::{Ordering, Scope};
use posthaste::{Store, TraceContext};

use crate::destination::Destination;
use crate::presentable::ERROR_LIMIT;
use crate::relay::Relay;
use crate::retry::Retry;
use crate::route::{Matcher, Routes};
use crate::sink::Sink;

/// Longer than anything sensible, and within what every clock and database can hold.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// An error is read by people, and is in every row that failed.
const LONGEST_ERROR: usize = 64 * 1024;

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

/// Everything about a relay but its destinations. The functions of [`Builder`] set one each.
#[derive(Debug, Clone)]
pub struct Settings {
    /// See [`Builder::deliver`].
    pub deliver: bool,
    /// See [`Builder::batch_size`].
    pub batch_size: u32,
    /// See [`Builder::poll_interval`].
    pub poll_interval: Duration,
    /// See [`Builder::lease`].
    pub lease: Duration,
    /// See [`Builder::dispatch_timeout`].
    pub dispatch_timeout: Duration,
    /// See [`Builder::in_flight`].
    pub in_flight: usize,
    /// See [`Builder::in_flight_bytes`].
    pub in_flight_bytes: usize,
    /// See [`Builder::retry`].
    pub retry: Retry,
    /// See [`Builder::max_attempts`].
    pub max_attempts: u32,
    /// See [`Builder::error_limit`].
    pub error_limit: usize,
    /// See [`Builder::dead_letters`].
    pub dead_letters: Option<String>,
    /// See [`Builder::scope`].
    pub scope: Scope,
    /// See [`Builder::ordering`].
    pub ordering: Ordering,
    /// See [`Builder::mode`].
    pub mode: Mode,
    /// See [`Builder::cleaning`].
    pub cleaning: Cleaning,
    /// See [`Builder::stats_interval`].
    pub stats_interval: Duration,
    /// See [`Builder::mask_tenant`].
    pub mask_tenant: bool,
    /// See [`Builder::trace_with`].
    pub trace: Option<Tracing>,
    /// See [`Builder::random`].
    pub random: fn() -> f64,
}

/// How spans become parts of the traces that are stored with events.
#[derive(Debug, Clone, Copy)]
pub struct Tracing {
    /// Makes the span of a dispatch follow the trace that is stored with its event, and gives back the
    /// context that travels in its place. `None`: what is stored travels, untouched.
    pub follow: fn(&tracing::Span, Option<&TraceContext>) -> Option<TraceContext>,
    /// Links the span of what is done for many events at once, such as a claim, to the trace of one of them.
    pub link: fn(&tracing::Span, &TraceContext),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deliver: true,
            batch_size: 500,
            poll_interval: Duration::from_secs(1),
            lease: Duration::from_secs(60),
            dispatch_timeout: Duration::from_secs(30),
            in_flight: 2000,
            in_flight_bytes: 16 * 1024 * 1024,
            retry: Retry::default(),
            max_attempts: 25,
            error_limit: ERROR_LIMIT,
            dead_letters: None,
            scope: Scope::default(),
            ordering: Ordering::None,
            mode: Mode::default(),
            cleaning: Cleaning::default(),
            stats_interval: Duration::from_secs(15),
            mask_tenant: false,
            trace: None,
            random: rand::random::<f64>,
        }
    }
}

/// Sets up a [`Relay`]. Every setting has a default; a destination is needed.
pub struct Builder {
    store: Arc<dyn Store>,
    name: String,
    settings: Settings,
    destinations: Vec<Destination>,
    routes: Vec<(Matcher, String)>,
}

/// Why a relay was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// These settings cannot work.
    #[error("the relay cannot work with these settings: {}", joined(.0))]
    Refused(Vec<Problem>),
}

impl SettingsError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "relay.settings"
    }
}

/// One thing that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Problem {
    /// Which settings are at fault, such as `in_flight` or `cleaning.interval`: the first is what
    /// the reason speaks of, the others are what it does not go with.
    pub settings: &'static [&'static str],
    /// What is wrong, and what would be right.
    pub why: String,
}

fn joined(problems: &[Problem]) -> String {
    let reasons: Vec<&str> = problems.iter().map(|p| p.why.as_str()).collect();
    reasons.join("; ")
}

impl Builder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            name: store.table().to_string(),
            store,
            settings: Settings::default(),
            destinations: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// What metrics, logs and spans call the outbox: to tell those apart that have one name in several databases.
    /// Defaults to its table.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
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

    /// Sends events to a destination: topics that match a pattern (`*` stands for anything), or
    /// whatever a [`Matcher`] says. The first match wins; an event that no route is for is dead
    /// (`rejected`).
    ///
    /// Events are best told apart by topic: while a destination is down, its topics are left in peace.
    /// Of a topic that goes several ways, what cannot be delivered is claimed and put off, again and
    /// again, and comes back at a bounded rate.
    pub fn route(mut self, events: impl Into<Matcher>, destination: impl Into<String>) -> Self {
        self.routes.push((events.into(), destination.into()));
        self
    }

    /// Whether to deliver at all. Defaults to true. Without it the relay cleans and counts, and
    /// events wait for another one, or for this one to be switched on again.
    pub fn deliver(mut self, deliver: bool) -> Self {
        self.settings.deliver = deliver;
        self
    }

    /// All settings at once, in place of those set so far.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
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

    /// The longest error that is kept with an event, in bytes: what is longer is cut. Defaults to
    /// 2,048. However short, it is cleaned of payloads and of secrets that can be told by their form.
    pub fn error_limit(mut self, bytes: usize) -> Self {
        self.settings.error_limit = bytes;
        self
    }

    /// The topic under which a copy of each event that dies here is enqueued, with what went wrong
    /// in its headers ([`posthaste::header`]). It is delivered like any other event, so routes say
    /// where to. Defaults to none. What an operator discards gets no letter, nor does a letter.
    pub fn dead_letters(mut self, topic: impl Into<String>) -> Self {
        self.settings.dead_letters = Some(topic.into());
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

    /// Who makes spans of dispatches parts of the traces that are stored with events, such as
    /// [`OPENTELEMETRY`](crate::OPENTELEMETRY) (feature `opentelemetry`). Defaults to nobody: the stored
    /// context travels to the destination as it is.
    pub fn trace_with(mut self, tracing: Tracing) -> Self {
        self.settings.trace = Some(tracing);
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
            self.routes = vec![(Matcher::any(), only.name.clone())];
        }
        let mut problems = self.settings.problems();
        // What only cleans and counts needs nowhere to deliver to.
        if self.settings.deliver {
            problems.extend(self.routing_problems());
        }
        if !problems.is_empty() {
            return Err(SettingsError::Refused(problems));
        }
        let place = |name: &str| self.destinations.iter().position(|d| d.name == name);
        let routes = self
            .routes
            .iter()
            .filter_map(|(matcher, name)| Some((matcher.clone(), place(name)?)))
            .collect();
        Ok(Relay::new(
            self.store,
            self.name,
            self.settings,
            self.destinations,
            Routes::new(routes),
        ))
    }

    fn routing_problems(&self) -> Vec<Problem> {
        let names: Vec<&str> = self.destinations.iter().map(|d| d.name.as_str()).collect();
        let mut problems = Vec::new();
        let mut refuse = |settings, why: String| problems.push(Problem { settings, why });
        if names.is_empty() {
            refuse(
                &["destination"],
                "there is no destination: add one with `destination`".to_owned(),
            );
        } else if self.routes.is_empty() {
            refuse(
                &["route"],
                "there are several destinations: say with `route` what goes where".to_owned(),
            );
        }
        if names.contains(&"") {
            refuse(&["destination"], "a destination needs a name".to_owned());
        }
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                refuse(
                    &["destination"],
                    format!("there are two destinations named {name:?}"),
                );
            }
        }
        for (matcher, name) in &self.routes {
            if !names.contains(&name.as_str()) {
                refuse(
                    &["route"],
                    format!(
                        "the route for {matcher:?} names the destination {name:?}, which is not there"
                    ),
                );
            }
        }
        problems
    }
}

impl Settings {
    /// What cannot work, if anything: each with its reason, all at once.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |wrong: bool, settings: &'static [&'static str], why: &str| {
            if wrong {
                let why = why.to_owned();
                problems.push(Problem { settings, why });
            }
        };
        refuse(
            self.batch_size == 0,
            &["batch_size"],
            "batch_size must be at least 1",
        );
        refuse(
            self.in_flight == 0,
            &["in_flight"],
            "in_flight must be at least 1",
        );
        refuse(
            self.in_flight_bytes == 0,
            &["in_flight_bytes"],
            "in_flight_bytes must be at least 1",
        );
        refuse(
            self.in_flight < self.batch_size as usize,
            &["in_flight", "batch_size"],
            "in_flight must be at least batch_size, or a batch could never be taken",
        );
        refuse(
            self.max_attempts == 0,
            &["max_attempts"],
            "max_attempts must be at least 1",
        );
        refuse(
            !(1..=LONGEST_ERROR).contains(&self.error_limit),
            &["error_limit"],
            "error_limit must be at least 1 byte and at most 64 KiB",
        );
        refuse(
            self.poll_interval.is_zero(),
            &["poll_interval"],
            "poll_interval must be longer than zero",
        );
        refuse(
            self.dispatch_timeout.is_zero(),
            &["dispatch_timeout"],
            "dispatch_timeout must be longer than zero",
        );
        refuse(
            self.lease < Duration::from_millis(100),
            &["lease"],
            "lease must be at least 100 ms",
        );
        refuse(
            self.poll_interval > self.lease / 3,
            &["poll_interval", "lease"],
            "poll_interval must be at most a third of lease, or leases would run out between two looks",
        );
        refuse(
            self.dispatch_timeout > self.lease.saturating_mul(2) / 3,
            &["dispatch_timeout", "lease"],
            "dispatch_timeout must be at most two thirds of lease, or a delivery could outlive its lease",
        );
        refuse(
            self.cleaning.interval.is_zero(),
            &["cleaning.interval"],
            "the cleaner's interval must be longer than zero",
        );
        refuse(
            self.cleaning.batch_size == 0,
            &["cleaning.batch_size"],
            "the cleaner's batch_size must be at least 1",
        );
        refuse(
            self.cleaning.archive && self.cleaning.retention.is_zero(),
            &["cleaning.archive", "cleaning.retention"],
            "with retention zero there is nothing left to archive: set a retention, or archive to false",
        );
        refuse(
            self.stats_interval.is_zero(),
            &["stats_interval"],
            "stats_interval must be longer than zero",
        );
        refuse(
            self.dead_letters
                .as_ref()
                .is_some_and(|topic| !is_topic(topic)),
            &["dead_letters"],
            "the topic for dead letters must have 1 to 255 characters of printable ASCII, and no spaces",
        );
        let longest_delay = Some(self.retry.delay(u32::MAX, 1.0));
        let durations: [(&'static [&'static str], &str, Option<Duration>); 8] = [
            (
                &["poll_interval"],
                "poll_interval",
                Some(self.poll_interval),
            ),
            (&["lease"], "lease", Some(self.lease)),
            (
                &["dispatch_timeout"],
                "dispatch_timeout",
                Some(self.dispatch_timeout),
            ),
            (
                &["retry.max", "retry.base", "retry.jitter"],
                "the longest retry delay",
                longest_delay,
            ),
            (
                &["cleaning.interval"],
                "the cleaner's interval",
                Some(self.cleaning.interval),
            ),
            (
                &["cleaning.retention"],
                "retention",
                Some(self.cleaning.retention),
            ),
            (
                &["cleaning.dead_retention"],
                "dead_retention",
                self.cleaning.dead_retention,
            ),
            (
                &["stats_interval"],
                "stats_interval",
                Some(self.stats_interval),
            ),
        ];
        for (settings, name, duration) in durations {
            let too_long = duration.is_some_and(|duration| duration > LONGEST);
            let why = format!("{name} must be at most a hundred years");
            refuse(too_long, settings, &why);
        }
        problems.extend(self.retry.problem());
        problems
    }

    /// Whether delivered events stay in the table. Without a cleaner everything does.
    pub(crate) fn keep(&self) -> bool {
        !(self.cleaning.enabled && self.cleaning.retention.is_zero())
    }
}

/// Of topics, those that every database and destination can hold.
fn is_topic(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}
