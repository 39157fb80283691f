//! Order within a key, on a server that breaks.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_relay::sink::RabbitMq;
use posthaste_testkit::server::{Fate, Mortal, Proxy, RabbitMq as Server};
use posthaste_testkit::sink_contract::order::Frail;
use posthaste_testkit::sink_contract::{Arrived, Place as _};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::block_in_place;

use crate::contract::Exchange;
use crate::place::{Place, mortal};

const TIMEOUT: Duration = Duration::from_secs(2);

struct Queue {
    server: Mutex<MutexGuard<'static, Server>>,
    place: Place,
    network: Proxy,
}

impl Queue {
    async fn new() -> Self {
        let server = mortal().await;
        let place = Place::at(server.url()).await;
        Self {
            network: Proxy::start(place.port()).unwrap(),
            server: Mutex::new(server),
            place,
        }
    }
}

#[async_trait]
impl Frail for Queue {
    type Sink = RabbitMq;

    async fn sink(&self) -> RabbitMq {
        let through = self.place.through(self.network.port());
        let builder = through.builder().timeout(TIMEOUT);
        builder.connect_timeout(TIMEOUT).build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        Exchange::of(self.place.clone()).arrived().await
    }

    fn network(&self) -> &Proxy {
        &self.network
    }

    async fn meet(&self, fate: Fate) {
        let mut server = self.server.lock().await;
        block_in_place(|| server.meet(fate)).unwrap();
    }
}

posthaste_testkit::sink_contract!(frail: Queue::new());
