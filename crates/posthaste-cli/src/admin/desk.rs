//! What all routes share: the outboxes that this process serves, and who may ask about them.

use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime};

use posthaste::{Store, StoreError, Table};
use posthaste_relay::{Settings, Standing, View};
use tokio::sync::watch;

use super::auth::Auth;
use super::fault::Fault;
use super::host::{self, Called, Host};
use super::limit::{Limit, Places};
use super::live::Live;
use super::metrics::Recorder;
use crate::config::{self, Admin, Outbox, Route, Thresholds, without_password};

/// A question that takes longer is given up: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a look at the schema is good for.
const SCHEMA_HOLDS: Duration = Duration::from_secs(60);
/// Attempts to sign in, a second and at once.
const SIGNING_IN: (u32, u32) = (1, 10);
/// How many streams one caller may watch at the same time.
const WATCHING: usize = 32;

/// One outbox that this process serves, from before its database is reached.
pub(crate) struct Served {
    /// Unlike any other's: the table, unless another database has one of the same name.
    pub(crate) name: String,
    pub(crate) table: Table,
    /// May hold a password: never shown.
    url: String,
    pub(crate) settings: Settings,
    pub(crate) routes: Vec<Route>,
    inside: RwLock<Inside>,
    /// What the last look at the schema found, and when that was.
    schema: tokio::sync::Mutex<Option<(Instant, Result<i32, String>)>>,
}

#[derive(Default)]
struct Inside {
    store: Option<Arc<dyn Store>>,
    view: Option<View>,
}

impl Served {
    /// Every outbox, by a name of its own.
    pub(crate) fn all(outboxes: &[Outbox]) -> Vec<Arc<Self>> {
        let mut served: Vec<Arc<Self>> = Vec::new();
        for outbox in outboxes {
            let table = outbox.table.to_string();
            let same = served.iter().filter(|it| it.table == outbox.table).count();
            let name = match same {
                0 => table,
                n => format!("{table}~{}", n + 1),
            };
            served.push(Arc::new(Self {
                name,
                table: outbox.table.clone(),
                url: outbox.database.url.clone(),
                settings: outbox.settings.clone(),
                routes: outbox.routes.clone(),
                inside: RwLock::default(),
                schema: tokio::sync::Mutex::default(),
            }));
        }
        served
    }

    /// The database answers.
    pub(crate) fn opened(&self, store: Arc<dyn Store>) {
        self.inside.write().expect("not poisoned").store = Some(store);
    }

    /// A relay works on it.
    pub(crate) fn relayed(&self, view: View) {
        self.inside.write().expect("not poisoned").view = Some(view);
    }

    pub(super) fn open(&self) -> Option<Arc<dyn Store>> {
        self.inside.read().expect("not poisoned").store.clone()
    }

    /// The store, once the database was reached.
    pub(super) fn store(&self) -> Result<Arc<dyn Store>, Fault> {
        self.open().ok_or_else(|| {
            let message = format!("the database of {} has not answered yet", self.name);
            Fault::new("admin.not_connected", message)
        })
    }

    /// How this process's relay stands, if there is one.
    pub(super) fn relay(&self) -> Option<Standing> {
        let view = self.inside.read().expect("not poisoned").view.clone();
        view.and_then(|view| view.look())
    }

    /// Such as `postgres`.
    pub(super) fn database(&self) -> &'static str {
        match self.url.starts_with("sqlite:") {
            true => "sqlite",
            false => "postgres",
        }
    }

    /// Without its password.
    pub(super) fn address(&self) -> String {
        without_password(&self.url)
    }

    /// The version of its schema, or what is wrong with it, as of a minute ago at most: a look
    /// costs a connection. `None`: it could not be looked at.
    pub(super) async fn checked_schema(&self) -> Option<Result<i32, String>> {
        let mut known = self.schema.lock().await;
        if let Some((at, found)) = &*known
            && at.elapsed() < SCHEMA_HOLDS
        {
            return Some(found.clone());
        }
        let look = posthaste::schema::check_at(&self.url, &self.table);
        let found = match tokio::time::timeout(PATIENCE, look).await {
            Ok(Ok(version)) => Ok(version),
            Ok(Err(StoreError::Schema(error))) => Err(error.to_string()),
            Ok(Err(_)) | Err(_) => return None,
        };
        *known = Some((Instant::now(), found.clone()));
        Some(found)
    }

    /// Where an event would go.
    pub(super) fn destination_of(&self, record: &posthaste::Record) -> Option<&str> {
        let route = self.routes.iter().find(|route| route.takes(record));
        route.map(|route| route.sink.as_str())
    }
}

