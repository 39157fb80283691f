//! Kafka: an idempotent producer, acknowledged by all replicas, of which there is one here.

use std::time::Duration;

use posthaste_relay::Envelope;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::Kafka;
use posthaste_testkit::server::{self, Options};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::{Sample, TOPIC, compare, flat_out};
use crate::Result;
use crate::bed::Bed;

pub(crate) async fn run(bed: &Bed) -> Result {
    let server = server::Kafka::start(Options::new())?;
    let brokers = server.brokers();
    let config = |properties: &[(&str, &str)]| {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        for (name, value) in properties {
            config.set(*name, *value);
        }
        config
    };
    let admin: AdminClient<_> = config(&[]).create()?;
    let topic = NewTopic::new(TOPIC, 1, TopicReplication::Fixed(1));
    for made in admin.create_topics([&topic], &AdminOptions::new()).await? {
        made.map_err(|(name, code)| format!("{name}: {code}"))?;
    }
    let producer: FutureProducer = config(&[
        ("enable.idempotence", "true"),
        ("acks", "all"),
        ("linger.ms", "1"),
    ])
    .create()?;
    let sample = Sample::new(&Envelope::raw(), Binding::Kafka).await?;
    let floor = async |events| {
        flat_out(events, |n| {
            let (producer, sample) = (&producer, &sample);
            async move {
                let mut headers = OwnedHeaders::new_with_capacity(sample.headers.len());
                for (key, value) in &sample.headers {
                    let value = Some(value);
                    headers = headers.insert(Header { key, value });
                }
                let key = n.to_string();
                let record = FutureRecord::to(TOPIC)
                    .key(&key)
                    .payload(&sample.body[..])
                    .headers(headers);
                let sent = producer.send(record, Duration::from_secs(30)).await;
                sent.map(drop).map_err(|(error, _)| error.into())
            }
        })
        .await
    };
    let sink = Kafka::builder([&brokers]).build()?;
    compare(bed, "Kafka", sink, floor).await
}
