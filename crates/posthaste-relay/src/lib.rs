//! The engine of Posthaste: claims events from an outbox and delivers them at least once.
//!
//! A [`Relay`] runs in your own process in a few lines, or as the `posthaste` binary.
//! It names no database and no broker: it works on a [`posthaste::Store`] and delivers
//! to a [`sink::Sink`].

mod circuit;
mod claim;
mod clean;
mod destination;
mod dispatch;
pub mod envelope;
mod escape;
mod hand;
mod keep;
mod keys;
mod metric;
mod observe;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod pace;
mod pause;
mod plain;
mod presentable;
mod redeliver;
mod relay;
mod retry;
mod route;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails may panic")]
mod sample;
mod settings;
mod settle;
pub mod sink;
mod tally;
pub mod template;
mod view;

pub use envelope::Envelope;
pub use metric::{METRICS, Metric, MetricKind, describe_metrics};
#[cfg(feature = "opentelemetry")]
pub use opentelemetry::OPENTELEMETRY;
/// Which topics a route or a subscription is for.
#[doc(inline)]
pub use posthaste::Pattern;
pub use redeliver::finish_job;
pub use relay::{Relay, Waker};
pub use retry::Retry;
pub use route::Matcher;
pub use settings::{Builder, Cleaning, Mode, Problem, Settings, SettingsError, Tracing};
pub use tally::{Deliveries, Durations};
pub use template::Template;
pub use view::{CircuitState, DestinationStanding, Outage, Standing, View};
