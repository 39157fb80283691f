//! How every outbox stands, looked up once a second however many watch, and the last quarter of
//! an hour of it.

mod track;

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
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::api::By;
use super::auth::{Peer, Secure};
use super::desk::{Desk, Served};
use super::fault::Fault;
use super::limit::Place;
use crate::time;

use self::track::Track;
pub(super) use self::track::{DestinationNow, OutboxNow, Point};

const EVERY: Duration = Duration::from_secs(1);
/// A database that is slow to answer is asked less often: this part of its time at most.
const SHARE: u32 = 10;
/// And while nobody watches, this part.
const UNWATCHED: u32 = 100;
const LONGEST: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);

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
        self.tracks[place].lock().expect("not poisoned").points()
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
                let mut track = track.lock().expect("not poisoned");
                track.note(served, counted, served.relay())
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
