//! A database of its own for each test, publishers at work on it, and what an independent subscriber reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farm::aggregate::{Barn, Field};
use farm::event::Catalogue;
use farm::publisher::{Publisher, relay};
use farm::{EXCHANGE, Farm, OUTBOX};
use posthaste::{Record, Store, Table, store};
use posthaste_relay::{Settings, View};
use posthaste_testkit::scene::{posthaste, python};
use posthaste_testkit::server::{Options, RabbitMq};
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use uuid::Uuid;

pub(crate) use posthaste_testkit::outbox::connect;
pub(crate) use posthaste_testkit::scene::{blocking, database, eventually};

const PIKA: &str = include_str!("../../../../crates/posthaste-testkit/python/rabbitmq.py");

static BROKER: LazyLock<RwLock<RabbitMq>> =
    LazyLock::new(|| RwLock::new(RabbitMq::start(Options::new()).unwrap()));

/// The broker, which others use as well.
pub(crate) async fn broker() -> RwLockReadGuard<'static, RabbitMq> {
    blocking(|| LazyLock::force(&BROKER)).await.read().await
}

/// The broker for this test alone, which may stop it.
pub(crate) async fn broker_alone() -> RwLockWriteGuard<'static, RabbitMq> {
    blocking(|| LazyLock::force(&BROKER)).await.write().await
}

/// A database with a farm, and a queue that gets all events of all farms.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) client: Client,
    pub(crate) farm: Farm,
    pub(crate) store: Arc<dyn Store>,
    queue: String,
}

impl Scene {
    pub(crate) async fn new(broker: &RabbitMq) -> Self {
        let address = database().await;
        let farm = Farm::open(&address).await.unwrap();
        let table = Table::parse(OUTBOX).unwrap();
        let queue = format!("t-{}", Uuid::new_v4().simple());
        let actions = [
            "exchange", EXCHANGE, "-", "queue", &queue, "-", "bind", &queue, EXCHANGE, "farm.#",
        ];
        let url = broker.url();
        python(PIKA, &[&[url.as_str()], &actions[..]].concat()).await;
        Self {
            client: connect(&address).await,
            store: store::connect(&address, table).await.unwrap(),
            address,
            farm,
            queue,
        }
    }

    /// A field and a barn, saved, without events.
    pub(crate) async fn land(&mut self) -> (Field, Barn) {
        let (mut field, mut barn) = (Field::new("north"), Barn::new(10_000));
        let saved = self.farm.save_changes(&mut [&mut field, &mut barn]).await;
        assert!(saved.unwrap().is_empty());
        (field, barn)
    }

    /// Sows a field this often, which is one event each time. Gives back their ids.
    pub(crate) async fn sow(&mut self, times: usize) -> Vec<Uuid> {
        let (mut field, _) = self.land().await;
        for _ in 0..times {
            field.sow("barley").unwrap();
        }
        let receipts = self.farm.save_changes(&mut [&mut field]).await.unwrap();
        receipts.iter().map(|receipt| receipt.id).collect()
    }

    /// A publisher at work.
    pub(crate) async fn publish(
        &self,
        url: &str,
        catalogue: Catalogue,
        settings: Settings,
    ) -> Publishing {
        let table = Table::parse(OUTBOX).unwrap();
        let store = store::connect(&self.address, table).await.unwrap();
        let publisher = Publisher::new(url, catalogue).unwrap();
        let relay = relay(store, publisher, settings).unwrap();
        let view = relay.view();
        let (stop, stopped) = oneshot::channel::<()>();
        Publishing {
            relay: tokio::spawn(relay.run(async { drop(stopped.await) })),
            view,
            stop,
        }
    }

    /// How many events have each status, in the words of the document.
    pub(crate) async fn statuses(&self) -> BTreeMap<String, i64> {
        let sql = r#"select "Status", count(*) from "OutboxMessage" group by 1"#;
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
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

    pub(crate) async fn event(&self, id: Uuid) -> Record {
        self.store.show(id).await.unwrap().unwrap()
    }

    /// What has arrived of this farm's events, and in which order.
    pub(crate) async fn arrived(&self, broker: &RabbitMq) -> Vec<Arrived> {
        let rows = self
            .client
            .query("select id from outbox_messages", &[])
            .await
            .unwrap();
        let ours: BTreeSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let mut arrived = read(&broker.url(), &self.queue).await;
        arrived.retain(|message| ours.contains(&message.id));
        arrived
    }

    /// What the admin command prints, with the configuration of this example.
    pub(crate) fn posthaste(&self, arguments: &[&str]) -> String {
        let mut command = posthaste();
        let output = command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("POSTHASTE_DATABASE__URL", &self.address)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A publisher at work.
pub(crate) struct Publishing {
    relay: JoinHandle<()>,
    pub(crate) view: View,
    stop: oneshot::Sender<()>,
}

impl Publishing {
    pub(crate) async fn end(self) {
        let _ = self.stop.send(());
        self.relay.await.unwrap();
    }
}

/// A message as the subscriber in Python got it.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) body: Value,
}

async fn read(url: &str, queue: &str) -> Vec<Arrived> {
    let printed = python(PIKA, &[url, "read", queue]).await;
    let lines = printed.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let body = STANDARD.decode(line["body"].as_str().unwrap()).unwrap();
        Arrived {
            id: text(&line["properties"]["message_id"]).parse().unwrap(),
            name: text(&line["properties"]["type"]),
            exchange: text(&line["exchange"]),
            routing_key: text(&line["routing_key"]),
            body: serde_json::from_slice(&body).unwrap(),
        }
    });
    lines.collect()
}
