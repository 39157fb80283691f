//! What is remembered of one outbox: from looks to rates, latencies and points of a chart.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use posthaste::store::Stats;
use posthaste_relay::{CircuitState, Deliveries, Standing};
use serde::Serialize;

use super::super::desk::Served;

/// What is remembered.
const QUARTER: Duration = Duration::from_secs(900);
const MINUTE: Duration = Duration::from_secs(60);

/// How one outbox stands.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct OutboxNow {
    pub(in super::super) name: String,
    table: String,
    database: &'static str,
    /// Whether the database answered the last question.
    pub(in super::super) connected: bool,
    pub(in super::super) pending: u64,
    processing: u64,
    pub(in super::super) dead: u64,
    pub(in super::super) stuck: u64,
    /// Whether there are more than were counted.
    at_least: bool,
    pub(in super::super) lag_seconds: f64,
    /// Events a second.
    rate_in: f64,
    /// Of the relay in this process.
    rate_out: f64,
    /// Attempts a second that failed.
    rate_failed: f64,
    latency: Latency,
    /// Whether an operator paused the outbox, or one of its destinations.
    paused: bool,
    pub(in super::super) relay: Option<RelayNow>,
    pub(in super::super) destinations: Vec<DestinationNow>,
}

/// From enqueue to delivered, over the last minute. `None`: nothing was delivered.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Latency {
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

/// How this process's relay stands.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct RelayNow {
    pub(in super::super) leads: bool,
    in_flight: usize,
    in_flight_limit: usize,
    in_flight_bytes: usize,
}

/// How a destination stands.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct DestinationNow {
    pub(in super::super) name: String,
    /// `closed`, `open`, `ramping`, or `unknown` without a relay.
    pub(in super::super) circuit: &'static str,
    retry_in_seconds: Option<f64>,
    pub(in super::super) down_seconds: Option<f64>,
    pub(in super::super) down_because: Option<String>,
    in_flight: usize,
    rate_out: f64,
    delivered: u64,
    failed: u64,
    rejected: u64,
    unavailable: u64,
    latency: Latency,
    topics: Vec<String>,
}

/// What a second adds to the charts.
#[derive(Debug, Clone, Copy, Serialize)]
pub(in super::super) struct Point {
    /// Milliseconds since 1970.
    pub(in super::super) at: u64,
    rate_in: f64,
    rate_out: f64,
    rate_failed: f64,
    pending: u64,
    processing: u64,
    dead: u64,
    lag_seconds: f64,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    #[serde(skip)]
    pub(in super::super) attempts: u64,
    #[serde(skip)]
    pub(in super::super) failures: u64,
    /// In the hands of the relay in this process.
    #[serde(skip)]
    pub(in super::super) died: u64,
}

/// What is remembered of one outbox.
#[derive(Default)]
pub(super) struct Track {
    points: VecDeque<Point>,
    before: Option<Before>,
    /// What was delivered in each look of the last minute, for latencies.
    minute: VecDeque<(Instant, Vec<Deliveries>)>,
    /// What became of deliveries to each destination, by every relay that this process had.
    totals: BTreeMap<String, Totals>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    delivered: u64,
    failed: u64,
    rejected: u64,
    unavailable: u64,
}

impl Totals {
    fn add(&mut self, more: &Deliveries) {
        self.delivered += more.delivered;
        self.failed += more.failed;
        self.rejected += more.rejected;
        self.unavailable += more.unavailable;
    }
}

struct Before {
    at: Instant,
    counted: Option<Stats>,
    deliveries: Vec<Deliveries>,
    died: Option<u64>,
}

/// How many came since.
fn came(now: &Stats, before: &Stats, delivered: u64) -> f64 {
    match (now.enqueued, before.enqueued) {
        (Some(now), Some(before)) => now.saturating_sub(before) as f64,
        // What is there, and what has gone since: that is what came.
        _ => {
            let held = |stats: &Stats| (stats.pending + stats.processing + stats.dead) as f64;
            held(now) - held(before) + delivered as f64
        }
    }
}

impl Track {
    /// The last quarter of an hour.
    pub(super) fn points(&self) -> Vec<Point> {
        self.points.iter().copied().collect()
    }

