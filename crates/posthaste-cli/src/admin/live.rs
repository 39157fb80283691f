//! How every outbox stands, looked up once a second however many watch, and the last quarter of
//! an hour of it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use futures_util::stream;
use http::header;
use posthaste::StoreError;
use posthaste::store::Stats;
use posthaste_relay::{CircuitState, Deliveries, Standing};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::api::By;
use super::auth::{Peer, Secure};
use super::desk::{Desk, Served};
use super::fault::Fault;
use super::limit::Place;
use crate::time;

const EVERY: Duration = Duration::from_secs(1);
/// A database that is slow to answer is asked less often: this part of its time at most.
const SHARE: u32 = 10;
/// And while nobody watches, this part.
const UNWATCHED: u32 = 100;
const LONGEST: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);
/// What is remembered.
const QUARTER: Duration = Duration::from_secs(900);
const MINUTE: Duration = Duration::from_secs(60);

/// How one outbox stands.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OutboxNow {
    pub(super) name: String,
    table: String,
    database: &'static str,
    /// Whether the database answered the last question.
    pub(super) connected: bool,
    pub(super) pending: u64,
    processing: u64,
    pub(super) dead: u64,
    pub(super) stuck: u64,
    /// Whether there are more than were counted.
    at_least: bool,
    pub(super) lag_seconds: f64,
    /// Events a second.
    rate_in: f64,
    /// Of the relay in this process.
    rate_out: f64,
    /// Attempts a second that failed.
    rate_failed: f64,
    latency: Latency,
    /// Whether an operator paused the outbox, or one of its destinations.
    paused: bool,
    pub(super) relay: Option<RelayNow>,
    pub(super) destinations: Vec<DestinationNow>,
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
pub(super) struct RelayNow {
    pub(super) leads: bool,
    in_flight: usize,
    in_flight_limit: usize,
    in_flight_bytes: usize,
}

/// How a destination stands.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DestinationNow {
    pub(super) name: String,
    /// `closed`, `open`, `ramping`, or `unknown` without a relay.
    pub(super) circuit: &'static str,
    retry_in_seconds: Option<f64>,
    pub(super) down_seconds: Option<f64>,
    pub(super) down_because: Option<String>,
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
pub(super) struct Point {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    rate_in: f64,
    rate_out: f64,
    rate_failed: f64,
    pending: u64,
    processing: u64,
    pub(super) dead: u64,
    lag_seconds: f64,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    #[serde(skip)]
    pub(super) attempts: u64,
    #[serde(skip)]
    pub(super) failures: u64,
    /// In the hands of the relay in this process.
    #[serde(skip)]
    pub(super) died: u64,
}

/// What is sent to whoever watches.
#[derive(Debug, Serialize)]
struct Frame<'f> {
    at: String,
    outboxes: &'f [OutboxNow],
}

pub(super) struct Live {
    tracks: Vec<Mutex<Track>>,
    now: watch::Sender<Seen>,
    /// When the last look ended, in milliseconds since the beginning.
    looked: AtomicU64,
    /// Somebody begins to watch.
    watched: Notify,
    began: Instant,
}

/// The last look, as data and as text.
#[derive(Clone, Default)]
struct Seen {
    outboxes: Arc<Vec<OutboxNow>>,
    text: Bytes,
}

/// What is remembered of one outbox.
#[derive(Default)]
struct Track {
    points: VecDeque<Point>,
    before: Option<Before>,
    /// What was delivered in each look of the last minute, for latencies.
    minute: VecDeque<(Instant, Vec<Deliveries>)>,
}

struct Before {
    at: Instant,
    counted: Option<Stats>,
    deliveries: Vec<Deliveries>,
    died: Option<u64>,
}

impl Live {
    pub(super) fn new(served: &[Arc<Served>]) -> Self {
        Self {
            tracks: served.iter().map(|_| Mutex::default()).collect(),
            now: watch::channel(Seen::default()).0,
            looked: AtomicU64::new(0),
            watched: Notify::new(),
            began: Instant::now(),
        }
    }

    /// How every outbox stood at the last look.
    pub(super) fn outboxes(&self) -> Arc<Vec<OutboxNow>> {
        self.now.borrow().outboxes.clone()
    }

    /// How one of them stood.
    pub(super) fn outbox(&self, name: &str) -> Option<OutboxNow> {
        let outboxes = self.outboxes();
        outboxes.iter().find(|it| it.name == name).cloned()
    }

    /// The last quarter of an hour of one outbox.
    pub(super) fn points(&self, place: usize) -> Vec<Point> {
        let track = self.tracks[place].lock().expect("not poisoned");
        track.points.iter().copied().collect()
    }

    /// For how long nothing was looked at.
    pub(super) fn idle(&self) -> Duration {
        let looked = Duration::from_millis(self.looked.load(Memory::Relaxed));
        self.began.elapsed().saturating_sub(looked)
    }

