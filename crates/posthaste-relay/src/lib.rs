//! The engine of Posthaste: claims events from an outbox and delivers them at least once.
//!
//! A [`Relay`] runs in your own process in a few lines, or as the `posthaste` binary.
//! It names no database and no broker: it works on a [`posthaste::Store`] and delivers
//! to a [`sink::Sink`].

mod circuit;
mod clean;
mod dispatch;
mod hand;
mod observe;
mod pace;
mod relay;
mod retry;
mod route;
mod settings;
mod settle;
pub mod sink;

pub use observe::describe_metrics;
pub use relay::{Relay, Waker};
pub use retry::Retry;
pub use route::Pattern;
pub use settings::{Builder, Cleaning, Mode, SettingsError};

// So that the snippets of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
