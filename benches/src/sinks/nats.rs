//! NATS JetStream: each message is acknowledged when the stream has it on its disk.

use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream};
use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Nats;
use posthaste_testkit::server::{self, Options};

use super::{Sample, TOPIC, compare, flat_out};
use crate::Result;
use crate::bed::Bed;

pub(crate) async fn run(bed: &Bed) -> Result {
    let server = server::Nats::start(Options::new())?;
    let context = jetstream::new(async_nats::connect(server.url()).await?);
    context
        .create_stream(stream::Config {
            name: "bench".to_owned(),
            subjects: vec![TOPIC.to_owned()],
            ..stream::Config::default()
        })
        .await?;
    let sample = Sample::new(&Envelope::raw(), Binding::Nats).await?;
    let numbers = AtomicU64::new(0);
    let floor = async |events| {
        flat_out(events, |_| {
            let (context, sample, numbers) = (&context, &sample, &numbers);
            async move {
                let mut headers = HeaderMap::new();
                for (name, value) in &sample.headers {
                    headers.insert(name.as_str(), value.as_str());
                }
                // As long as an id of ours.
                let id = format!("{:036}", numbers.fetch_add(1, Ordering::Relaxed));
                headers.insert("Nats-Msg-Id", id.as_str());
                let body = sample.body.clone();
                let sent = context.publish_with_headers(TOPIC, headers, body).await?;
                sent.await?;
                Ok(())
            }
        })
        .await
    };
    let sink = Nats::builder(server.url()).build()?;
    compare(bed, "NATS JetStream", sink, floor).await
}
