//! `/metrics`: what relays count, as Prometheus reads it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use posthaste_relay::{METRICS, describe_metrics};

use super::desk::Desk;
use crate::failure::Failure;

/// What is recorded has to be gathered every so often, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);

/// Keeps what is counted.
#[derive(Clone)]
pub(crate) struct Recorder(PrometheusHandle);

impl Recorder {
    /// Begins to count. Once in a process.
    pub(crate) fn install() -> Result<Self, Failure> {
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if metric.classes().is_empty() {
                continue;
            }
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, metric.classes())
                .map_err(Failure::other)?;
        }
        let handle = builder.install_recorder().map_err(Failure::other)?;
        describe_metrics();
        Ok(Self(handle))
    }

    /// Gathers what was recorded, for ever.
    pub(super) async fn keep_up(self) {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.0.run_upkeep();
        }
    }

    fn render(&self) -> String {
        self.0.render()
    }
}

/// All of it.
pub(super) async fn scrape(State(desk): State<Arc<Desk>>) -> Response {
    let format = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (format, desk.recorder.render()).into_response()
}