    /// Takes down a look: the numbers if the database answered, and whether anything is paused.
    pub(super) fn note(
        &mut self,
        served: &Served,
        counted: Option<(Stats, bool)>,
        relay: Option<Standing>,
    ) -> OutboxNow {
        let (stats, paused) = counted.unzip();
        let at = Instant::now();
        let counted = stats.unwrap_or_default();
        let deliveries: Vec<Deliveries> = match &relay {
            Some(relay) => relay
                .destinations
                .iter()
                .map(|it| it.deliveries.clone())
                .collect(),
            None => Vec::new(),
        };
        let nothing = Deliveries::default();
        let (seconds, added): (f64, Vec<Deliveries>) = match &self.before {
            None => (0.0, deliveries.iter().map(|_| nothing.clone()).collect()),
            Some(before) => (
                (at - before.at).as_secs_f64(),
                deliveries
                    .iter()
                    .enumerate()
                    .map(|(place, now)| now.since(before.deliveries.get(place).unwrap_or(&nothing)))
                    .collect(),
            ),
        };
        let rate = |n: f64| {
            if seconds > 0.0 {
                (n / seconds).max(0.0)
            } else {
                0.0
            }
        };
        for (place, it) in relay
            .iter()
            .flat_map(|it| it.destinations.iter().enumerate())
        {
            let more = match self.before {
                Some(_) => &added[place],
                None => &deliveries[place],
            };
            self.totals.entry(it.name.clone()).or_default().add(more);
        }
        let all = added.iter().fold(nothing.clone(), |sum, it| sum.plus(it));
        let failures = all.failed + all.rejected + all.unavailable;
        let before = self.before.as_ref().and_then(|before| before.counted);
        let came = match (&stats, before) {
            (Some(now), Some(before)) => came(now, &before, all.delivered),
            _ => 0.0,
        };
        let died = relay.as_ref().map(|relay| relay.died);
        let died_before = self.before.as_ref().and_then(|before| before.died);
        self.minute.push_back((at, added));
        let is_old = |(then, _): &(Instant, _)| at.saturating_duration_since(*then) >= MINUTE;
        while self.minute.len() > 1 && self.minute.front().is_some_and(is_old) {
            self.minute.pop_front();
        }
        let latency = Latency::of(&self.over_a_minute(None));
        let point = Point {
            at: millis(SystemTime::now()),
            rate_in: rounded(rate(came)),
            rate_out: rounded(rate(all.delivered as f64)),
            rate_failed: rounded(rate(failures as f64)),
            pending: counted.pending,
            processing: counted.processing,
            dead: counted.dead,
            lag_seconds: rounded(counted.oldest_pending.as_secs_f64()),
            p50: latency.p50,
            p95: latency.p95,
            p99: latency.p99,
            attempts: all.delivered + failures,
            failures,
            died: match (died, died_before) {
                // Another relay begins to count anew.
                (Some(now), Some(before)) => now.checked_sub(before).unwrap_or(now),
                _ => 0,
            },
        };
        if stats.is_some() {
            self.points.push_back(point);
            let since = point.at.saturating_sub(QUARTER.as_millis() as u64);
            self.points.retain(|point| point.at >= since);
        }
        let destinations = self.destinations(served, relay.as_ref(), rate);
        self.before = Some(Before {
            at,
            counted: stats,
            deliveries,
            died,
        });
        OutboxNow {
            name: served.name.clone(),
            table: served.table.to_string(),
            database: served.database(),
            connected: stats.is_some(),
            pending: counted.pending,
            processing: counted.processing,
            dead: counted.dead,
            stuck: counted.stuck,
            at_least: counted.at_least,
            lag_seconds: point.lag_seconds,
            rate_in: point.rate_in,
            rate_out: point.rate_out,
            rate_failed: point.rate_failed,
            latency,
            paused: paused.unwrap_or_default(),
            relay: relay.map(|relay| RelayNow {
                leads: relay.leads,
                in_flight: relay.in_flight,
                in_flight_limit: relay.in_flight_limit,
                in_flight_bytes: relay.in_flight_bytes,
            }),
            destinations,
        }
    }

    /// What was delivered in the last minute, to one destination or to all.
    fn over_a_minute(&self, place: Option<usize>) -> Deliveries {
        let looks = self.minute.iter().flat_map(|(_, look)| match place {
            Some(place) => look.get(place..=place).unwrap_or_default(),
            None => &look[..],
        });
        looks.fold(Deliveries::default(), |sum, it| sum.plus(it))
    }

    fn destinations(
        &self,
        served: &Served,
        relay: Option<&Standing>,
        rate: impl Fn(f64) -> f64,
    ) -> Vec<DestinationNow> {
        let Some(relay) = relay else {
            return self.unknown(served);
        };
        let last = self.minute.back();
        let each = relay.destinations.iter().enumerate();
        each.map(|(place, it)| {
            let added = last.and_then(|(_, look)| look.get(place));
            let total = self.total(&it.name);
            DestinationNow {
                name: it.name.clone(),
                circuit: it.circuit.as_str(),
                retry_in_seconds: match it.circuit {
                    CircuitState::Open(after) => Some(rounded(after.as_secs_f64())),
                    CircuitState::Closed | CircuitState::Ramping(_) => None,
                },
                down_seconds: it
                    .outage
                    .as_ref()
                    .map(|outage| rounded(outage.since.elapsed().as_secs_f64())),
                down_because: it.outage.as_ref().map(|outage| outage.why.clone()),
                in_flight: it.in_flight,
                rate_out: rounded(rate(added.map_or(0.0, |it| it.delivered as f64))),
                delivered: total.delivered,
                failed: total.failed,
                rejected: total.rejected,
                unavailable: total.unavailable,
                latency: Latency::of(&self.over_a_minute(Some(place))),
                topics: it.topics.clone(),
            }
        })
        .collect()
    }

    /// Those that are configured, while no relay here knows more.
    fn unknown(&self, served: &Served) -> Vec<DestinationNow> {
        let mut names: Vec<&String> = Vec::new();
        for route in &served.routes {
            if !names.contains(&&route.sink) {
                names.push(&route.sink);
            }
        }
        let plain = |name: &String| {
            let total = self.total(name);
            DestinationNow {
                name: name.clone(),
                circuit: "unknown",
                retry_in_seconds: None,
                down_seconds: None,
                down_because: None,
                in_flight: 0,
                rate_out: 0.0,
                delivered: total.delivered,
                failed: total.failed,
                rejected: total.rejected,
                unavailable: total.unavailable,
                latency: Latency::default(),
                topics: Vec::new(),
            }
        };
        names.into_iter().map(plain).collect()
    }

    fn total(&self, destination: &str) -> Totals {
        self.totals.get(destination).copied().unwrap_or_default()
    }
}

impl Latency {
    fn of(deliveries: &Deliveries) -> Self {
        let part = |part| {
            let found = deliveries.end_to_end.quantile(part);
            found.map(|duration| rounded(duration.as_secs_f64()))
        };
        Self {
            p50: part(0.5),
            p95: part(0.95),
            p99: part(0.99),
        }
    }
}

/// To what can be seen in a chart.
fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
