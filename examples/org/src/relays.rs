//! The relays of one instance: one task for each outbox, which delivers, cleans, or both.

use std::sync::Arc;

use posthaste::{StoreError, store};
use posthaste_relay::sink::Sink;
use posthaste_relay::{Relay, SettingsError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;

/// Why the relays did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An outbox is not reachable, or not as it must be.
    #[error("the outbox {table} cannot be used: {source}")]
    Outbox {
        /// Which.
        table: String,
        /// Why.
        source: StoreError,
    },
    /// The switches do not go together.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The relays at work. Dropped, they end at once, as in a crash.
pub struct Relays {
    tasks: JoinSet<()>,
}

impl Relays {
    /// Starts what the environment switches on, until the token is cancelled. Events go to the bus.
    pub async fn start(
        address: &str,
        environment: &Environment,
        bus: impl Sink,
        shutdown: &CancellationToken,
    ) -> Result<Self, StartError> {
        let bus = Arc::new(bus);
        let mut tasks = JoinSet::new();
        for table in environment.tables() {
            let settings = environment.settings(&table);
            let name = table.to_string();
            let store =
                store::connect(address, table)
                    .await
                    .map_err(|source| StartError::Outbox {
                        table: name,
                        source,
                    })?;
            let relay = Relay::builder_on(store)
                .settings(settings)
                .destination("bus", bus.clone())
                .build()?;
            tasks.spawn(relay.run(shutdown.clone().cancelled_owned()));
        }
        Ok(Self { tasks })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Waits until all have stopped: what was under way is finished, and the rest handed back.
    pub async fn stopped(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}
