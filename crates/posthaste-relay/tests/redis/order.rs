//! Order within a key, on a server that breaks.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_relay::sink::Redis;
use posthaste_testkit::server::{self, Fate, Mortal, Proxy};
use posthaste_testkit::sink_contract::Arrived;
use posthaste_testkit::sink_contract::order::Frail;

use crate::stream::{private, read};

const TIMEOUT: Duration = Duration::from_secs(1);

struct Streams {
    server: Mutex<server::Redis>,
    url: String,
    network: Proxy,
}

impl Streams {
    async fn new() -> Self {
        let server = private(&[]);
        Self {
            network: Proxy::start(server.port()).unwrap(),
            url: server.url(),
            server: Mutex::new(server),
        }
    }
}

#[async_trait]
impl Frail for Streams {
    type Sink = Redis;

    async fn sink(&self) -> Redis {
        Redis::builder(format!("redis://127.0.0.1:{}", self.network.port()))
            .timeout(TIMEOUT)
            .connect_timeout(TIMEOUT)
            .build()
            .unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        read(&self.url, "*").await
    }

    fn network(&self) -> &Proxy {
        &self.network
    }

    async fn meet(&self, fate: Fate) {
        self.server.lock().unwrap().meet(fate).unwrap();
    }
}

posthaste_testkit::sink_contract!(frail: Streams::new());
