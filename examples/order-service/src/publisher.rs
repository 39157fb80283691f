//! The publisher: the relay of this service, which sends committed events to Kafka.
//!
//! Its settings are those of the profile `order-service`. The program `posthaste run` with the
//! `posthaste.toml` beside this package does the same in a process of its own.

use std::time::Duration;

use posthaste::{StoreError, Table, TableError, store};
use posthaste_relay::sink::{Kafka, SinkError};
use posthaste_relay::{Cleaning, Relay, Retry, Settings, SettingsError};

use crate::OUTBOX;

/// Where events go: the topics of Kafka have to be there.
pub const TOPICS: &str = "order-service.{aggregate_type|other}";

/// Why there is no publisher.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublisherError {
    /// The outbox cannot be used.
    #[error("the outbox cannot be used")]
    Store(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Kafka is not set up well.
    #[error(transparent)]
    Kafka(#[from] SinkError),
    /// The settings do not go together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// What the document gives; what it leaves open is the default.
pub fn settings() -> Settings {
    Settings {
        batch_size: 10,
        poll_interval: Duration::from_secs(5),
        retry: Retry::Exponential {
            base: Duration::from_millis(100),
            max: Duration::from_millis(1600),
        },
        max_attempts: 5,
        cleaning: Cleaning {
            retention: Duration::from_secs(30 * 86_400),
            ..Cleaning::default()
        },
        ..Settings::default()
    }
}

/// The publisher of the outbox at this address. It begins to work when it is [run](Relay::run).
pub async fn publisher(address: &str, brokers: &str) -> Result<Relay, PublisherError> {
    let store = store::connect(address, Table::parse(OUTBOX)?).await?;
    let kafka = Kafka::builder(brokers.split(',')).topic(TOPICS).build()?;
    let relay = Relay::builder_on(store)
        .settings(settings())
        .destination("kafka", kafka)
        .build()?;
    Ok(relay)
}
