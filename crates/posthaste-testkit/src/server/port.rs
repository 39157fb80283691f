//! Free ports of 127.0.0.1 for private servers.

use super::{Error, Result};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::sync::Mutex;

const LOWEST: u16 = 15_000;
const TRIES: u16 = 200;

/// How often a server is started, if others take its ports.
const STARTS: usize = 5;

/// Starts a server; if `taken` tells that somebody else has one of its ports, again with others.
pub(super) fn retried<S>(
    mut server: S,
    taken: &str,
    start: fn(&mut S) -> Result<()>,
    renew: fn(&mut S) -> Result<()>,
) -> Result<S> {
    for _ in 1..STARTS {
        match start(&mut server) {
            Err(error) if error.0.contains(taken) => renew(&mut server)?,
            done => return done.map(|()| server),
        }
    }
    start(&mut server).map(|()| server)
}

/// A port that nothing listens on, and that this process was not given before, below the range that the
/// kernel hands out to clients.
///
/// Not a port of that range, as `bind(0)` would give: while the server is down, a client of it
/// that keeps reconnecting can be given the very port it connects to, and then it talks to itself
/// and the server cannot come back. Another process may still take the port before the server
/// does, so whoever starts a server tries again with another port.
pub fn free() -> Result<u16> {
    let span = first_client_port().saturating_sub(LOWEST).max(1_000);
    for salt in 0..TRIES {
        let random = RandomState::new().hash_one((std::process::id(), salt));
        // The remainder is below `span`, a u16.
        let port = LOWEST + (random % u64::from(span)) as u16;
        // Two servers of one process start at the same time, and the one would be taken for the other.
        if is_new(port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(format!(
        "found no free port on 127.0.0.1 between {LOWEST} and {}",
        LOWEST + span
    )))
}

fn is_new(port: u16) -> bool {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    GIVEN.lock().is_ok_and(|mut given| given.insert(port))
}

fn first_client_port() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}
