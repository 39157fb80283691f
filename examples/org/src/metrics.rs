//! What Prometheus reads: the metrics of the relays, under the names of the document.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use posthaste_relay::describe_metrics;

/// From a millisecond to a minute.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0,
];
/// What is recorded has to be gathered every so often, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);

/// Begins to count. Once in a process.
pub fn record() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .install_recorder()?;
    describe_metrics();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

/// The page that is scraped.
pub fn page(path: &str, handle: PrometheusHandle) -> Router {
    let scrape = move || {
        let text = with_locked(&handle.render());
        async move { ([("content-type", "text/plain; version=0.0.4")], text) }
    };
    Router::new().route(path, get(scrape))
}

/// What Posthaste calls `outbox_processing`, the document calls `outbox_locked`: tells both.
fn with_locked(text: &str) -> String {
    let mut told = text.to_owned();
    for line in text.lines() {
        if let Some(labels) = line.strip_prefix("outbox_processing{") {
            told.push_str(&format!("outbox_locked{{{labels}\n"));
        } else if line.starts_with("# TYPE outbox_processing ") {
            told.push_str("# TYPE outbox_locked gauge\n");
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::with_locked;

    // org-10.2.6
    #[test]
    fn what_is_being_processed_is_told_as_locked_as_well() {
        let text = "# TYPE outbox_processing gauge\noutbox_processing{table=\"t\"} 3\nother 1\n";
        let told = with_locked(text);
        assert!(told.starts_with(text));
        let added = "# TYPE outbox_locked gauge\noutbox_locked{table=\"t\"} 3\n";
        assert_eq!(&told[text.len()..], added);
    }
}
