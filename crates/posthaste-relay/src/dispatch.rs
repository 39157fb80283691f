//! Dispatch: hand each event to its destination, in time, and turn the outcome into a verdict.
//!
//! Outside any transaction. Deliveries do not wait for each other, so that one that fails, hangs or
//! panics costs no other; only events of one ordering key follow each other. Some share a task: what
//! they send goes out together, which costs a destination's client a fraction of what one by one does.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use posthaste::store::{OnFailure, Ordering, Tried, Verdict};
use posthaste::{DeadReason, Event};
use tracing::Instrument;

use crate::circuit::Admission;
use crate::destination::{Destination, Share};
use crate::plain::plain_within;
use crate::presentable::{ERROR_LIMIT, cut, panic_text, presentable_within};
use crate::relay::Engine;
use crate::settle::Done;
use crate::sink::Outcome;

/// As many deliveries share a task. More would send more at once, but a sink that blocks its thread
/// holds up the others in its task.
const CROWD: usize = 64;
/// A compressed payload that is larger is not looked for in errors as it was written: an outage must not decompress
/// gigabytes.
const QUOTED: usize = 4 << 20;
/// A destination may ask for an event to be kept from it for this long at most.
const LONGEST_WISH: Duration = Duration::from_secs(3600);

/// An event, and where it goes, if any route is for it.
struct Link {
    destination: Option<usize>,
    event: Arc<Event>,
    /// Its destination takes nothing more, for this long.
    put_off: Option<Duration>,
}

/// Events to be delivered one after the other.
struct Chain {
    engine: Arc<Engine>,
    links: VecDeque<Link>,
}

impl Chain {
    /// Delivers the events. Once one of them stays behind, the rest is handed back: it must not
    /// overtake.
    async fn follow(mut self, claimed: Instant) {
        let goes_on_without = self.engine.settings.ordering == Ordering::Key(OnFailure::Skip);
        let mut halted = false;
        while let Some(link) = self.links.front() {
            let event = link.event.clone();
            let (verdict, tried) = match (link.destination, link.put_off) {
                _ if halted => (Verdict::Release, None),
                (_, Some(delay)) => (Verdict::Postpone { delay }, None),
                (Some(place), None) => self.engine.attempt(place, &event, claimed).await,
                (None, None) => {
                    let why = format!("no route leads topic {} to a destination", event.topic);
                    (self.engine.dead(DeadReason::Rejected, why), None)
                }
            };
            halted = match &verdict {
                Verdict::Delivered { .. } => false,
                Verdict::Dead { .. } => !goes_on_without,
                Verdict::Retry { .. } | Verdict::Postpone { .. } | Verdict::Release => true,
            };
            self.done(verdict, tried);
        }
    }

    /// Takes the first event off the chain, with its verdict.
    fn done(&mut self, verdict: Verdict, tried: Option<Tried>) {
        let Some(link) = self.links.pop_front() else {
            return;
        };
        if let (Some(place), None) = (link.destination, link.put_off) {
            self.engine.destinations[place].done(link.event.payload.len());
        }
        let event = link.event;
        self.engine.settling.done(Done {
            event,
            verdict,
            tried,
        });
    }
}

/// Whatever befalls the task, no event stays in hand without a verdict: its lease would be
/// prolonged for ever.
impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(event) = self.links.front().map(|link| link.event.clone()) {
            let broken = Outcome::Retry("the relay failed while it delivered this".to_owned());
            self.done(self.engine.verdict(&event, broken), None);
        }
        while !self.links.is_empty() {
            self.done(Verdict::Release, None);
        }
    }
}

impl Engine {
    /// Starts the delivery of claimed events, given in the order in which to deliver them.
    pub(crate) fn dispatch(self: &Arc<Self>, events: Vec<Event>, claimed: Instant) {
        let mut chains: Vec<Vec<Link>> = Vec::with_capacity(events.len());
        let mut chain_of_key = std::collections::HashMap::new();
        for event in events {
            let link = self.link(Arc::new(event));
            let key = match self.settings.ordering {
                Ordering::Key(_) => link.event.ordering_key.clone(),
                Ordering::None => None,
            };
            match key.map(|key| *chain_of_key.entry(key).or_insert(chains.len())) {
                Some(chain) if chain < chains.len() => chains[chain].push(link),
                _ => chains.push(vec![link]),
            }
        }
        let mut chains = chains.into_iter().map(|links| Chain {
            engine: self.clone(),
            links: links.into(),
        });
        loop {
            // A chain that panics ends alone.
            let crowd: FuturesUnordered<_> = chains
                .by_ref()
                .take(CROWD)
                .map(|chain| AssertUnwindSafe(chain.follow(claimed)).catch_unwind())
                .collect();
            if crowd.is_empty() {
                return;
            }
            tokio::spawn(crowd.for_each(|_| std::future::ready(())));
        }
    }