    /// Looks, for ever.
    pub(super) async fn look(&self, served: &[Arc<Served>]) {
        loop {
            let started = Instant::now();
            // At the same time: a database that does not answer keeps no other one waiting.
            let counted = join_all(served.iter().map(|served| counted(served))).await;
            let took = started.elapsed();
            let all_answered = counted.iter().all(Option::is_some);
            let each = served.iter().zip(&self.tracks).zip(counted);
            let outboxes = each.map(|((served, track), counted)| {
                let (stats, paused) = counted.unzip();
                let mut track = track.lock().expect("not poisoned");
                let now = track.note(served, stats, served.relay());
                let paused = paused.unwrap_or_default();
                OutboxNow { paused, ..now }
            });
            self.publish(outboxes.collect());
            let pause = match all_answered {
                true => (took * self.share()).clamp(EVERY, LONGEST),
                // As soon as it is back, everybody should see it.
                false => EVERY,
            };
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(took)) => {}
                () = self.watched.notified() => {
                    // What came in a moment says nothing about a rate, and nobody makes us look more often.
                    tokio::time::sleep(EVERY.saturating_sub(started.elapsed())).await;
                }
            }
        }
    }

    fn share(&self) -> u32 {
        match self.now.receiver_count() {
            0 => UNWATCHED,
            _ => SHARE,
        }
    }

    fn publish(&self, outboxes: Vec<OutboxNow>) {
        let frame = Frame {
            at: time::exact(SystemTime::now()),
            outboxes: &outboxes,
        };
        let json = serde_json::to_string(&frame).expect("our own types are JSON");
        let text = Bytes::from(format!("data: {json}\n\n"));
        let outboxes = Arc::new(outboxes);
        self.now.send_replace(Seen { outboxes, text });
        let millis = self.began.elapsed().as_millis();
        self.looked
            .store(u64::try_from(millis).unwrap_or(u64::MAX), Memory::Relaxed);
    }
}

/// The numbers, and whether anything is paused. `None`: the database does not answer.
async fn counted(served: &Served) -> Option<(Stats, bool)> {
    let store = served.open()?;
    let look = async { Ok::<_, StoreError>((store.stats().await?, store.pauses().await)) };
    let (stats, pauses) = tokio::time::timeout(PATIENCE, look).await.ok()?.ok()?;
    Some((stats, pauses.is_ok_and(|pauses| !pauses.is_empty())))
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
    fn note(
        &mut self,
        served: &Served,
        stats: Option<Stats>,
        relay: Option<Standing>,
    ) -> OutboxNow {
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
            paused: false,
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
            return unknown(served);
        };
        let last = self.minute.back();
        let each = relay.destinations.iter().enumerate();
        each.map(|(place, it)| {
            let added = last.and_then(|(_, look)| look.get(place));
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
                delivered: it.deliveries.delivered,
                failed: it.deliveries.failed,
                rejected: it.deliveries.rejected,
                unavailable: it.deliveries.unavailable,
                latency: Latency::of(&self.over_a_minute(Some(place))),
                topics: it.topics.clone(),
            }
        })
        .collect()
    }
}

/// Those that are configured, while no relay here knows more.
fn unknown(served: &Served) -> Vec<DestinationNow> {
    let mut names: Vec<&String> = served.routes.iter().map(|route| &route.sink).collect();
    names.dedup();
    let plain = |name: &String| DestinationNow {
        name: name.clone(),
        circuit: "unknown",
        retry_in_seconds: None,
        down_seconds: None,
        down_because: None,
        in_flight: 0,
        rate_out: 0.0,
        delivered: 0,
        failed: 0,
        rejected: 0,
        unavailable: 0,
        latency: Latency::default(),
        topics: Vec::new(),
    };
    names.into_iter().map(plain).collect()
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

/// `/api/v1/live`: each look as it is made, until the caller or the server has had enough, or the
/// caller is let in no more.
pub(super) async fn stream(
    State(desk): State<Arc<Desk>>,
    By(caller): By,
    Extension(secure): Extension<Secure>,
    request: Request,
) -> Result<Response, Fault> {
    let peer = request.extensions().get::<Peer>().copied();
    let headers = request.headers().clone();
    let place = desk.watching.take(caller.key(peer));
    let place = place
        .ok_or_else(|| Fault::new("admin.too_many", "you watch too often at the same time"))?;
    let frames = Frames {
        looks: desk.live.now.subscribe(),
        closing: desk.closing(),
        _place: place,
        is_first: true,
    };
    desk.live.watched.notify_one();
    let frames = stream::unfold(frames, move |mut frames| {
        let (desk, headers) = (desk.clone(), headers.clone());
        async move {
            let text = frames.next().await?;
            // Signed out meanwhile, or the token has expired.
            desk.auth.caller(&headers, secure).ok()?;
            Some((Ok::<_, std::convert::Infallible>(text), frames))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

/// What one caller is sent.
struct Frames {
    looks: watch::Receiver<Seen>,
    closing: watch::Receiver<bool>,
    /// Held for as long as it goes on.
    _place: Place<String>,
    is_first: bool,
}

impl Frames {
    /// The last look at once, then each that follows. `None`: the server ends.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::take(&mut self.is_first) {
            tokio::select! {
                changed = self.looks.changed() => changed.ok()?,
                _ = self.closing.wait_for(|closing| *closing) => return None,
            }
        }
        Some(self.looks.borrow_and_update().text.clone())
    }
}
