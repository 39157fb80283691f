//! What every sink must do, asked of Redis streams.

use std::sync::Mutex;

use async_trait::async_trait;
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Redis;
use posthaste_testkit::server;
use posthaste_testkit::sink_contract::{Arrived, Place};

use crate::stream::{private, read};

const LIMIT: usize = 2 * 1024 * 1024;

struct Streams(Mutex<server::Redis>, String);

impl Streams {
    async fn new() -> Self {
        let server = private(&[("proto-max-bulk-len", &LIMIT.to_string())]);
        let url = server.url();
        Self(Mutex::new(server), url)
    }
}

#[async_trait]
impl Place for Streams {
    type Sink = Redis;
    const BINDING: Binding = Binding::Redis;

    async fn sink(&self, envelope: Envelope) -> Redis {
        Redis::builder(&self.1).envelope(envelope).build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        read(&self.1, "*").await
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

posthaste_testkit::sink_contract!(Streams::new());
