//! The dispatcher: a task of the service that publishes the chat's events until it is told to stop.
//!
//! What publishing is, the module that starts it says; the dispatcher never looks into a payload.

use std::sync::Arc;

use posthaste::store;
use posthaste::{Store, StoreError, Table, TableError};
use posthaste_relay::sink::Sink;
use posthaste_relay::{Relay, Settings, SettingsError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::chat::OUTBOX;

/// Why the dispatcher did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatcherError {
    /// The outbox is not reachable, or not as it must be.
    #[error("the outbox cannot be used: {0}")]
    Outbox(#[from] StoreError),
    /// The settings do not go together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The task that publishes. Start one in each replica of the service: they share the work.
///
/// Dropped, it ends at once, as in a crash: what it had claimed, another one takes over.
pub struct Dispatcher {
    store: Arc<dyn Store>,
    task: JoinHandle<()>,
}

impl Dispatcher {
    /// Publishes until the token is cancelled.
    pub async fn start(
        address: &str,
        settings: Settings,
        publish: impl Sink,
        shutdown: CancellationToken,
    ) -> Result<Self, DispatcherError> {
        let store = store::connect(address, Table::parse(OUTBOX)?).await?;
        let relay = Relay::builder_on(store.clone())
            .settings(settings)
            .destination("billing", publish)
            .build()?;
        let task = tokio::spawn(relay.run(shutdown.cancelled_owned()));
        Ok(Self { store, task })
    }

    /// The outbox, to see how it stands.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until it has stopped: what was under way is finished, and the rest handed back.
    pub async fn stopped(mut self) {
        if let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}
