//! What every sink must do, asked of RabbitMQ.

use async_trait::async_trait;
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::RabbitMq;
use posthaste_testkit::server::RabbitMq as Server;
use posthaste_testkit::sink_contract::{self, Arrived};
use tokio::sync::MutexGuard;

use crate::place::{Found, Place, mortal};

pub(crate) struct Exchange {
    place: Place,
    /// One that can be stopped, for tests that do.
    server: Option<MutexGuard<'static, Server>>,
}

impl Exchange {
    async fn shared() -> Self {
        Self::of(Place::new().await)
    }

    /// One that nobody stops, or not here.
    pub(crate) fn of(place: Place) -> Self {
        Self {
            place,
            server: None,
        }
    }

    /// Starting takes seconds, so only tests that stop a server have one to themselves.
    async fn mortal() -> Self {
        let server = mortal().await;
        Self {
            place: Place::at(server.url()).await,
            server: Some(server),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("a test about outages")
    }
}

#[async_trait]
impl sink_contract::Place for Exchange {
    type Sink = RabbitMq;
    const BINDING: Binding = Binding::Amqp;

    async fn sink(&self, envelope: Envelope) -> RabbitMq {
        self.place.builder().envelope(envelope).build().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        let arrived = |mut found: Found| {
            let content_type = found.text("content_type").to_owned();
            found
                .headers
                .insert("content-type".to_owned(), content_type);
            // AMQP has a property for it.
            if let Some(encoding) = found.properties["content_encoding"].as_str() {
                let encoding = ("content-encoding".to_owned(), encoding.to_owned());
                found.headers.extend([encoding]);
            }
            Arrived {
                headers: found.headers,
                body: found.body,
            }
        };
        self.place.found().await.into_iter().map(arrived).collect()
    }

    fn too_large(&self) -> Option<usize> {
        Some(Server::MAX_MESSAGE_SIZE + 1)
    }

    async fn stop(&self) {
        self.server().stop_broker().unwrap();
    }

    async fn start(&self) {
        self.server().start_broker().unwrap();
    }
}

posthaste_testkit::sink_contract!(Exchange::shared(), outage: Exchange::mortal());