/// What all routes share.
pub(crate) struct Desk {
    pub(super) served: Vec<Arc<Served>>,
    pub(super) auth: Auth,
    pub(super) asking: Limit,
    pub(super) signing_in: Limit,
    pub(super) watching: Places<String>,
    pub(super) thresholds: Thresholds,
    pub(super) recorder: Recorder,
    pub(super) live: Live,
    pub(super) began: SystemTime,
    pub(super) since: Instant,
    /// Whether TLS is spoken.
    pub(super) secure: bool,
    allowed_hosts: Vec<Host>,
    stopping: AtomicBool,
    /// Ends what goes on for ever.
    closing: watch::Sender<bool>,
}

impl Desk {
    pub(super) fn new(admin: &Admin, served: Vec<Arc<Served>>, recorder: Recorder) -> Self {
        let secure = admin.tls.is_some();
        let (closing, _) = watch::channel(false);
        Self {
            live: Live::new(&served),
            served,
            auth: Auth::new(admin.tokens.clone(), admin.without_tokens),
            asking: Limit::new(admin.rate_limit, admin.rate_limit.saturating_mul(2)),
            signing_in: Limit::new(SIGNING_IN.0, SIGNING_IN.1),
            watching: Places::new(WATCHING),
            thresholds: admin.health.clone(),
            recorder,
            began: SystemTime::now(),
            since: Instant::now(),
            secure,
            allowed_hosts: admin.allowed_hosts.clone(),
            stopping: AtomicBool::new(false),
            closing,
        }
    }

    pub(super) fn outbox(&self, name: &str) -> Result<&Arc<Served>, Fault> {
        let found = self.served.iter().find(|served| served.name == name);
        found.ok_or_else(|| Fault::new("admin.no_outbox", "there is no such outbox"))
    }

    /// How a host of a request calls us, if it does.
    pub(super) fn called(&self, host: &str) -> Option<Called<'_>> {
        host::called(host, &self.allowed_hosts)
    }

    /// The daemon is stopping: no longer ready.
    pub(crate) fn stops(&self) {
        self.stopping.store(true, Memory::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Memory::Relaxed)
    }

    pub(super) fn close(&self) {
        let _ = self.closing.send(true);
    }

    /// Ends when the server closes.
    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }
}

/// Asks a store, for as long as somebody would wait.
pub(super) async fn ask<T>(
    question: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::new(
            "admin.slow",
            format!("the database did not answer within {PATIENCE:?}"),
        )),
    }
}

/// Does something in a store. Nobody knows whether what is given up is done.
pub(super) async fn act<T>(deed: impl Future<Output = Result<T, StoreError>>) -> Result<T, Fault> {
    match tokio::time::timeout(PATIENCE, deed).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Fault::new(
            "admin.unsure",
            format!("the database did not answer within {PATIENCE:?}"),
        )),
    }
}

impl config::Route {
    /// Whether an event takes this route, if it comes to it.
    fn takes(&self, record: &posthaste::Record) -> bool {
        use posthaste::Pattern;
        let fits = |pattern: &Option<String>, text: Option<&str>| match (pattern, text) {
            (None, _) => true,
            (Some(pattern), Some(text)) => Pattern::new(pattern).matches(text),
            (Some(_), None) => false,
        };
        Pattern::new(&self.topic).matches(&record.topic)
            && fits(&self.namespace, Some(&record.namespace))
            && (self.tenant.is_none() || self.tenant == record.tenant_id)
            && fits(&self.aggregate_type, record.aggregate_type.as_deref())
    }
}
