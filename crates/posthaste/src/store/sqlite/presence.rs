//! Presence: which owner this store is, which others are gone, and who leads.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::home::Lock;
use super::link::{Identity, Link};
use super::{Outbox, decode};
use crate::store::StoreError;
use crate::store::cursors::Cursors;

/// How often to look for owners that are gone and without leases: it reads all live events, and takes at most
/// this part of the time.
const FORGET: Duration = Duration::from_secs(2);
const FORGETTING_SHARE: u32 = 20;

/// What this store stands for, and what it knows of others.
#[derive(Default)]
pub(super) struct Standing {
    lock: Option<Arc<Lock>>,
    /// The file that the lock was taken for.
    database: Option<Identity>,
    gone: HashSet<Uuid>,
    /// Those of them that were known before, and may hold no lease any more.
    forgettable: Vec<Uuid>,
    /// When to look for that again.
    forgets: Option<Instant>,
    /// The store was dropped. What it was still doing counts as done by one who is gone.
    dropped: bool,
}

/// Who this is, and the right to relay for as long as this is kept.
pub(super) struct Present {
    pub(super) owner: Uuid,
    pub(super) database: Option<Identity>,
    _lock: Arc<Lock>,
}

impl Outbox {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().expect("not poisoned")
    }

    pub(super) fn owner(&self) -> Uuid {
        *self.owner.lock().expect("not poisoned")
    }

    /// Owners that are known to be gone.
    pub(super) fn gone(&self) -> Vec<Uuid> {
        self.standing().gone.iter().copied().collect()
    }

    /// Is known as an owner from now on. Another process that relays the file is an error. Only the thread
    /// that writes does this, and leaves: so whoever has left stays away until it claims again.
    pub(super) fn be_present(&self, link: &mut Link) -> Result<Present, StoreError> {
        let database = self.home.database();
        let lock = self.right_to_relay(database)?;
        let outbox = (self.key.clone(), database);
        if !lock.known().contains(&outbox) {
            // Whoever is not of this process is gone: it had the lock, or never had the right to.
            let leased = self.leased(link)?;
            self.home.relays(&self.key, |relays| {
                for owner in leased {
                    relays.owners.entry(owner).or_insert(false);
                }
            });
            lock.known().insert(outbox);
        }
        let standing = self.standing();
        if standing.dropped {
            return Err(StoreError::Unavailable("the store was dropped".into()));
        }
        let owner = self.owner();
        self.home
            .relays(&self.key, |relays| relays.owners.insert(owner, true));
        Ok(Present {
            owner,
            database,
            _lock: lock,
        })
    }

    /// The lock that others try. Without it they may have relayed meanwhile, and in another file nothing is as it was:
    /// then this comes back as another owner.
    fn right_to_relay(&self, database: Option<Identity>) -> Result<Arc<Lock>, StoreError> {
        let is_lost = {
            let standing = self.standing();
            let lock = standing.lock.as_ref();
            lock.is_some_and(|lock| !lock.holds() || standing.database != database)
        };
        if is_lost {
            self.let_go();
            self.rename();
            *self.cursors.lock().expect("not poisoned") = Cursors::default();
        }
        let mut standing = self.standing();
        if let Some(lock) = &standing.lock {
            return Ok(lock.clone());
        }
        standing.database = database;
        Ok(standing.lock.insert(self.home.lock()?).clone())
    }

    /// Is another owner from now on, and gives back the former.
    fn rename(&self) -> Uuid {
        let mut owner = self.owner.lock().expect("not poisoned");
        std::mem::replace(&mut *owner, Uuid::new_v4())
    }

    /// Looks for owners that are gone. Gives back how many are new.
    pub(super) fn find_gone(&self, link: &mut Link) -> Result<usize, StoreError> {
        let _present = self.be_present(link)?;
        let gone: HashSet<Uuid> = self.home.relays(&self.key, |relays| {
            let gone = relays.owners.iter().filter(|(_, present)| !**present);
            gone.map(|(owner, _)| *owner).collect()
        });
        let mut standing = self.standing();
        let (known, new): (Vec<Uuid>, Vec<Uuid>) = gone
            .iter()
            .partition(|owner| standing.gone.contains(*owner));
        standing.gone = gone;
        standing.forgettable = known;
        Ok(new.len())
    }

    /// Looks which of those that are gone hold no lease any more, where nobody waits for it.
    pub(super) fn forget_gone(self: &Arc<Self>) {
        let owners = {
            let mut standing = self.standing();
            let due = standing.forgets.is_none_or(|next| next <= Instant::now());
            if standing.forgettable.is_empty() || !due {
                return;
            }
            standing.forgets = Some(Instant::now() + FORGET);
            std::mem::take(&mut standing.forgettable)
        };
        let outbox = self.clone();
        drop(self.home.reader.begin(move |link| {
            let began = Instant::now();
            let forgotten = outbox.forget(link, &owners);
            let pause = FORGET.max(began.elapsed() * FORGETTING_SHARE);
            outbox.standing().forgets = Some(Instant::now() + pause);
            forgotten
        }));
    }

    /// Forgets those of these owners that hold no lease any more.
    fn forget(&self, link: &mut Link, owners: &[Uuid]) -> Result<(), StoreError> {
        let leased = self.leased(link)?;
        self.home.relays(&self.key, |relays| {
            for owner in owners.iter().filter(|owner| !leased.contains(owner)) {
                relays.owners.remove(owner);
            }
        });
        Ok(())
    }

    /// Takes, or confirms, the lead.
    pub(super) fn become_leader(&self, link: &mut Link) -> Result<bool, StoreError> {
        let present = self.be_present(link)?;
        let owner = present.owner;
        Ok(self.home.relays(&self.key, |relays| {
            *relays.leader.get_or_insert(owner) == owner
        }))
    }

    /// Ends its presence, so that others can take over at once.
    pub(super) fn be_gone(&self, link: &mut Link) -> Result<(), StoreError> {
        let Some(lock) = self.let_go() else {
            return Ok(());
        };
        // Others may have its leases by now: should it come back, then as somebody else.
        let former = self.rename();
        // Only if it holds no lease: otherwise others are to see that it is gone.
        let forgotten = self.forget(link, &[former]);
        drop(lock);
        forgotten
    }

    /// The store is dropped: it is gone, as if its process had been killed.
    pub(super) fn be_dropped(&self) {
        self.standing().dropped = true;
        self.let_go();
    }

    fn let_go(&self) -> Option<Arc<Lock>> {
        let lock = self.standing().lock.take()?;
        let owner = self.owner();
        self.home.relays(&self.key, |relays| {
            if relays.leader == Some(owner) {
                relays.leader = None;
            }
            if let Some(present) = relays.owners.get_mut(&owner) {
                *present = false;
            }
        });
        Some(lock)
    }

    /// Who holds leases.
    fn leased(&self, link: &mut Link) -> Result<HashSet<Uuid>, StoreError> {
        link.read(|connection| {
            let mut statement = connection.prepare_cached(&self.sql.leased)?;
            let owners = statement.query_map([], |row| decode::maybe_id(row, 0))?;
            owners.filter_map(Result::transpose).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::store::cursors::Cursor;
    use crate::store::sqlite::Sqlite;
    use crate::store::{Claim, Store};
    use crate::{Table, schema};

    #[tokio::test]
    async fn a_look_that_comes_after_its_store_has_left_takes_nothing_back() {
        let dir = std::env::temp_dir().join(format!("posthaste-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&dir).unwrap();
        let (path, table) = (dir.join("shop.db"), Table::parse("orders_outbox").unwrap());
        let mut connection = rusqlite::Connection::open(&path).unwrap();
        schema::sqlite::apply(&mut connection, &table).unwrap();
        let address = format!("sqlite:{}", path.display());
        let store = Sqlite::connect(&address, table).await.unwrap();
        let claim = Claim::new(1);
        store.claim(&claim).await.unwrap();
        let outbox = &store.outbox;
        let (go_on, waits) = channel::<()>();
        let busy = outbox.home.looker.begin(move |_| Ok(waits.recv().is_ok()));
        let look = outbox.begin_look(&claim, Cursor(i64::MIN, 0));
        store.leave().await.unwrap();
        go_on.send(()).unwrap();
        assert!(busy.wait().await.unwrap());
        look.wait().await.unwrap();
        let lock = std::fs::File::open(dir.join("shop.db-relay")).unwrap();
        assert!(lock.try_lock().is_ok(), "nobody relays any more");
        let owners = outbox
            .home
            .relays(&outbox.key, |relays| relays.owners.clone());
        assert!(owners.values().all(|present| !present), "{owners:?}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
