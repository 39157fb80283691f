//! A database of its own for each test, publishers at work on it, and what an independent consumer reads.

use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use order_service::publisher::publisher;
use order_service::{Line, NewOrder, Orders};
use posthaste::{Store, Table, store};
use posthaste_testkit::scene::{posthaste, python};
use posthaste_testkit::server::Kafka;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use uuid::Uuid;

pub(crate) use posthaste_testkit::outbox::connect;
pub(crate) use posthaste_testkit::scene::{Running, blocking, database, eventually};

const READER: &str = include_str!("../../../../crates/posthaste-testkit/python/kafka.py");

/// A database, with an order service on it.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) client: Client,
    pub(crate) orders: Orders,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let address = database().await;
        let orders = Orders::open(&address).await.unwrap();
        orders.stock("lamp", 1000).await.unwrap();
        Self {
            client: connect(&address).await,
            address,
            orders,
        }
    }

    pub(crate) async fn store(&self) -> std::sync::Arc<dyn Store> {
        let table = Table::parse(order_service::OUTBOX).unwrap();
        store::connect(&self.address, table).await.unwrap()
    }

    /// A publisher at work, with the settings of the document.
    pub(crate) async fn publish(&self, brokers: &str) -> Publishing {
        let relay = publisher(&self.address, brokers).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        Publishing {
            relay: tokio::spawn(relay.run(async { drop(stopped.await) })),
            stop,
        }
    }

    /// How many events have each status, in the words of the document.
    pub(crate) async fn statuses(&self) -> BTreeMap<String, i64> {
        statuses(&self.client).await
    }

    /// Waits until so many events have this status.
    pub(crate) async fn has(&self, count: i64, status: &str) {
        eventually(&format!("{count} {status}"), async || {
            self.statuses().await.get(status) == Some(&count)
        })
        .await;
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// The program `posthaste`, with the configuration of this example.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = posthaste();
        command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("POSTHASTE_DATABASE__URL", &self.address);
        command
    }

    /// What the admin command prints.
    pub(crate) fn posthaste(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A publisher at work.
pub(crate) struct Publishing {
    relay: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Publishing {
    pub(crate) async fn end(self) {
        let _ = self.stop.send(());
        self.relay.await.unwrap();
    }
}

pub(crate) async fn statuses(client: &Client) -> BTreeMap<String, i64> {
    let sql = "select status, count(*) from order_events group by status";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The broker that tests share, with the topic that the service needs.
pub(crate) async fn kafka() -> String {
    let brokers = blocking(Kafka::shared).await;
    create_topic(&brokers, "order-service.Order").await;
    brokers
}

const CREATE: &str = r#"
import sys
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

admin = AdminClient({"bootstrap.servers": sys.argv[1]})
for made in admin.create_topics([NewTopic(sys.argv[2], 1, 1)]).values():
    try:
        made.result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
"#;

pub(crate) async fn create_topic(brokers: &str, topic: &str) {
    python(CREATE, &[brokers, topic]).await;
}

/// A record as the consumer in Python reads it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Record {
    pub(crate) fn id(&self) -> Uuid {
        self.headers["posthaste-id"].parse().unwrap()
    }
}

/// All that is in a topic.
pub(crate) async fn read(brokers: &str, topic: &str) -> Vec<Record> {
    let printed = python(READER, &["read", brokers, topic]).await;
    let text = |value: &Value| {
        let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let lines = printed.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let headers = line["headers"].as_array().unwrap().iter();
        Record {
            key: text(&line["key"]),
            headers: headers
                .map(|header| (header[0].as_str().unwrap().to_owned(), text(&header[1])))
                .collect(),
            body: serde_json::from_str(&text(&line["value"])).unwrap(),
        }
    });
    lines.collect()
}

pub(crate) fn order(quantity: i32) -> NewOrder {
    NewOrder {
        customer: Uuid::now_v7(),
        lines: vec![Line {
            sku: "lamp".to_owned(),
            quantity,
            cents: 2990,
        }],
    }
}
