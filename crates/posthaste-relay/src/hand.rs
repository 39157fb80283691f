//! What a relay has in hand: every event that it claimed and has not settled yet.
//!
//! Bounds how much that is, and knows until when each lease certainly holds.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use posthaste::{Event, Lease};
use tokio::sync::Notify;
use uuid::Uuid;

#[derive(Default)]
pub(crate) struct Hand {
    held: Mutex<Held>,
    /// Something was settled.
    pub(crate) progress: Notify,
}

#[derive(Default)]
struct Held {
    leases: HashMap<Uuid, Holding>,
    bytes: usize,
    /// The keys of what was settled since this was last asked for, each with the lease that was claimed most often.
    put_down: Option<HashMap<String, Lease>>,
}

struct Holding {
    lease: Lease,
    /// The lease holds at least until here: measured from before the claim was sent.
    until: Instant,
    bytes: usize,
}

impl Hand {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().expect("not poisoned")
    }

    pub(crate) fn take(&self, events: &[Event], until: Instant) {
        let mut held = self.held();
        for event in events {
            let bytes = event.payload.len();
            held.bytes += bytes;
            let holding = Holding {
                lease: event.lease,
                until,
                bytes,
            };
            if let Some(before) = held.leases.insert(event.id, holding) {
                held.bytes -= before.bytes;
            }
        }
    }

    /// How many events, and how many bytes of payload.
    pub(crate) fn load(&self) -> (usize, usize) {
        let held = self.held();
        (held.leases.len(), held.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held().leases.is_empty()
    }

    /// Whether there is enough left of a lease to start a delivery that may take this long.
    pub(crate) fn may_start(&self, lease: &Lease, takes: Duration) -> bool {
        self.held().leases.get(&lease.id).is_some_and(|holding| {
            holding.lease == *lease && holding.until >= Instant::now() + takes
        })
    }

    /// Leases that hold for less than this.
    pub(crate) fn expiring(&self, within: Duration) -> Vec<Lease> {
        let limit = Instant::now() + within;
        self.held()
            .leases
            .values()
            .filter(|holding| holding.until < limit)
            .map(|holding| holding.lease)
            .collect()
    }

    pub(crate) fn extended(&self, leases: &[Lease], until: Instant) {
        let mut held = self.held();
        for lease in leases {
            if let Some(holding) = held.leases.get_mut(&lease.id)
                && holding.lease == *lease
            {
                holding.until = until;
            }
        }
    }

    /// These are no longer ours: nothing more may be started under them.
    pub(crate) fn lost(&self, leases: &[Lease]) {
        self.extended(leases, Instant::now());
    }

    /// The keys of which something was settled since this was last asked, each with the lease that was claimed most often.
    pub(crate) fn put_down_keys(&self) -> HashMap<String, Lease> {
        self.held().put_down.take().unwrap_or_default()
    }

    /// Waits until something was settled, unless it was since then.
    pub(crate) async fn until_put_down(&self) {
        loop {
            let progress = self.progress.notified();
            if self.held().put_down.is_some() {
                return;
            }
            progress.await;
        }
    }

    /// Each with its key, if others may wait for it in their key.
    pub(crate) fn put_down<'e>(&self, settled: impl Iterator<Item = (&'e Lease, Option<&'e str>)>) {
        {
            let mut held = self.held();
            let mut keys = held.put_down.take().unwrap_or_default();
            for (lease, key) in settled {
                if held
                    .leases
                    .get(&lease.id)
                    .is_some_and(|holding| holding.lease == *lease)
                    && let Some(holding) = held.leases.remove(&lease.id)
                {
                    held.bytes -= holding.bytes;
                }
                match key.map(|key| (key, keys.get_mut(key))) {
                    Some((_, Some(most))) if most.epoch < lease.epoch => *most = *lease,
                    Some((key, None)) => {
                        keys.insert(key.to_owned(), *lease);
                    }
                    _ => {}
                }
            }
            held.put_down = Some(keys);
        }
        self.progress.notify_waiters();
    }
}
