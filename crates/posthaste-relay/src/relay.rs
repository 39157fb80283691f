//! THE loop: claim what is due, start its delivery, look again.
//!
//! Around it run the settler, the keeper of leases, the cleaner and the counter of what is
//! there. The loop waits for none of them; what it has in hand is bounded.

use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste::store::{Claim, Ordering, Reach, Scope};
use posthaste::{Lease, Store, StoreError};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use uuid::Uuid;

use crate::circuit::Admission;
use crate::destination::Destination;
use crate::hand::Hand;
use crate::observe::Observer;
use crate::pace::Pace;
use crate::pause::Pausing;
use crate::presentable::presentable;
use crate::route::Routes;
use crate::settings::{Builder, Mode, Settings};
use crate::settle::Settling;
use crate::view::View;

/// How often to look for relays that are gone, and to confirm leadership.
pub(crate) const WATCH: Duration = Duration::from_millis(500);
/// How long a store that does not answer holds up a stop.
const PARTING: Duration = Duration::from_secs(5);
/// How long to wait for a fuller batch while the hand is nearly full.
pub(crate) const GATHER: Duration = Duration::from_millis(5);

/// A relay: claims the events of one outbox and delivers them, until it is told to stop.
///
/// ```no_run
/// # async fn example(store: impl posthaste::Store) -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste_relay::{Relay, sink};
///
/// let relay = Relay::builder(store)
///     .destination("log", sink::stdout())
///     .build()?;
/// relay.run(async { /* e.g. tokio::signal::ctrl_c() */ }).await;
/// # Ok(()) }
/// ```
pub struct Relay {
    engine: Arc<Engine>,
    verdicts: tokio::sync::mpsc::UnboundedReceiver<crate::settle::Done>,
    stop: watch::Sender<bool>,
}

/// Tells a relay of the same process that something was committed, so that it looks at once.
#[derive(Clone)]
pub struct Waker(Arc<Notify>);

impl Waker {
    /// Makes the relay look.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// What all parts of a relay share.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) routes: Routes,
    pub(crate) hand: Hand,
    pub(crate) settling: Settling,
    pub(crate) observer: Observer,
    pub(crate) wake: Arc<Notify>,
    /// The store answers again.
    pub(crate) recovered: Notify,
    /// Someone is gone: look from the oldest on.
    pub(crate) take_over: AtomicBool,
    /// Events wait in their keys for others to be settled.
    pub(crate) waiting: AtomicBool,
    /// Whether it is an active relay.
    pub(crate) leading: AtomicBool,
    /// As whom it was last known to lead, if one leads.
    led_as: Mutex<Option<Uuid>>,
    pub(crate) pausing: Pausing,
    stop: watch::Receiver<bool>,
}

impl Relay {
    /// Sets up a relay on a store.
    pub fn builder(store: impl Store) -> Builder {
        Builder::new(Arc::new(store))
    }

    /// Sets up a relay on a store that is used elsewhere, too.
    pub fn builder_on(store: Arc<dyn Store>) -> Builder {
        Builder::new(store)
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        name: String,
        settings: Settings,
        destinations: Vec<Destination>,
        routes: Routes,
    ) -> Self {
        let (settling, verdicts) = Settling::new();
        let (stop, stopped) = watch::channel(false);
        let leading = settings.deliver && settings.mode == Mode::Parallel;
        Self {
            engine: Arc::new(Engine {
                observer: Observer::new(name, settings.mask_tenant),
                store,
                settings,
                destinations,
                routes,
                hand: Hand::default(),
                settling,
                wake: Arc::new(Notify::new()),
                recovered: Notify::new(),
                take_over: AtomicBool::new(false),
                waiting: AtomicBool::new(false),
                leading: AtomicBool::new(leading),
                led_as: Mutex::default(),
                pausing: Pausing::default(),
                stop: stopped,
            }),
            verdicts,
            stop,
        }
    }

    /// To wake this relay from the same process.
    pub fn waker(&self) -> Waker {
        Waker(self.engine.wake.clone())
    }

    /// To look at this relay, from the same process, while it works.
    pub fn view(&self) -> View {
        View::of(&self.engine)
    }

