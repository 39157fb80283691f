//! Logs of the program: on standard error, as standard output may be a destination.

use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::{DefaultFields, Format};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Log;
use crate::output::colours;
use crate::trace::Export;

/// Starts logging, and listening to spans if they are exported. Libraries that we use only say what
/// is wrong.
pub(crate) fn start(log: &Log, export: Option<&Export>) {
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
    let Some(export) = export else {
        // One filter before all: what nobody wants to see costs nothing.
        let logs = tracing_subscriber::registry().with(targets);
        return match log.json {
            // Which of our files a line is from helps nobody who reads it.
            false => logs.with(lines().with_target(false)).init(),
            true => logs.with(lines().json().flatten_event(true)).init(),
        };
    };
    let spans = tracing_subscriber::registry().with(export.layer());
    match log.json {
        false => {
            let lines = lines().with_target(false).with_filter(targets);
            spans.with(lines).init();
        }
        true => {
            let lines = lines().json().flatten_event(true).with_filter(targets);
            spans.with(lines).init();
        }
    }
}

fn lines<S>() -> fmt::Layer<S, DefaultFields, Format, fn() -> std::io::Stderr> {
    let stderr: fn() -> std::io::Stderr = std::io::stderr;
    fmt::layer().with_ansi(colours()).with_writer(stderr)
}
