//! The seam between the relay and a destination.

mod bus;
mod func;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "http", feature = "nats", feature = "redis"))]
mod link;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
mod stdout;
#[cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis"
))]
mod suspects;
#[cfg(any(
    feature = "http",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis"
))]
mod tls;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::Event;

pub use bus::Bus;
pub use func::{FromFn, from_fn};
#[cfg(feature = "http")]
pub use http::Http;
#[cfg(feature = "kafka")]
pub use kafka::Kafka;
#[cfg(feature = "nats")]
pub use nats::Nats;
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMq;
#[cfg(feature = "redis")]
pub use redis::Redis;
pub use stdout::{JsonLines, stdout};

/// Where events go.
///
/// A sink tries once. It does not retry, reorder, drop or change anything: the relay decides
/// what follows from the [`Outcome`]. It is asked to deliver many events at the same time; only
/// events of one ordering key come one after the other. It may be asked to deliver an event that
/// it has delivered before, and tells consumers by the event's id.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Hands one event to the destination, and waits until it is safe there. It must not block its thread,
    /// which other deliveries share: what blocks belongs into `tokio::task::spawn_blocking`.
    async fn deliver(&self, event: Arc<Event>) -> Outcome;

    /// What kind of system it delivers to, such as `kafka`: the `messaging.system` of spans.
    /// Defaults to our own name.
    fn system(&self) -> &'static str {
        "posthaste"
    }

    /// Whether the destination could be delivered to now, without delivering anything: what was
    /// found, or what is wrong. A sink that has nothing to look at is well.
    async fn check(&self) -> Result<String, String> {
        Ok("nothing to check".to_owned())
    }
}

/// Why a sink could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// These settings cannot work.
    #[error("the {sink} cannot work with these settings: {}", .problems.join("; "))]
    Settings {
        /// What was to be made.
        sink: &'static str,
        /// All that is wrong.
        problems: Vec<String>,
    },
}

impl SinkError {
    #[cfg(any(
        feature = "http",
        feature = "kafka",
        feature = "nats",
        feature = "rabbitmq",
        feature = "redis"
    ))]
    pub(crate) fn refused(sink: &'static str, problems: Vec<String>) -> Self {
        Self::Settings { sink, problems }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings { .. } => "sink.settings",
        }
    }
}

/// What became of one delivery. A failure is a value, not an error: it is part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The destination has it, durably.
    Delivered,
    /// It failed, and may succeed later. Costs an attempt.
    Retry(String),
    /// The same, and not before this much time has passed.
    RetryAfter(String, Duration),
    /// The same, and the destination wants to be left alone for this long: nothing else is sent there before,
    /// which costs no other event an attempt.
    Busy(String, Duration),
    /// It can never succeed: cannot be decoded, too large, refused. The event is dead at once.
    Reject(String),
    /// The destination is down, which is not the event's fault. Costs no attempt, and opens
    /// the destination's circuit.
    Unavailable(String),
}

impl Outcome {
    /// The same, in other words.
    pub(crate) fn worded(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Delivered => Self::Delivered,
            Self::Retry(why) => Self::Retry(words(why)),
            Self::RetryAfter(why, after) => Self::RetryAfter(words(why), after),
            Self::Busy(why, wish) => Self::Busy(words(why), wish),
            Self::Reject(why) => Self::Reject(words(why)),
            Self::Unavailable(why) => Self::Unavailable(words(why)),
        }
    }

    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Delivered => "success",
            Self::Retry(_) | Self::RetryAfter(..) | Self::Busy(..) => "failure",
            Self::Reject(_) => "rejected",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// What went wrong, if anything did.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Delivered => None,
            Self::Retry(why)
            | Self::RetryAfter(why, _)
            | Self::Busy(why, _)
            | Self::Reject(why)
            | Self::Unavailable(why) => Some(why),
        }
    }
}

/// An error is taken as something that may pass.
impl<E: std::fmt::Display> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::Delivered,
            Err(error) => Self::Retry(error.to_string()),
        }
    }
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        (**self).deliver(event).await
    }

    fn system(&self) -> &'static str {
        (**self).system()
    }

    async fn check(&self) -> Result<String, String> {
        (**self).check().await
    }
}
