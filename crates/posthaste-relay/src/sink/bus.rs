//! The in-process bus: events to handlers of the same program, by topic.
//!
//! What it says when it cannot hand an event to a handler begins with a stable code.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use posthaste::Event;
use serde::de::DeserializeOwned;

use super::{Outcome, Sink, from_fn};
use crate::plain::plain;
use crate::presentable::panic_text;
use posthaste::Pattern;

/// Hands each event to every handler whose pattern matches its topic.
///
/// The handlers of an event run one after the other, and all of them run, whatever became of
/// the ones before. If any fails, the event fails, and a retry runs all of them again: a
/// handler must be idempotent. An event that no handler is for is a failure, too: it would
/// otherwise vanish without a trace.
///
/// ```
/// use posthaste_relay::sink::{Bus, Outcome};
///
/// #[derive(serde::Deserialize)]
/// struct Placed {
///     order: u64,
/// }
///
/// let bus = Bus::new()
///     .on("shop.order.paid.v1", |event| async move {
///         println!("order {:?}", event.aggregate_id);
///         Outcome::Delivered
///     })
///     .on_json("shop.order.placed.v1", |event, placed: Placed| async move {
///         println!("order {}, told by event {}", placed.order, event.id);
///         Ok::<(), std::io::Error>(())
///     });
/// ```
///
/// A handler says what became of the event, by an [`Outcome`] or a `Result<(), E>`. One that does not
/// is refused by the compiler:
///
/// ```compile_fail,E0277
/// # // org-5.2.8, org-9.3
/// let bus = posthaste_relay::sink::Bus::new().on("*", |_| async { "handled, I think" });
/// ```
#[derive(Default)]
pub struct Bus {
    handlers: Vec<(Pattern, Box<dyn Sink>)>,
}

impl Bus {
    /// A bus without handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler for topics that match the pattern (`*` stands for anything).
    pub fn on<F, Answer, R>(mut self, pattern: &str, handler: F) -> Self
    where
        F: Fn(Arc<Event>) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = R> + Send + 'static,
        R: Into<Outcome> + 'static,
    {
        self.handlers
            .push((Pattern::new(pattern), Box::new(from_fn(handler))));
        self
    }

    /// Adds a handler that gets the payload as a value, beside the event with its id, its tenant
    /// and all else. An event whose payload is no such JSON can never be handled: it is rejected.
    /// One that its producer compressed is decompressed, with the feature `zstd`, if it holds up to 64 MiB.
    pub fn on_json<T, F, Answer, R>(self, pattern: &str, handler: F) -> Self
    where
        T: DeserializeOwned + 'static,
        F: Fn(Arc<Event>, T) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = R> + Send + 'static,
        R: Into<Outcome> + 'static,
    {
        self.on(pattern, move |event| {
            let handled = decoded(&event).map(|value| handler(event.clone(), value));
            async move {
                match handled {
                    Ok(answer) => answer.await.into(),
                    Err(why) => Outcome::Reject(format!("bus.undecodable: {why}")),
                }
            }
        })
    }
}

/// What the payload says, or why it cannot be told.
fn decoded<T: DeserializeOwned>(event: &Event) -> Result<T, String> {
    serde_json::from_slice(&plain(event)?).map_err(|error| {
        // Where it went wrong, and not what is there: that is the payload's.
        let (line, column) = (error.line(), error.column());
        format!(
            "the payload is not what the handler for topic {} takes, at line {line} column {column}: \
             mend the handler, or give changed payloads a topic of the next version",
            event.topic
        )
    })
}

#[async_trait]
impl Sink for Bus {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let mut handled = false;
        let mut failures = Vec::new();
        for (pattern, handler) in &self.handlers {
            if !pattern.matches(&event.topic) {
                continue;
            }
            handled = true;
            let outcome = AssertUnwindSafe(handler.deliver(event.clone()))
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Outcome::Retry(panic_text(&*panic)));
            if outcome != Outcome::Delivered {
                failures.push(outcome);
            }
        }
        match handled {
            true => joined(failures),
            false => Outcome::Retry(format!(
                "bus.no_subscribers: no handler is subscribed to topic {}: add one to the bus",
                event.topic
            )),
        }
    }
}

/// Several failures as one, which is as lasting as the least lasting of them. It is an outage if all of them are,
/// and waits for as long as the one that wants to wait longest.
fn joined(failures: Vec<Outcome>) -> Outcome {
    let whys: Vec<&str> = failures.iter().filter_map(Outcome::why).collect();
    let why = whys.join("; ");
    let wait = failures.iter().filter_map(|failure| match failure {
        // One handler of many: the others need not wait for it.
        Outcome::RetryAfter(_, wait) | Outcome::Busy(_, wait) => Some(*wait),
        _ => None,
    });
    match wait.max() {
        _ if failures.is_empty() => Outcome::Delivered,
        _ if failures.iter().all(|it| matches!(it, Outcome::Reject(_))) => Outcome::Reject(why),
        _ if failures
            .iter()
            .all(|it| matches!(it, Outcome::Unavailable(_))) =>
        {
            Outcome::Unavailable(why)
        }
        Some(wait) => Outcome::RetryAfter(why, wait),
        None => Outcome::Retry(why),
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.handlers.iter().map(|(pattern, _)| pattern))
            .finish()
    }
}