    /// Works until the future is ready. Then it finishes what is under way, hands back at once
    /// what was not started, and lets other relays know that it is gone.
    ///
    /// Dropped before it is done, it stops at once: what it had claimed is delivered again when the
    /// leases end, or as soon as its store is dropped.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let Self {
            engine,
            verdicts,
            stop,
        } = self;
        tracing::info!(table = engine.observer.table, owner = %engine.store.owner(), "the relay starts");
        let names = engine.destinations.iter().map(|it| it.name.as_str());
        let leads = engine.leading.load(Memory::Relaxed);
        engine.observer.begin(names, leads);
        // In sets, so that all ends with this future, should it be dropped.
        let mut parts = JoinSet::new();
        parts.spawn(engine.clone().settle(verdicts));
        parts.spawn(engine.clone().keep_leases());
        parts.spawn(engine.clone().clean());
        parts.spawn(engine.clone().count());
        let mut claiming = JoinSet::new();
        if engine.settings.deliver {
            parts.spawn(engine.clone().watch());
            parts.spawn(engine.clone().watch_pauses());
            parts.spawn(engine.clone().redeliver());
            claiming.spawn(engine.clone().claim());
        }
        let mut until = std::pin::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => break,
                Some(ended) = parts.join_next() => pass_on_panic(ended),
                Some(ended) = claiming.join_next() => pass_on_panic(ended),
            }
        }
        tracing::info!(table = engine.observer.table, "the relay stops");
        let _ = stop.send(true);
        match tokio::time::timeout(PARTING, claiming.join_next()).await {
            Ok(ended) => ended.into_iter().for_each(pass_on_panic),
            // What it may get for an answer is free for others once the store has left.
            Err(_) => claiming.shutdown().await,
        }
        engine.finish().await;
        parts.shutdown().await;
        match tokio::time::timeout(PARTING, engine.store.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => engine.log_store("leave", &error),
            Err(_) => {
                let table = &engine.observer.table;
                tracing::warn!(table, "the store does not answer: leaving without a word");
            }
        }
        engine.observer.gauge("outbox_relay_leader", 0.0);
        tracing::info!(table = engine.observer.table, "the relay has stopped");
    }
}

