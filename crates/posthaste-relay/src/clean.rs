//! Clean: remove what is past its retention, in bounded batches.

use std::sync::Arc;
use std::time::Instant;

use posthaste::store::Clean;

use crate::relay::Engine;

impl Engine {
    /// Cleans every so often, until the relay stops.
    pub(crate) async fn clean(self: Arc<Self>) {
        let cleaning = &self.settings.cleaning;
        // Also with retention zero: some may have been delivered while there was another one.
        if !cleaning.enabled {
            return;
        }
        let clean = Clean {
            retention: cleaning.retention,
            dead_retention: cleaning.dead_retention,
            archive: cleaning.archive,
            limit: cleaning.batch_size,
        };
        loop {
            let started = Instant::now();
            match self.store.clean(&clean).await {
                Ok(removed) => {
                    let took = started.elapsed().as_secs_f64();
                    self.observer.seconds("outbox_clean_seconds", took);
                    self.observer.count("outbox_cleaned_total", removed);
                    tracing::debug!(table = self.observer.table, removed, "cleaned");
                    if removed >= u64::from(clean.limit) && !self.is_stopping() {
                        // More to do; but the work of the relay comes first.
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
                Err(error) => self.log_store("clean", &error),
            }
            if self.rest(cleaning.interval).await {
                return;
            }
        }
    }
}
