//! What these tests share: a database of one's own with the chat in it, and patience.

use std::sync::Arc;
use std::time::Duration;

use mini_chat::{Billing, Chat, Dispatcher, Ending, OUTBOX, Request, Settled, settings};
use posthaste::store::{self, Filter};
use posthaste::{Event, Record, Status, Store, Table};
use posthaste_relay::sink::{Outcome, Sink};
use posthaste_relay::{Retry, Settings, sink};
use posthaste_testkit::outbox::connect;
use posthaste_testkit::scene::PATIENCE;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use posthaste_testkit::scene::{database, eventually};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;

/// The chat, in a database that nobody else uses, with one tenant.
pub(crate) struct Scene {
    pub(crate) address: String,
    pub(crate) chat: Chat,
    pub(crate) client: Client,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tenant: Uuid,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let address = database().await;
        let chat = Chat::open(&address).await.unwrap();
        let tenant = Uuid::new_v4();
        chat.grant(tenant, 1_000_000).await.unwrap();
        Self {
            client: connect(&address).await,
            store: store(&address).await,
            address,
            chat,
            tenant,
        }
    }

    pub(crate) fn request(&self) -> Request {
        Request {
            tenant_id: self.tenant,
            request_id: Uuid::new_v4(),
            prompt: "how do you do?".to_owned(),
        }
    }

    pub(crate) async fn begin(&self) -> Uuid {
        self.chat.begin(&self.request()).await.unwrap()
    }

    /// A turn from its beginning to its end.
    pub(crate) async fn turn(&self) -> Settled {
        let turn = self.begin().await;
        self.chat.settle(turn, &answered()).await.unwrap()
    }

    pub(crate) async fn turns(&self, count: usize) -> Vec<Settled> {
        let mut turns = Vec::new();
        for _ in 0..count {
            turns.push(self.turn().await);
        }
        turns
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn events(&self) -> Vec<Record> {
        self.store.list(&Filter::default(), 10_000).await.unwrap()
    }

    pub(crate) async fn event(&self, id: Uuid) -> Record {
        self.store.show(id).await.unwrap().expect("it is there")
    }

    pub(crate) fn billing(&self) -> Arc<Billing> {
        Arc::new(Billing::open(&self.address).unwrap())
    }

    /// A dispatcher that looks often and tries again soon.
    pub(crate) async fn dispatcher(&self, publish: impl Sink) -> Running {
        self.dispatcher_with(brisk(), publish).await
    }

    pub(crate) async fn dispatcher_with(&self, settings: Settings, publish: impl Sink) -> Running {
        let shutdown = CancellationToken::new();
        let started = Dispatcher::start(&self.address, settings, publish, shutdown.clone()).await;
        Running {
            dispatcher: started.unwrap(),
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
}

/// A dispatcher at work.
pub(crate) struct Running {
    pub(crate) dispatcher: Dispatcher,
    shutdown: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        let stopped = tokio::time::timeout(PATIENCE, self.dispatcher.stopped()).await;
        stopped.expect("it stops in time");
    }
}

/// The settings of the service, quicker.
pub(crate) fn brisk() -> Settings {
    Settings {
        poll_interval: MS(50),
        retry: Retry::EqualJitter {
            base: MS(20),
            max: MS(100),
        },
        ..settings()
    }
}

pub(crate) fn answered() -> Ending {
    Ending::Completed("very well".to_owned())
}

/// Publishes to nobody, and answers as the test says.
pub(crate) fn answer(with: impl Fn(&Event) -> Outcome + Send + Sync + 'static) -> impl Sink {
    sink::from_fn(move |event: Arc<Event>| std::future::ready(with(&event)))
}

pub(crate) async fn store(address: &str) -> Arc<dyn Store> {
    let table = Table::parse(OUTBOX).unwrap();
    store::connect(address, table).await.unwrap()
}

/// Connections as the chat has them.
pub(crate) fn pool(address: &str) -> deadpool_postgres::Pool {
    let manager = deadpool_postgres::Manager::new(address.parse().unwrap(), tokio_postgres::NoTls);
    deadpool_postgres::Pool::builder(manager).build().unwrap()
}
