//! A database of its own for each test, worker processes on it, and what an independent consumer reads.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logistics::{EXCHANGE, OUTBOX, Order, Orders};
use posthaste::{Store, Table, store};
use posthaste_testkit::scene::{posthaste, python};
use posthaste_testkit::server::{Options, RabbitMq};
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio_postgres::Client;
use uuid::Uuid;

pub(crate) use posthaste_testkit::outbox::connect;
pub(crate) use posthaste_testkit::scene::{Running, blocking, database, eventually};

const PIKA: &str = include_str!("../../../../crates/posthaste-testkit/python/rabbitmq.py");

static BROKER: LazyLock<RwLock<RabbitMq>> =
    LazyLock::new(|| RwLock::new(RabbitMq::start(Options::new()).unwrap()));

/// The broker, which others use as well.
pub(crate) async fn broker() -> RwLockReadGuard<'static, RabbitMq> {
    blocking(|| LazyLock::force(&BROKER)).await.read().await
}

/// The broker for this test alone, which may halt it.
pub(crate) async fn broker_alone() -> RwLockWriteGuard<'static, RabbitMq> {
    blocking(|| LazyLock::force(&BROKER)).await.write().await
}

/// A database with a service that takes orders, and a queue that gets the events of all such services.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) client: Client,
    pub(crate) orders: Orders,
    pub(crate) store: Arc<dyn Store>,
    queue: String,
}

impl Scene {
    pub(crate) async fn new(broker: &RabbitMq) -> Self {
        let address = database().await;
        let orders = Orders::open(&address).await.unwrap();
        let table = Table::parse(OUTBOX).unwrap();
        let queue = format!("t-{}", Uuid::new_v4().simple());
        let created = "logistics.order.created.*";
        let actions = [
            "exchange", EXCHANGE, "-", "queue", &queue, "-", "bind", &queue, EXCHANGE, created,
        ];
        let url = broker.url();
        python(PIKA, &[&[url.as_str()], &actions[..]].concat()).await;
        Self {
            client: connect(&address).await,
            store: store::connect(&address, table).await.unwrap(),
            address,
            orders,
            queue,
        }
    }

    /// Takes so many orders. Gives back the ids of their events.
    pub(crate) async fn order(&mut self, times: usize) -> Vec<Uuid> {
        let mut events = Vec::new();
        for _ in 0..times {
            events.push(self.orders.create(&order(12)).await.unwrap());
        }
        events
    }

    /// A worker process, as it is deployed.
    pub(crate) fn worker(&self, broker: &RabbitMq) -> Worker {
        let metrics = free_address();
        let mut process = program()
            .args(["worker", "--with-parent"])
            .env("DATABASE_URL", &self.address)
            .env("AMQP_URL", broker.url())
            .env("METRICS_LISTEN", &metrics)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (log, mut stream) = (Log::default(), process.stderr.take().unwrap());
        let lines = log.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(size @ 1..) = stream.read(&mut buffer) {
                lines.lock().unwrap().extend(&buffer[..size]);
            }
        });
        Worker {
            process,
            metrics,
            log,
        }
    }

    /// Eight of them, which have all begun.
    pub(crate) async fn eight_workers(&self, broker: &RabbitMq) -> Vec<Worker> {
        let workers: Vec<Worker> = (0..8).map(|_| self.worker(broker)).collect();
        eventually("eight workers are there", async || {
            let relays = self.store.relays().await.unwrap();
            let pids: BTreeSet<u32> = relays.iter().filter_map(|relay| relay.pid).collect();
            workers
                .iter()
                .all(|worker| pids.contains(&worker.process.id()))
        })
        .await;
        workers
    }

    /// How many events have each status, in the words of the document.
    pub(crate) async fn statuses(&self) -> BTreeMap<String, i64> {
        let sql = "select status, count(*) from outbox_events_view group by status";
        let rows = self.client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Waits until so many events have this status.
    pub(crate) async fn has(&self, count: usize, status: &str) {
        let count = i64::try_from(count).unwrap();
        eventually(&format!("{count} {status}"), async || {
            self.statuses().await.get(status) == Some(&count)
        })
        .await;
    }

    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// How often each event of this database has arrived, and what its body says.
    pub(crate) async fn arrived(&self, broker: &RabbitMq) -> BTreeMap<Uuid, Vec<Value>> {
        let rows = self
            .client
            .query("select id from outbox_events", &[])
            .await
            .unwrap();
        let ours: BTreeSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let mut arrived: BTreeMap<Uuid, Vec<Value>> = BTreeMap::new();
        let read = python(PIKA, &[&broker.url(), "read", &self.queue]).await;
        for line in read.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let id: Uuid = line["properties"]["message_id"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let body = STANDARD.decode(line["body"].as_str().unwrap()).unwrap();
            if ours.contains(&id) {
                let body = serde_json::from_slice(&body).unwrap();
                arrived.entry(id).or_default().push(body);
            }
        }
        arrived
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

/// A worker process. Killed when it is dropped.
pub(crate) struct Worker {
    process: Child,
    /// Where it answers Prometheus.
    pub(crate) metrics: String,
    log: Log,
}

type Log = Arc<Mutex<Vec<u8>>>;

impl Worker {
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap()).into_owned()
    }

    /// SIGKILL: it can put nothing in order.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Whether it has noticed that its outbox is paused.
    pub(crate) fn is_paused(&self) -> bool {
        let metrics = self.scrape().unwrap_or_default();
        let mut lines = metrics.lines();
        lines.any(|line| line.starts_with("outbox_paused{") && line.ends_with(" 1"))
    }

    pub(crate) fn scrape(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.metrics)?;
        let request = "GET /metrics HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn order(kilograms: i32) -> Order {
    Order {
        id: Uuid::now_v7(),
        destination: "Bremen".to_owned(),
        kilograms,
    }
}

/// The program of this example, without servers.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logistics"));
    for name in ["DATABASE_URL", "AMQP_URL", "METRICS_LISTEN"] {
        command.env_remove(name);
    }
    command
}

fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}
