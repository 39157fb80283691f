//! A worker: one of many processes that publish what is in the outbox. If one dies, the others take over at once.
//!
//! Its settings are those of the profile `logistics`.

use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use posthaste::{StoreError, Table, TableError, store};
use posthaste_relay::sink::{RabbitMq, SinkError};
use posthaste_relay::{METRICS, Relay, Retry, Settings, SettingsError, describe_metrics};

use crate::{EXCHANGE, OUTBOX};

/// Why there is no worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The outbox cannot be used.
    #[error("the outbox cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The broker is not set up well.
    #[error(transparent)]
    RabbitMq(#[from] SinkError),
    /// The settings do not go together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Metrics cannot be exported there.
    #[error("metrics cannot be exported: {0}")]
    Metrics(#[from] BuildError),
}

/// What the document gives; what it leaves open is the default.
pub fn settings() -> Settings {
    let batch_size = 50;
    Settings {
        batch_size,
        // One batch in hand, so that a worker that dies leaves little behind.
        in_flight: batch_size as usize,
        poll_interval: Duration::from_millis(200),
        retry: Retry::Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(300),
        },
        // The first attempt, and five retries.
        max_attempts: 6,
        stats_interval: Duration::from_secs(2),
        ..Settings::default()
    }
}

/// A worker on the outbox at this address. It begins when it is [run](Relay::run).
pub async fn worker(address: &str, url: &str, settings: Settings) -> Result<Relay, WorkerError> {
    let store = store::connect(address, Table::parse(OUTBOX)?).await?;
    let exchange = RabbitMq::builder(url, EXCHANGE)
        .app_id("logistics")
        .build()?;
    let relay = Relay::builder_on(store)
        .settings(settings)
        .destination("rabbitmq", exchange)
        .build()?;
    Ok(relay)
}

/// Answers Prometheus at this address, from within a runtime.
pub fn export_metrics(listen: SocketAddr) -> Result<(), WorkerError> {
    let mut builder = PrometheusBuilder::new().with_http_listener(listen);
    for metric in METRICS.iter().filter(|metric| !metric.classes().is_empty()) {
        let name = Matcher::Full(metric.name.to_owned());
        builder = builder.set_buckets_for_metric(name, metric.classes())?;
    }
    builder.install()?;
    describe_metrics();
    Ok(())
}
