//! The guides of the sinks, each with its server.

use posthaste_testkit::scene::{blocking, python};
use posthaste_testkit::server;

mod http {
    use posthaste_relay::{Relay, sink::Http};

    // To "https://hooks.example/orders/{topic}".
    fn relay(store: impl posthaste::Store, url: &str) -> Result<Relay, Box<dyn std::error::Error>> {
        let orders = Http::builder(url)
            .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
            .allow("127.0.0.1") // needed by addresses that are not of the internet
            .build()?;
        let relay = Relay::builder(store)
            .destination("orders", orders)
            .concurrency(16);
        Ok(relay.build()?)
    }

    use super::*;

    #[tokio::test]
    async fn an_endpoint_is_called() {
        let endpoint = blocking(|| server::Webhook::start().unwrap()).await;
        let url = format!("http://127.0.0.1:{}/orders/{{topic}}", endpoint.port());
        crate::arrives(|store| relay(store, &url)).await;
        assert_eq!(endpoint.calls().lines().count(), 1);
    }
}

mod kafka {
    use posthaste_relay::{Relay, sink::Kafka};

    // At ["kafka-1.example:9092", "kafka-2.example:9092"].
    fn relay(
        store: impl posthaste::Store,
        brokers: &[&str],
    ) -> Result<Relay, Box<dyn std::error::Error>> {
        let kafka = Kafka::builder(brokers.iter().copied())
            .topic("shop.{aggregate_type|other}")
            .build()?;
        Ok(Relay::builder(store).destination("kafka", kafka).build()?)
    }

    use super::*;

    const ADD_TOPIC: &str = r#"
import sys
from confluent_kafka.admin import AdminClient, NewTopic

admin = AdminClient({"bootstrap.servers": sys.argv[1]})
for made in admin.create_topics([NewTopic("shop.other", 1, 1)]).values():
    made.result()
"#;

    #[tokio::test]
    async fn brokers_acknowledge() {
        let brokers = blocking(server::Kafka::shared).await;
        python(ADD_TOPIC, &[&brokers]).await;
        crate::arrives(|store| relay(store, &[&brokers])).await;
    }
}

mod nats {
    use posthaste_relay::{Relay, sink::Nats};

    // At "nats://localhost:4222".
    fn relay(
        store: impl posthaste::Store,
        server: &str,
    ) -> Result<Relay, Box<dyn std::error::Error>> {
        let orders = Nats::builder(server).subject("events.{topic}").build()?;
        Ok(Relay::builder(store)
            .destination("orders", orders)
            .build()?)
    }

    use super::*;

    /// The stream of the guide's command.
    const ADD_STREAM: &str = r#"
import asyncio, sys, nats

async def main():
    client = await nats.connect(sys.argv[1])
    await client.jetstream().add_stream(name="EVENTS", subjects=["events.>"], duplicate_window=600)
    await client.close()

asyncio.run(main())
"#;

    #[tokio::test]
    async fn a_stream_acknowledges() {
        let guide = include_str!("../../../../docs/sinks/nats.md");
        let command = guide.split("```sh\n").nth(1).unwrap();
        let command = command.split("```").next().unwrap();
        let same = "nats stream add EVENTS --subjects 'events.>' --storage file --replicas 3 --dupe-window 10m\n";
        assert_eq!(command, same, "the stream below is another");
        let server = blocking(|| server::Nats::start(server::Options::new()).unwrap()).await;
        python(ADD_STREAM, &[&server.url()]).await;
        crate::arrives(|store| relay(store, &server.url())).await;
    }
}

mod rabbitmq {
    use posthaste_relay::{Relay, sink::RabbitMq};

    // At "amqp://shop:secret@mq.example/shop".
    fn relay(store: impl posthaste::Store, url: &str) -> Result<Relay, Box<dyn std::error::Error>> {
        let orders = RabbitMq::builder(url, "orders")
            .routing_key("{tenant|none}.{topic}")
            .build()?;
        Ok(Relay::builder(store)
            .destination("orders", orders)
            .build()?)
    }

    use super::*;

    const PLACE: &str = include_str!("../../../posthaste-testkit/python/rabbitmq.py");

    #[tokio::test]
    async fn a_broker_confirms() {
        let url = blocking(server::RabbitMq::shared).await;
        python(PLACE, &[&url, "place", "orders"]).await;
        crate::arrives(|store| relay(store, &url)).await;
        let found = python(PLACE, &[&url, "read", "orders"]).await;
        assert!(found.contains("none.shop.order.placed.v1"), "{found}");
    }
}

mod redis {
    use posthaste_relay::{Relay, sink::Redis};

    // At "redis://localhost:6379".
    fn relay(store: impl posthaste::Store, url: &str) -> Result<Relay, Box<dyn std::error::Error>> {
        let orders = Redis::builder(url).key("events:{topic}").build()?;
        Ok(Relay::builder(store)
            .destination("orders", orders)
            .build()?)
    }

    use super::*;

    const READ: &str = include_str!("../../../posthaste-testkit/python/redis.py");

    #[tokio::test]
    async fn a_stream_gets_an_entry() {
        let server = blocking(|| server::Redis::start(server::Options::new()).unwrap()).await;
        crate::arrives(|store| relay(store, &server.url())).await;
        let found = python(READ, &[&server.url(), "events:shop.order.placed.v1"]).await;
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
