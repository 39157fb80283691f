//! Pauses: what operators want left in peace, as this relay last saw it.

use std::sync::atomic::{AtomicBool, Ordering};

use posthaste::store::Target;

use crate::relay::Engine;

/// Whether the whole outbox is paused.
#[derive(Default)]
pub(crate) struct Pausing(AtomicBool);

impl Pausing {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Looks what is paused, and obeys. Gives back whether the store could tell.
    pub(crate) async fn obey_pauses(&self) -> bool {
        let pauses = match self.store.pauses().await {
            Ok(pauses) => pauses,
            Err(error) => {
                self.log_store("pauses", &error);
                return false;
            }
        };
        let of = |target: &Target| pauses.iter().find(|pause| pause.target == *target);
        let outbox = of(&Target::Outbox);
        let mut changed =
            self.pausing.0.swap(outbox.is_some(), Ordering::Relaxed) != outbox.is_some();
        if changed {
            self.tell_pause("", outbox.map(|pause| pause.why.as_str()));
        }
        for destination in &self.destinations {
            let pause = of(&Target::Destination(destination.name.clone()));
            if destination.pause(pause.is_some()) {
                self.tell_pause(&destination.name, pause.map(|pause| pause.why.as_str()));
                changed = true;
            }
        }
        if changed {
            self.wake.notify_one();
        }
        true
    }

    fn tell_pause(&self, destination: &str, why: Option<&str>) {
        self.observer.paused(destination, why.is_some());
        let table = &self.observer.table;
        match why {
            Some(why) => tracing::warn!(table, destination, why, "paused by an operator"),
            None => tracing::info!(table, destination, "resumed by an operator"),
        }
    }
}