    /// Where an event goes, and whether now. Of a topic that goes one way only what can be taken is
    /// claimed; of others, what came along and cannot be taken is put off.
    fn link(&self, event: Arc<Event>) -> Link {
        let (destination, all_go_there) = self.routes.of(&event);
        let put_off = destination.and_then(|place| {
            let destination = &self.destinations[place];
            destination.learn(&event.topic);
            match all_go_there {
                true => None,
                false => destination.put_off(Instant::now(), self.share()),
            }
        });
        if let (Some(place), None) = (destination, put_off) {
            self.destinations[place].expect(event.payload.len());
        }
        Link {
            destination,
            event,
            put_off,
        }
    }

    /// One delivery, from waiting for a slot to its verdict.
    async fn attempt(
        &self,
        place: usize,
        event: &Arc<Event>,
        claimed: Instant,
    ) -> (Verdict, Option<Tried>) {
        let destination = &self.destinations[place];
        let _slot = match destination.slots.try_acquire() {
            Ok(slot) => slot,
            Err(_) => tokio::select! {
                slot = destination.slots.acquire() => slot.expect("never closed"),
                () = self.stopping() => return (Verdict::Release, None),
            },
        };
        let ready = !self.is_stopping()
            && !self.pausing.is_on()
            && self.is_ours(&event.lease)
            && !matches!(destination.admission(Instant::now()), Admission::Nothing(_))
            && self
                .hand
                .may_start(&event.lease, self.settings.dispatch_timeout);
        if !ready {
            // Returned, not dropped: what was never sent should not wait for its lease.
            let verdict = match self.routes.are_one(&event.topic) {
                true => Verdict::Release,
                false => destination
                    .put_off(Instant::now(), Share::WHOLE)
                    .map_or(Verdict::Release, |delay| Verdict::Postpone { delay }),
            };
            return (verdict, None);
        }
        let span = self.span(destination, event);
        let tracing = self.settings.trace.filter(|_| !span.is_disabled());
        let context = tracing.and_then(|tracing| (tracing.follow)(&span, event.trace.as_ref()));
        // With the span's own context, so that consumers are its children.
        let sent = context.map(|context| {
            let mut event = Event::clone(event);
            event.trace = Some(context);
            Arc::new(event)
        });
        let started = Instant::now();
        let (outcome, timed_out) = self
            .deliver(destination, sent.as_ref().unwrap_or(event))
            .instrument(span.clone())
            .await;
        let took = started.elapsed();
        // From here on its words may be told.
        let outcome = outcome.worded(|why| self.presentable(&why, event));
        let meters = self
            .observer
            .meters(&event.topic, (place, &destination.name));
        let meter = meters.of(&outcome);
        meter.total.increment(1);
        meter.latency.record(took.as_secs_f64());
        destination.tally.tried(&outcome, took);
        let spared = self.judge_destination(destination, event, &outcome, timed_out);
        if outcome == Outcome::Delivered {
            let age = event.age + claimed.elapsed();
            meters.end_to_end.record(age.as_secs_f64());
            destination.tally.arrived(age);
            meters.attempts.record(f64::from(event.attempts));
        } else {
            span.record("error.type", outcome.label());
            span.record("otel.status_code", "error");
            self.log_failure(destination, event, &outcome);
        }
        drop(span);
        // Of a first attempt that succeeds the history does not tell: the happy path pays nothing.
        let is_told = outcome != Outcome::Delivered || event.lease.epoch > 1;
        let tried = is_told.then(|| Tried {
            destination: destination.name.clone(),
            took,
            timed_out,
        });
        let verdict = spared.unwrap_or_else(|| self.verdict(event, outcome));
        (verdict, tried)
    }

    /// The span of one delivery, with the names that OpenTelemetry has for messaging.
    fn span(&self, destination: &Destination, event: &Event) -> tracing::Span {
        tracing::debug_span!(
            "dispatch",
            otel.name = format!("dispatch {}", event.topic),
            otel.kind = "producer",
            otel.status_code = tracing::field::Empty,
            messaging.system = destination.sink.system(),
            messaging.operation.name = "dispatch",
            "messaging.operation.type" = "send",
            messaging.destination.name = event.topic,
            messaging.message.id = %event.id,
            messaging.message.body.size = event.payload.len() as i64,
            posthaste.table = self.observer.table,
            posthaste.destination = destination.name,
            posthaste.tenant = self.observer.tenant(event.tenant_id),
            posthaste.sequence = event.sequence,
            posthaste.attempts = i64::from(event.attempts),
            "error.type" = tracing::field::Empty,
        )
    }

    /// One call of the sink, and whether its time ran out.
    async fn deliver(&self, destination: &Destination, event: &Arc<Event>) -> (Outcome, bool) {
        let delivery = async { destination.sink.deliver(event.clone()).await };
        let delivery = AssertUnwindSafe(delivery).catch_unwind();
        match tokio::time::timeout(self.settings.dispatch_timeout, delivery).await {
            Ok(Ok(outcome)) => (outcome, false),
            Ok(Err(panic)) => (Outcome::Retry(panic_text(&*panic)), false),
            Err(_) => {
                let why = format!("timed out after {:?}", self.settings.dispatch_timeout);
                (Outcome::Retry(why), true)
            }
        }
    }

