//! Tells systemd how the daemon stands, if it was started by it (`Type=notify`, `WatchdogSec=`).
//!
//! One datagram for each thing told. Who is not supervised pays nothing, and trouble here is nobody's.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Who started the daemon, and wants to know.
pub(crate) struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// What the variables of systemd say.
    pub(crate) fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let place = variable("NOTIFY_SOCKET").as_deref().and_then(address);
        let pid = variable("WATCHDOG_PID");
        let is_ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let period = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        Self {
            socket: place.and_then(|place| Some((UnixDatagram::unbound().ok()?, place))),
            watchdog: period.filter(|_| is_ours).map(Duration::from_micros),
        }
    }

    /// The configuration is right, and it works: on outboxes, or on reaching their databases.
    pub(crate) fn ready(&self, outboxes: usize) {
        self.tell(&format!("READY=1\nSTATUS=serving {outboxes} outbox(es)"));
    }

    /// It finishes what is under way.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing what is under way");
    }

    /// Tells that the process is alive, as often as is wanted. Never ends.
    pub(crate) async fn keep_alive(&self) {
        let Some(period) = self.watchdog.filter(|_| self.socket.is_some()) else {
            return std::future::pending().await;
        };
        // Twice as often as it is missed.
        let mut beat = tokio::time::interval((period / 2).max(Duration::from_millis(1)));
        loop {
            beat.tick().await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, what: &str) {
        if let Some((socket, place)) = &self.socket {
            let _ = socket.send_to_addr(what.as_bytes(), place);
        }
    }
}

/// A path, or with `@` a name that is in no file system.
fn address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(text).ok(),
    }
}
