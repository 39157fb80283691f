//! What these tests share: a database of one's own with the service in it, and patience.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use org::{Command, Environment, HRM_OUTBOX, ORG_OUTBOX, Organizations, Relays, Staff, set_up};
use posthaste::store;
use posthaste::{Event, Record, Status, Store, Table};
use posthaste_relay::sink::{self, Outcome, Sink};
use posthaste_testkit::outbox::connect;
use posthaste_testkit::scene::PATIENCE;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use posthaste_testkit::scene::{database, eventually};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;
/// Both outboxes, and quick enough for tests.
pub(crate) const BRISK: &[(&str, &str)] = &[
    ("OUTBOX_RELAY_TABLES", "public.org_outbox,public.hrm_outbox"),
    ("OUTBOX_RELAY_POLL_INTERVAL", "50ms"),
];

/// The service, in a database that nobody else uses.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) organizations: Organizations,
    pub(crate) staff: Staff,
    pub(crate) client: Client,
    /// The outbox of the module `org`.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tenant: Uuid,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let address = database().await;
        set_up(&address).await.unwrap();
        Self {
            organizations: Organizations::open(&address).unwrap(),
            staff: Staff::open(&address).unwrap(),
            client: connect(&address).await,
            store: open(&address, ORG_OUTBOX).await,
            address,
            tenant: Uuid::new_v4(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        Command::of(self.tenant)
    }

    /// An organization, whose event has this id.
    pub(crate) async fn create(&self, name: &str) -> Uuid {
        let created = self
            .organizations
            .create(&self.command(), Uuid::now_v7(), name)
            .await;
        created.unwrap().id
    }

    pub(crate) async fn create_many(&self, count: usize) -> Vec<Uuid> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.create(&format!("number {}", Uuid::new_v4())).await);
        }
        events
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn event(&self, id: Uuid) -> Record {
        self.store.show(id).await.unwrap().expect("it is there")
    }

    /// Relays of another instance.
    pub(crate) async fn relays(&self, more: &[(&str, &str)], bus: impl Sink) -> Running {
        let shutdown = CancellationToken::new();
        let environment = environment(&[BRISK, more].concat());
        let relays = Relays::start(&self.address, &environment, bus, &shutdown).await;
        Running {
            relays: relays.unwrap(),
            shutdown,
        }
    }

    pub(crate) async fn until(&self, event: Uuid, status: Status) -> Record {
        eventually(&format!("{event} is {status}"), async || {
            self.event(event).await.status == status
        })
        .await;
        self.event(event).await
    }

    pub(crate) async fn until_settled(&self) {
        for table in [ORG_OUTBOX, HRM_OUTBOX] {
            let store = open(&self.address, table).await;
            eventually("everything is settled", async || {
                let stats = store.stats().await.unwrap();
                stats.pending + stats.processing == 0
            })
            .await;
        }
    }
}

/// Relays at work.
pub(crate) struct Running {
    pub(crate) relays: Relays,
    shutdown: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        let stopped = tokio::time::timeout(PATIENCE, self.relays.stopped()).await;
        stopped.expect("they stop in time");
    }
}

/// The switches, with these variables set; of two of the same name the last counts.
pub(crate) fn environment(variables: &[(&str, &str)]) -> Environment {
    let value = |name: &str| {
        let found = variables
            .iter()
            .rev()
            .find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Environment::read(value).unwrap()
}

/// A bus that remembers what it was given, and answers as the test says.
pub(crate) struct Witness(pub(crate) Arc<Mutex<Vec<Event>>>);

impl Witness {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn bus<F>(&self, with: F) -> impl Sink + use<F>
    where
        F: Fn(&Event) -> Outcome + Send + Sync + 'static,
    {
        let seen = self.0.clone();
        sink::from_fn(move |event: Arc<Event>| {
            seen.lock().unwrap().push((*event).clone());
            std::future::ready(with(&event))
        })
    }

    pub(crate) fn seen(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

/// A bus that takes everything.
pub(crate) fn willing() -> impl Sink {
    Witness::new().bus(|_| Outcome::Delivered)
}

pub(crate) async fn open(address: &str, table: &str) -> Arc<dyn Store> {
    let table = Table::parse(table).unwrap();
    store::connect(address, table).await.unwrap()
}
