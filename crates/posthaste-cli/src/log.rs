//! Logs of the program: on standard error, as standard output may be a destination.

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Log;
use crate::output::colours;

/// Starts logging. Libraries that we use only say what is wrong.
pub(crate) fn start(log: &Log) {
    let ours: Level = log
        .level
        .parse()
        .expect("the configuration knows the levels");
    let targets = Targets::new()
        .with_default(ours.min(Level::WARN))
        // What it warns of are returned messages, with their payload. We say the same without it.
        .with_target("lapin", Level::ERROR)
        .with_target("posthaste", ours)
        .with_target("posthaste_relay", ours);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours());
    let logs = tracing_subscriber::registry().with(targets);
    match log.json {
        // Which of our files a line is from helps nobody who reads it.
        false => logs.with(lines.with_target(false)).init(),
        true => logs.with(lines.json().flatten_event(true)).init(),
    }
}