    /// Learns from an outcome how the destination is. Gives back what becomes of the event, if the outcome
    /// tells of the destination and not of the event.
    fn judge_destination(
        &self,
        destination: &Destination,
        event: &Event,
        outcome: &Outcome,
        timed_out: bool,
    ) -> Option<Verdict> {
        let now = Instant::now();
        let random = self.settings.random;
        let mut circuit = destination.circuit();
        let was_closed = circuit.is_closed();
        let opened = match outcome {
            Outcome::Unavailable(_) => circuit.unavailable(now, random()),
            Outcome::Busy(_, wish) if !wish.is_zero() => circuit.busy(now, *wish),
            _ if timed_out => circuit.silent(event.id, now, random()),
            _ => {
                circuit.answered(now);
                if was_closed {
                    return None;
                }
                if circuit.is_closed() {
                    self.is_back(destination);
                }
                self.wake.notify_one();
                false
            }
        };
        if let (true, Some(why)) = (opened, outcome.why()) {
            let error = cut(why, ERROR_LIMIT);
            self.observer.circuit(&destination.name, true);
            destination.is_down(now, error.to_owned());
            let what = match outcome {
                Outcome::Busy(..) => "the destination wants to be left alone: pausing it",
                _ => "the destination is down: pausing it",
            };
            let destination = &destination.name;
            tracing::warn!(table = self.observer.table, destination, error, "{what}");
        }
        if let Outcome::Busy(..) = outcome {
            // It was answered, and pays: or one that is answered so every time would never end.
            return None;
        }
        let is_open = matches!(circuit.admission(now), Admission::Nothing(_));
        let has_followers =
            self.settings.ordering != Ordering::None && event.ordering_key.is_some();
        let is_probe = opened && !was_closed;
        // To the end of the line: should it be this one's fault, the next one is another event. One that others wait for
        // only if it was the last one, too: they are at the front of the line then, where claims have to go past them.
        let gives_way = is_probe && (circuit.failed_again(event.id) || !has_followers);
        match (is_probe, timed_out && is_open) {
            _ if gives_way => Some(Verdict::Postpone {
                delay: Duration::ZERO,
            }),
            (true, _) | (false, true) => Some(Verdict::Release),
            (false, false) => None,
        }
    }

    /// Tells that a destination is down no more.
    pub(crate) fn is_back(&self, destination: &Destination) {
        self.observer.circuit(&destination.name, false);
        destination.is_back();
        tracing::info!(
            table = self.observer.table,
            destination = destination.name,
            "the destination is back"
        );
    }

    fn verdict(&self, event: &Event, outcome: Outcome) -> Verdict {
        let settings = &self.settings;
        match outcome {
            Outcome::Delivered => Verdict::Delivered {
                keep: settings.keep(),
            },
            Outcome::Retry(why) => self.retry(event, &why, Duration::ZERO),
            Outcome::RetryAfter(why, after) | Outcome::Busy(why, after) => {
                self.retry(event, &why, after.min(LONGEST_WISH))
            }
            Outcome::Reject(why) => self.dead(DeadReason::Rejected, self.kept(&why)),
            Outcome::Unavailable(_) => Verdict::Release,
        }
    }

    /// Later, and not before the destination wants it again.
    fn retry(&self, event: &Event, why: &str, at_least: Duration) -> Verdict {
        let settings = &self.settings;
        let error = self.kept(why);
        if event.attempts >= settings.max_attempts {
            return self.dead(DeadReason::Exhausted, error);
        }
        let delay = settings.retry.delay(event.attempts, (settings.random)());
        Verdict::Retry {
            delay: delay.max(at_least),
            error,
        }
    }

    /// What a sink said of an event, as it may be told.
    fn presentable(&self, why: &str, event: &Event) -> String {
        // As an error may quote it.
        let payload = plain_within(event, QUOTED).unwrap_or(Cow::Borrowed(&event.payload));
        presentable_within(why, &payload, self.settings.error_limit.max(ERROR_LIMIT))
    }

    /// An error as it is kept with the event.
    fn kept(&self, why: &str) -> String {
        cut(why, self.settings.error_limit).to_owned()
    }

    /// Dead, with a letter if there is to be one.
    pub(crate) fn dead(&self, reason: DeadReason, error: String) -> Verdict {
        Verdict::Dead {
            reason,
            error,
            letter: self.settings.dead_letters.clone(),
        }
    }

    fn log_failure(&self, destination: &Destination, event: &Event, outcome: &Outcome) {
        let Some(why) = outcome.why() else {
            return;
        };
        tracing::warn!(
            table = self.observer.table, topic = event.topic, id = %event.id,
            tenant = self.observer.tenant(event.tenant_id), sequence = event.sequence,
            attempts = event.attempts, destination = destination.name, result = outcome.label(),
            error = cut(why, ERROR_LIMIT), "a delivery failed"
        );
    }
}
