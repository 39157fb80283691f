//! Logs of the program: on standard error, as standard output may be a destination.

use std::io::IsTerminal;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};

/// Starts logging. Libraries that we use only say what is wrong.
pub(crate) fn start(log: &Log) {
    let ours = log.level;
    let targets = Targets::new()
        .with_default(ours.min(Level::WARN))
        .with_target("posthaste", ours)
        .with_target("posthaste_relay", ours);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let logs = tracing_subscriber::registry().with(targets);
    match log.format {
        LogFormat::Text => logs.with(lines).init(),
        LogFormat::Json => logs.with(lines.json().flatten_event(true)).init(),
    }
}