/// A relay that lacks a part must not go on as if nothing had happened.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl Engine {
    async fn claim(self: Arc<Self>) {
        let by_key = self.settings.ordering != Ordering::None;
        let mut pace = Pace::new(self.settings.poll_interval);
        // Nothing is claimed before it is known what is paused.
        while !self.obey_pauses().await {
            if self.rest(WATCH).await {
                return;
            }
        }
        while !self.is_stopping() {
            // Before it is asked who leads: it may take long.
            self.room().await;
            if self.is_stopping() {
                return;
            }
            if self.settings.mode == Mode::SingleActive && !self.leads().await {
                pace.stand_by();
                self.rest(WATCH).await;
                continue;
            }
            match self.claim_once(&mut pace).await {
                Ok(true) => {}
                Ok(false) => {
                    let pause = pace.pause(Instant::now()).min(self.until_probe());
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.store.woken() => {}
                        () = self.wake.notified() => {}
                        () = self.hand.until_put_down(), if by_key => {}
                        () = self.stopping() => {}
                    }
                }
                Err(error) => {
                    self.log_store("claim", &error);
                    let pause = pace.failed();
                    tokio::select! {
                        _ = self.rest(pause) => {}
                        () = self.recovered.notified() => {}
                    }
                }
            }
        }
    }

    /// Claims once for every destination that takes events. Gives back whether there is more.
    async fn claim_once(self: &Arc<Self>, pace: &mut Pace) -> Result<bool, StoreError> {
        pace.settled(self.hand.put_down_keys());
        if self.pausing.is_on() {
            return Ok(false);
        }
        if self.room_left(pace).is_none() {
            return Ok(false);
        }
        let share = self.share();
        if self.take_over.swap(false, Memory::Relaxed) {
            pace.look_from_oldest();
        }
        let now = Instant::now();
        let mut except_topics = Vec::new();
        // Whether one takes all that comes, and how many more those take that take a few.
        let (mut freely, mut few) = (false, 0);
        for destination in &self.destinations {
            let admission = destination.admission(now);
            if admission == Admission::Freely && destination.has_room(share) {
                freely = true;
                continue;
            }
            let topics = destination.topics();
            if let Admission::AtMost(window) = admission {
                let free = || window.saturating_sub(destination.in_hand());
                if free() > 0
                    && !topics.is_empty()
                    && destination.may_be_looked_for(now)
                    && destination.has_room(share)
                    && let Some(room) = self.room_left(pace)
                {
                    let claim = Claim {
                        limit: room.limit.min(u32::try_from(free()).unwrap_or(u32::MAX)),
                        scope: Scope {
                            topics: topics.clone(),
                            ..self.settings.scope.clone()
                        },
                        ..self.request(room, Reach::Aside)
                    };
                    let started = Instant::now();
                    match self.take(&claim).await {
                        Ok(taken) => destination.was_looked_for(&taken),
                        // What is for others may be found all the same.
                        Err(error) => {
                            destination.failed_to_look_for(started);
                            self.log_store("claim", &error);
                        }
                    }
                }
                few = few.max(free());
            }
            except_topics.push(topics);
        }
        let Some(mut room) = self.room_left(pace) else {
            return Ok(true);
        };
        let mut except_topics: Vec<String> = except_topics.into_iter().flatten().collect();
        if freely {
            // Of a topic that goes several ways, others still take events.
            except_topics.retain(|topic| self.routes.are_one(topic));
        } else if few == 0 {
            return Ok(false);
        } else {
            // What is of a topic that was not seen yet may be for one of those.
            room.limit = room.limit.min(u32::try_from(few).unwrap_or(u32::MAX));
        }
        let keys = pace.keys(room.limit, now);
        if !keys.is_empty() {
            let claim = Claim {
                except_topics,
                keys,
                ..self.request(room, Reach::Oldest)
            };
            return match self.take(&claim).await {
                Ok(taken) => {
                    pace.claimed_of_keys(claim.keys, taken);
                    Ok(true)
                }
                Err(error) => {
                    pace.failed_of_keys(claim.keys);
                    Err(error)
                }
            };
        }
        let Some(reach) = pace.reach(now) else {
            return Ok(false);
        };
        let claim = Claim {
            except_topics,
            ..self.request(room, reach)
        };
        let started = Instant::now();
        let taken = match self.take(&claim).await {
            Ok(taken) => taken,
            Err(error) => {
                pace.failed_to_look(reach, started);
                return Err(error);
            }
        };
        let again = pace.claimed(reach, taken);
        self.waiting.store(pace.is_waiting(), Memory::Relaxed);
        Ok(again)
    }

    /// For how long no destination that is down may be probed.
    fn until_probe(&self) -> Duration {
        let now = Instant::now();
        self.destinations
            .iter()
            .filter_map(|destination| match destination.admission(now) {
                Admission::Nothing(until) => Some(until - now),
                _ => None,
            })
            .min()
            .unwrap_or(Duration::MAX)
    }

    async fn leads(&self) -> bool {
        let (owner, leads) = loop {
            let owner = self.store.owner();
            let leads = self.store.lead().await.unwrap_or_else(|error| {
                self.log_store("lead", &error);
                false
            });
            // One who became somebody else meanwhile may lead no more.
            if !leads || owner == self.store.owner() {
                break (owner, leads);
            }
        };
        *self.led_as.lock().expect("not poisoned") = leads.then_some(owner);
        self.leading.store(leads, Memory::Relaxed);
        self.observer
            .gauge("outbox_relay_leader", if leads { 1.0 } else { 0.0 });
        leads
    }

    /// Whether a delivery may start under this lease. One who leads must also have led when it was claimed.
    pub(crate) fn is_ours(&self, lease: &Lease) -> bool {
        let leads = || *self.led_as.lock().expect("not poisoned") == Some(lease.owner);
        self.store.holds(lease) && (self.settings.mode == Mode::Parallel || leads())
    }

    /// Waits until all that was under way is settled, but not for ever.
    async fn finish(&self) {
        let patience = self.settings.dispatch_timeout + Duration::from_secs(5);
        let done = async {
            loop {
                let progress = self.hand.progress.notified();
                if self.hand.is_empty() {
                    return;
                }
                tokio::select! {
                    () = progress => {}
                    () = tokio::time::sleep(GATHER) => {}
                }
            }
        };
        if tokio::time::timeout(patience, done).await.is_err() {
            tracing::error!(
                table = self.observer.table,
                events = self.hand.load().0,
                "stopped with events unsettled: they are delivered again when their leases end"
            );
        }
    }

    /// Whether it was told to stop, or nobody is left who could.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    pub(crate) async fn stopping(&self) {
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }

    /// Pauses. Gives back whether it is time to stop.
    pub(crate) async fn rest(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => self.is_stopping(),
            () = self.stopping() => true,
        }
    }

    pub(crate) fn log_store(&self, what: &str, error: &StoreError) {
        self.observer.store_failed(error.code());
        // A driver's error often says no more than "db error", and its source says which.
        let causes =
            std::iter::successors(std::error::Error::source(error), |cause| cause.source());
        let causes: Vec<String> = causes
            .map(|cause| presentable(&cause.to_string(), b""))
            .collect();
        tracing::warn!(
            table = self.observer.table,
            what,
            code = error.code(),
            cause = causes.join(": "),
            "the store failed: {error}"
        );
    }
}
