//! Who works on an outbox, and which ordering keys wait for what.

use std::time::SystemTime;

use uuid::Uuid;

use crate::event::{DeadReason, Status};

/// Where the oldest leases are looked for: among so many live events, those due first. Claims take the
/// oldest, so that leases are found there, unless very much else waits before them.
pub const LIVE_LOOK: u32 = 50_000;

/// A relay of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayInfo {
    /// Its owner id, as in leases. Nil: another process relays a SQLite file, and holds no lease.
    pub owner: Uuid,
    /// Its name, if it is known: machine and process.
    pub name: Option<String>,
    /// Its machine, if the name tells.
    pub host: Option<String>,
    /// Its process, if the name tells.
    pub pid: Option<u32>,
    /// Since when it has been there, if that is known.
    pub since: Option<SystemTime>,
    /// How many leases it holds, as far as [`LIVE_LOOK`] shows.
    pub leases: u64,
    /// When it claimed the oldest of those.
    pub oldest_lease: Option<SystemTime>,
    /// Whether it is the one active relay.
    pub leads: bool,
    /// Whether it is there. What one that is gone had leased is taken over by others.
    pub alive: bool,
}

impl RelayInfo {
    /// A relay that is known by its name only.
    pub(super) fn new(owner: Uuid, name: Option<String>) -> Self {
        let (host, pid) = match name.as_deref().and_then(place) {
            Some((host, pid)) => (Some(host.to_owned()), Some(pid)),
            None => (None, None),
        };
        Self {
            owner,
            name,
            host,
            pid,
            since: None,
            leases: 0,
            oldest_lease: None,
            leads: false,
            alive: false,
        }
    }
}

/// Reads `machine (4711)`.
fn place(name: &str) -> Option<(&str, u32)> {
    let (host, rest) = name.rsplit_once(" (")?;
    Some((host, rest.strip_suffix(')')?.parse().ok()?))
}

/// The name of this process, as other relays see it.
pub(super) fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_else(|_| "unknown host".to_owned());
    format!("{host} ({})", std::process::id())
}

/// An ordering key whose first event is dead, or waits to be tried again, while others wait behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedKey {
    /// The key.
    pub key: String,
    /// Its first event.
    pub head: Uuid,
    /// The topic of the first event.
    pub topic: String,
    /// Whether the first event is dead or pending.
    pub status: Status,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong last.
    pub error: Option<String>,
    /// Since when it has been so: when it died, or was last tried.
    pub since: SystemTime,
    /// When it is tried again, if it is pending.
    pub next_attempt_at: Option<SystemTime>,
    /// How many live events wait behind it, counted up to [`WAITING_LOOK`].
    pub waiting: u64,
}

/// No more events behind one head are counted.
pub const WAITING_LOOK: u32 = 10_000;

/// So many dead, and so many waiting events are looked at for keys that they block.
pub const BLOCKED_LOOK: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_and_process_are_read_from_a_name() {
        assert_eq!(place("db-1 (4711)"), Some(("db-1", 4711)));
        assert_eq!(place("a (b) (7)"), Some(("a (b)", 7)));
        for odd in ["", "db-1", "db-1 (x)", "db-1 (7) "] {
            assert_eq!(place(odd), None, "{odd}");
        }
        assert!(place(&name()).is_some());
    }
}
