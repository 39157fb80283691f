//! The in-process bus: events to handlers of the same program, by topic.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use posthaste::Event;

use super::{Outcome, Sink, from_fn};
use crate::observe::panic_text;
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
/// let bus = Bus::new()
///     .on("shop.order.placed.v1", |event| async move {
///         println!("order {:?}", event.aggregate_id);
///         Outcome::Delivered
///     })
///     .on("shop.*", |_| async { Ok::<(), std::io::Error>(()) });
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
                "no handler is subscribed to topic {}: add one to the bus",
                event.topic
            )),
        }
    }
}

/// Several failures as one, which is as lasting as the least lasting of them.
fn joined(failures: Vec<Outcome>) -> Outcome {
    let mut all_rejected = true;
    let mut reasons = Vec::new();
    for failure in failures {
        match failure {
            Outcome::Delivered => continue,
            Outcome::Reject(why) => reasons.push(why),
            Outcome::Retry(why) | Outcome::RetryAfter(why, _) | Outcome::Unavailable(why) => {
                all_rejected = false;
                reasons.push(why);
            }
        }
    }
    match (reasons.is_empty(), all_rejected) {
        (true, _) => Outcome::Delivered,
        (_, true) => Outcome::Reject(reasons.join("; ")),
        (_, false) => Outcome::Retry(reasons.join("; ")),
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.handlers.iter().map(|(pattern, _)| pattern))
            .finish()
    }
}
