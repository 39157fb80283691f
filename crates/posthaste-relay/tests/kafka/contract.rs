//! What every sink must do, asked of Kafka.

use async_trait::async_trait;
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Kafka;
use posthaste_testkit::server;
use posthaste_testkit::sink_contract::{Arrived, Place};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::block_in_place;

use crate::cluster::{LIMIT, fresh_topic, mortal, read, shared, sink};

struct Topic {
    brokers: String,
    name: String,
    server: Option<Mutex<OwnedMutexGuard<server::Kafka>>>,
}

impl Topic {
    /// On the server that all share, and nobody stops.
    async fn shared() -> Self {
        let brokers = shared().await;
        Self {
            name: fresh_topic(&brokers).await,
            brokers,
            server: None,
        }
    }

    async fn mortal() -> Self {
        let server = mortal(0).await;
        let brokers = server.brokers();
        Self {
            name: fresh_topic(&brokers).await,
            brokers,
            server: Some(Mutex::new(server)),
        }
    }

    async fn server(&self) -> tokio::sync::MutexGuard<'_, OwnedMutexGuard<server::Kafka>> {
        let server = self.server.as_ref();
        server.expect("only outages stop a server").lock().await
    }
}

#[async_trait]
impl Place for Topic {
    type Sink = Kafka;
    const BINDING: Binding = Binding::Kafka;

    async fn sink(&self, envelope: Envelope) -> Kafka {
        let builder = sink(&self.brokers, &self.name).envelope(envelope);
        builder.build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let records = read(&self.brokers, &self.name).await;
        let arrived = records.into_iter().map(|record| Arrived {
            headers: record.headers,
            body: record.value.expect("no tombstone"),
        });
        arrived.collect()
    }

    fn too_large(&self) -> Option<usize> {
        Some(LIMIT + 1)
    }

    async fn stop(&self) {
        let mut server = self.server().await;
        block_in_place(|| server.stop()).unwrap();
    }

    async fn start(&self) {
        let mut server = self.server().await;
        block_in_place(|| server.start_again()).unwrap();
    }
}

posthaste_testkit::sink_contract!(Topic::shared(), outage: Topic::mortal());
