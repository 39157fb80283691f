//! What every sink must do, asked of JetStream.

use std::sync::Mutex;

use async_trait::async_trait;
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Nats;
use posthaste_testkit::server;
use posthaste_testkit::sink_contract::{Arrived, Place};

use crate::stream::{NAME, add, private, read, usual};

const LIMIT: usize = 2 * 1024 * 1024;

struct JetStream(Mutex<server::Nats>, String);

impl JetStream {
    async fn new() -> Self {
        let server = private(&[("max_payload", &LIMIT.to_string())]);
        let url = server.url();
        add(&url, usual()).await;
        Self(Mutex::new(server), url)
    }
}

#[async_trait]
impl Place for JetStream {
    type Sink = Nats;
    const BINDING: Binding = Binding::Nats;

    async fn sink(&self, envelope: Envelope) -> Nats {
        Nats::builder(&self.1).envelope(envelope).build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        read(&self.1, NAME).await
    }

    fn too_large(&self) -> Option<usize> {
        Some(LIMIT + 1)
    }

    async fn stop(&self) {
        self.0.lock().unwrap().stop().unwrap();
    }

    async fn start(&self) {
        self.0.lock().unwrap().start_again().unwrap();
    }
}

posthaste_testkit::sink_contract!(JetStream::new());
