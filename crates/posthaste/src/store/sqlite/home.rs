//! What all stores of this process on one file share: three threads, who relays, and the right to.
//!
//! One process at a time relays a file: it holds the lock of a file beside the database, which ends
//! with the process, however it ends. So whoever gets the lock knows that all leases are free.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::fault::of_file;
use super::link::{Identity, Link, Role, identity, identity_at};
use super::worker::{Listeners, Worker};
use crate::store::StoreError;

/// By the path of the file, without links.
static HOMES: LazyLock<Mutex<HashMap<PathBuf, Weak<Home>>>> = LazyLock::new(Mutex::default);

/// How long a store of this very process may take to let go of the lock.
const HANDOVER: Duration = Duration::from_millis(500);
/// And somebody who only looks whether it is held.
const GLANCE: Duration = Duration::from_millis(50);

pub(super) struct Home {
    path: PathBuf,
    pub(super) writer: Worker,
    /// Looks for what can be claimed, and waits for no operator.
    pub(super) looker: Worker,
    pub(super) reader: Worker,
    pub(super) listeners: Arc<Listeners>,
    lock: Mutex<Weak<Lock>>,
    /// The last try to take it was in vain: the next one waits for nobody, as whoever has it may keep it for days.
    in_vain: AtomicBool,
    outboxes: Mutex<HashMap<String, Relays>>,
}

/// The relays of one outbox in this process, and those that they take over from.
#[derive(Default)]
pub(super) struct Relays {
    /// Each with whether it is still there.
    pub(super) owners: BTreeMap<Uuid, bool>,
    pub(super) leader: Option<Uuid>,
}

impl Home {
    /// The home of the stores on this file, which is there.
    pub(super) fn at(path: &Path) -> Result<Arc<Self>, StoreError> {
        let path = path.canonicalize().map_err(|error| of_file(path, &error))?;
        let mut homes = HOMES.lock().expect("not poisoned");
        homes.retain(|_, home| home.strong_count() > 0);
        if let Some(home) = homes.get(&path).and_then(Weak::upgrade) {
            return Ok(home);
        }
        let listeners = Arc::new(Listeners::default());
        let link = |role| Link::new(path.clone(), role);
        let home = Arc::new(Self {
            writer: Worker::start_watching(link(Role::Writes), listeners.clone())?,
            looker: Worker::start(link(Role::Reads))?,
            reader: Worker::start(link(Role::Reads))?,
            listeners,
            lock: Mutex::default(),
            in_vain: AtomicBool::default(),
            outboxes: Mutex::default(),
            path: path.clone(),
        });
        homes.insert(path, Arc::downgrade(&home));
        Ok(home)
    }

    /// What is known about the relays of an outbox.
    pub(super) fn relays<T>(&self, outbox: &str, look: impl FnOnce(&mut Relays) -> T) -> T {
        let mut outboxes = self.outboxes.lock().expect("not poisoned");
        look(outboxes.entry(outbox.to_owned()).or_default())
    }

    /// Whether another process relays the file, and which, if it could write that down.
    pub(super) fn relays_elsewhere(&self) -> Option<Elsewhere> {
        let held = self.lock.lock().expect("not poisoned");
        if held.strong_count() > 0 {
            return None;
        }
        let file = File::open(beside(&self.path)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(Elsewhere {
                pid: io::read_to_string(file).unwrap_or_default().parse().ok(),
            }),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Which file this is about now: somebody may have put another one in its place.
    pub(super) fn database(&self) -> Option<Identity> {
        identity_at(&self.path)
    }

    /// The right to relay, which ends when all who have it let go of it.
    pub(super) fn lock(&self) -> Result<Arc<Lock>, StoreError> {
        let mut held = self.lock.lock().expect("not poisoned");
        if let Some(lock) = held.upgrade().filter(|lock| lock.holds()) {
            return Ok(lock);
        }
        let taken = Lock::take(&self.path, !self.in_vain.load(Ordering::Relaxed));
        self.in_vain.store(taken.is_err(), Ordering::Relaxed);
        let lock = Arc::new(taken?);
        *held = Arc::downgrade(&lock);
        Ok(lock)
    }
}

/// Another process that relays a file.
pub(super) struct Elsewhere {
    /// What it knows itself by: in another container that may be a number which nobody has here, or our own.
    pub(super) pid: Option<u32>,
}

/// The file whose lock is the right to relay.
fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-relay");
    path.into()
}

/// The lock of a file beside the database.
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    /// Outboxes whose leases of earlier processes are known, each with its database.
    known: Mutex<HashSet<(String, Option<Identity>)>>,
}

impl Lock {
    /// Waits for who only looks whether it is held, and for a store of this process that lets go of it, if it is to be
    /// patient.
    fn take(database: &Path, patient: bool) -> Result<Self, StoreError> {
        let path = beside(database);
        let failed = |error: std::io::Error| of_file(&path, &error);
        let ours = std::process::id().to_string();
        let started = Instant::now();
        loop {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    // For people only: a disk that is full must not keep the lock from being taken.
                    let _ = file
                        .set_len(0)
                        .and_then(|()| file.rewind())
                        .and_then(|()| file.write_all(ours.as_bytes()));
                    return Ok(Self {
                        file,
                        path,
                        known: Mutex::default(),
                    });
                }
                // Removed in between: whoever comes next locks another file.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            let mut pid = String::new();
            file.rewind().map_err(failed)?;
            file.read_to_string(&mut pid).map_err(failed)?;
            let patience = if pid == ours { HANDOVER } else { GLANCE };
            if !patient || started.elapsed() > patience {
                return Err(StoreError::Taken {
                    path: database.display().to_string(),
                    by: match pid.is_empty() {
                        true => "another process".to_owned(),
                        false => format!("process {pid}"),
                    },
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether it still is what others try to lock: somebody may have removed the file.
    pub(super) fn holds(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, HashSet<(String, Option<Identity>)>> {
        self.known.lock().expect("not poisoned")
    }
}

/// Whether this file still has its name.
fn is_at(file: &File, path: &Path) -> bool {
    let open = file.metadata().as_ref().ok().map(identity);
    open.is_some() && open == identity_at(path)
}
