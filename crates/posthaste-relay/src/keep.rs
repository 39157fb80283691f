//! Keep: what a relay does beside the flow. It prolongs its leases, looks for relays that are gone and for pauses,
//! and counts what is there.

use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;
use std::time::{Duration, Instant};

use crate::relay::{Engine, WATCH};

impl Engine {
    /// Prolongs leases while work goes on.
    pub(crate) async fn keep_leases(self: Arc<Self>) {
        let lease = self.settings.lease;
        let mut pause = lease / 6;
        while !self.rest_until_gone(pause).await {
            pause = lease / 6;
            let expiring = self.hand.expiring(lease * 5 / 6);
            if expiring.is_empty() {
                continue;
            }
            let sent = Instant::now();
            match self.store.extend(&expiring, lease).await {
                Ok(lost) => {
                    self.hand.extended(&expiring, sent + lease);
                    self.hand.lost(&lost);
                    if !lost.is_empty() {
                        tracing::warn!(
                            table = self.observer.table,
                            lost = lost.len(),
                            "leases were lost, or somebody has their events locked"
                        );
                    }
                }
                Err(error) => {
                    self.log_store("extend", &error);
                    // Who waited in vain for somebody with a lock is to be there when it ends, before leases have run out.
                    pause = pause.min(WATCH.saturating_sub(sent.elapsed()));
                }
            }
        }
    }

    /// Looks for relays that are gone. Each look is also a sign of life, and so waits for nothing else.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut failed = false;
        loop {
            let gone = self.store.take_over().await;
            // The loop may have begun to wait for long: another process had the file, say.
            if std::mem::replace(&mut failed, gone.is_err()) && gone.is_ok() {
                self.recovered.notify_one();
            }
            match gone {
                Ok(0) => {}
                Ok(gone) => {
                    tracing::warn!(
                        table = self.observer.table,
                        gone,
                        "taking over from relays that are gone"
                    );
                    self.take_over.store(true, Memory::Relaxed);
                    self.wake.notify_one();
                }
                Err(error) => self.log_store("take over", &error),
            }
            let now = Instant::now();
            let destinations = self.destinations.iter();
            destinations
                .filter(|destination| destination.has_recovered(now))
                .for_each(|destination| self.is_back(destination));
            self.observer
                .in_hand(self.hand.load(), self.settings.in_flight);
            if self.rest(WATCH).await {
                return;
            }
        }
    }

    /// Looks for what is paused.
    pub(crate) async fn watch_pauses(self: Arc<Self>) {
        loop {
            self.obey_pauses().await;
            if self.rest(WATCH).await {
                return;
            }
        }
    }

    /// Counts what is there, for the gauges.
    pub(crate) async fn count(self: Arc<Self>) {
        loop {
            match self.store.stats().await {
                Ok(stats) => self.observer.stats(&stats),
                Err(error) => self.log_store("stats", &error),
            }
            // Not every user may know.
            match self.store.health().await {
                Ok(health) => self.observer.health(&health),
                Err(error) => tracing::debug!(code = error.code(), "no database health: {error}"),
            }
            if self.rest(self.settings.stats_interval).await {
                return;
            }
        }
    }

    /// Pauses, also while the relay is stopping, as leases still have to be kept.
    async fn rest_until_gone(&self, pause: Duration) -> bool {
        tokio::time::sleep(pause).await;
        self.is_stopping() && self.hand.is_empty()
    }
}
