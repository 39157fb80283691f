//! Order within a key, on a server that breaks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_relay::sink::Kafka;
use posthaste_testkit::server::{Fate, Mortal, Proxy};
use posthaste_testkit::sink_contract::Arrived;
use posthaste_testkit::sink_contract::order::Frail;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::block_in_place;

use crate::cluster::{Faulty, create, faulty, fresh_name, read, sink};

const TIMEOUT: Duration = Duration::from_secs(2);

struct Topic {
    faulty: Mutex<OwnedMutexGuard<Faulty>>,
    network: Arc<Proxy>,
    brokers: String,
    name: String,
}

impl Topic {
    async fn new() -> Self {
        let faulty = faulty().await;
        let (brokers, name) = (faulty.server.brokers(), fresh_name());
        create(&brokers, &name, 4, &[]).await;
        Self {
            network: faulty.proxy.clone(),
            faulty: Mutex::new(faulty),
            brokers,
            name,
        }
    }
}

#[async_trait]
impl Frail for Topic {
    type Sink = Kafka;

    async fn sink(&self) -> Kafka {
        let address = format!("127.0.0.1:{}", self.network.port());
        let builder = sink(&address, &self.name).timeout(TIMEOUT);
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

    fn network(&self) -> &Proxy {
        &self.network
    }

    async fn meet(&self, fate: Fate) {
        let mut faulty = self.faulty.lock().await;
        block_in_place(|| faulty.server.meet(fate)).unwrap();
    }
}

posthaste_testkit::sink_contract!(frail: Topic::new());
