//! The publisher: reads each event as the program knows it, then sends it to the exchange.
//!
//! Its settings are those of the profile `farm`, and what the document says about timeouts and the archive.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Event, Store};
use posthaste_relay::sink::{Outcome, RabbitMq, Sink, SinkError};
use posthaste_relay::{Cleaning, Relay, Retry, Settings, SettingsError};

use crate::EXCHANGE;
use crate::event::Catalogue;

/// After so much silence the connection is given up, and whoever waits for it is told of an outage. Longer than three
/// attempts take with these [`settings`]: so a network that is silent costs them, as the document has it.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Sends events to RabbitMQ that this program can read. Others are dead at once.
pub struct Publisher {
    catalogue: Catalogue,
    exchange: RabbitMq,
}

impl Publisher {
    /// To the exchange of the server at `amqp://user:password@host:port`.
    pub fn new(url: &str, catalogue: Catalogue) -> Result<Self, SinkError> {
        let exchange = RabbitMq::builder(url, EXCHANGE)
            .exchange_type("topic")
            .routing_key("{topic}")
            .app_id("farm")
            .timeout(SILENCE)
            .connect_timeout(SILENCE)
            .heartbeat(SILENCE)
            .build()?;
        Ok(Self {
            catalogue,
            exchange,
        })
    }
}

#[async_trait]
impl Sink for Publisher {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        match self.catalogue.read(&event) {
            Ok(()) => self.exchange.deliver(event).await,
            Err(why) => Outcome::Reject(why),
        }
    }

    async fn check(&self) -> Result<String, String> {
        self.exchange.check().await
    }
}

/// What the document gives; what it leaves open is the default.
pub fn settings() -> Settings {
    Settings {
        batch_size: 50,
        poll_interval: Duration::from_secs(5),
        retry: Retry::Fixed {
            delay: Duration::from_secs(10),
        },
        max_attempts: 3,
        // Far shorter than the sink waits. That nobody listens at all is an outage, and costs no attempt.
        dispatch_timeout: Duration::from_secs(5),
        cleaning: Cleaning {
            archive: true,
            ..Cleaning::default()
        },
        ..Settings::default()
    }
}

/// The relay that publishes what is in the outbox. It begins to work when it is [run](Relay::run).
pub fn relay(
    store: Arc<dyn Store>,
    publisher: Publisher,
    settings: Settings,
) -> Result<Relay, SettingsError> {
    Relay::builder_on(store)
        .settings(settings)
        .destination("rabbitmq", publisher)
        .build()
}
