//! Order within a key, on a server that breaks.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_relay::sink::Nats;
use posthaste_testkit::server::{self, Fate, Mortal, Proxy};
use posthaste_testkit::sink_contract::Arrived;
use posthaste_testkit::sink_contract::order::Frail;

use crate::stream::{NAME, private_stream, read};

const TIMEOUT: Duration = Duration::from_secs(1);

struct JetStream {
    server: Mutex<server::Nats>,
    url: String,
    network: Proxy,
}

impl JetStream {
    async fn new() -> Self {
        let server = private_stream().await;
        Self {
            network: Proxy::start(server.port()).unwrap(),
            url: server.url(),
            server: Mutex::new(server),
        }
    }
}

#[async_trait]
impl Frail for JetStream {
    type Sink = Nats;

    async fn sink(&self) -> Nats {
        Nats::builder(format!("nats://127.0.0.1:{}", self.network.port()))
            .timeout(TIMEOUT)
            .connect_timeout(TIMEOUT)
            .build()
            .unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        read(&self.url, NAME).await
    }

    fn network(&self) -> &Proxy {
        &self.network
    }

    async fn meet(&self, fate: Fate) {
        self.server.lock().unwrap().meet(fate).unwrap();
    }
}

posthaste_testkit::sink_contract!(frail: JetStream::new());
