//! How many leases are held under each name that this store has had.
//!
//! A claim whose answer got lost may have leased events that nobody knows of. The store then
//! goes on under another name, and gives the former one up as soon as all that is known to be
//! held under it has ended: what remains is free for everyone, long before its leases expire.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

#[derive(Default)]
pub(super) struct Held {
    leases: Mutex<HashMap<Uuid, usize>>,
    in_doubt: AtomicBool,
}

impl Held {
    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, usize>> {
        self.leases.lock().expect("not poisoned")
    }

    /// A claim is asked for under this name. It counts itself, so that its name is not given up meanwhile.
    pub(super) fn ask(&self, owner: Uuid) -> Asking<'_> {
        self.take(owner, 1);
        Asking {
            held: self,
            owner,
            answered: false,
        }
    }

    pub(super) fn take(&self, owner: Uuid, leases: usize) {
        if leases > 0 {
            *self.leases().entry(owner).or_default() += leases;
        }
    }

    /// Each of these ended one lease.
    pub(super) fn end(&self, owners: impl Iterator<Item = Uuid>) {
        let mut leases = self.leases();
        for owner in owners {
            if let Entry::Occupied(mut held) = leases.entry(owner) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }

    /// What is held is for others to take.
    pub(super) fn let_go(&self) {
        self.leases().clear();
    }

    /// Whether nothing is known to be held under this name.
    pub(super) fn is_free(&self, owner: Uuid) -> bool {
        !self.leases().contains_key(&owner)
    }

    /// An answer got lost.
    pub(super) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::SeqCst)
    }

    /// From now on events are leased under another name.
    pub(super) fn renamed(&self) {
        self.in_doubt.store(false, Ordering::SeqCst);
    }
}

/// A claim under way. Whoever gives it up, which may be at any time, never gets its answer.
pub(super) struct Asking<'h> {
    held: &'h Held,
    owner: Uuid,
    answered: bool,
}

impl Asking<'_> {
    /// It is known what was leased.
    pub(super) fn answered(mut self, leases: usize) {
        self.held.take(self.owner, leases);
        self.answered = true;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.held.doubt();
        }
        self.held.end(std::iter::once(self.owner));
    }
}
