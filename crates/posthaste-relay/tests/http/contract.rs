//! What every sink must do, asked of webhooks.

use async_trait::async_trait;
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Http;
use posthaste_testkit::sink_contract::{Arrived, Place};

use crate::endpoint::{Call, Endpoint, status};

const LIMIT: usize = 2 * 1024 * 1024;

struct Webhook(Endpoint);

impl Webhook {
    async fn new() -> Self {
        let answer = |call: &Call| match call.body.len() > LIMIT {
            true => status(413),
            false => status(200),
        };
        Self(Endpoint::answering(answer).await)
    }
}

#[async_trait]
impl Place for Webhook {
    type Sink = Http;
    const BINDING: Binding = Binding::Http;

    async fn sink(&self, envelope: Envelope) -> Http {
        self.0.builder().envelope(envelope).build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let arrived = |call: Call| Arrived {
            headers: call
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect(),
            body: call.body,
        };
        self.0.calls().into_iter().map(arrived).collect()
    }

    fn too_large(&self) -> Option<usize> {
        Some(LIMIT + 1)
    }

    async fn stop(&self) {
        self.0.stop().await;
    }

    async fn start(&self) {
        self.0.start().await;
    }
}

posthaste_testkit::sink_contract!(Webhook::new());
