//! Order within a key, at an endpoint that breaks.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_relay::sink::Http;
use posthaste_testkit::server::{Fate, Mortal, Proxy, Webhook};
use posthaste_testkit::sink_contract::Arrived;
use posthaste_testkit::sink_contract::order::Frail;

use crate::outage::{arrived, within};

struct Endpoint {
    server: Mutex<Webhook>,
    network: Proxy,
}

impl Endpoint {
    async fn new() -> Self {
        let server = Webhook::start().unwrap();
        Self {
            network: Proxy::start(server.port()).unwrap(),
            server: Mutex::new(server),
        }
    }
}

#[async_trait]
impl Frail for Endpoint {
    type Sink = Http;

    async fn sink(&self) -> Http {
        within(Duration::from_secs(2), self.network.port())
    }

    async fn arrived(&self) -> Vec<Arrived> {
        arrived(&self.server.lock().unwrap())
    }

    fn network(&self) -> &Proxy {
        &self.network
    }

    async fn meet(&self, fate: Fate) {
        self.server.lock().unwrap().meet(fate).unwrap();
    }
}

posthaste_testkit::sink_contract!(frail: Endpoint::new());
