//! Free ports of 127.0.0.1 for private servers.

use super::{Error, Result};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;

const LOWEST: u16 = 15_000;
const TRIES: u16 = 200;

/// A port that nothing listens on, below the range that the kernel hands out to clients.
///
/// Not a port of that range, as `bind(0)` would give: while the server is down, a client of it
/// that keeps reconnecting can be given the very port it connects to, and then it talks to itself
/// and the server cannot come back. Another process may still take the port before the server
/// does, so whoever starts a server tries again with another port.
pub(super) fn free() -> Result<u16> {
    let span = first_client_port().saturating_sub(LOWEST).max(1_000);
    for salt in 0..TRIES {
        let random = RandomState::new().hash_one((std::process::id(), salt));
        // The remainder is below `span`, a u16.
        let port = LOWEST + (random % u64::from(span)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(format!(
        "found no free port on 127.0.0.1 between {LOWEST} and {}",
        LOWEST + span
    )))
}

fn first_client_port() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}
