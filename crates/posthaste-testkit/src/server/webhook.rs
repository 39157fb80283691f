//! A private endpoint for webhooks, in Python: it has written a call down before it answers to it.

use super::account::Account;
use super::private::{Private, controls};
use super::watchdog::Habits;
use super::{Result, debian, port};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Debian's: what else is on the `PATH` may be somebody's own, and this runs as nobody.
const PROGRAM: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("../../python/webhook.py");
const READY_WITHIN: Duration = Duration::from_secs(60);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const PORT_TAKEN: &str = "Address already in use";

const HABITS: Habits = Habits {
    name: "webhook",
    ending: "KILL",
};

/// An endpoint of one's own, on a free port of 127.0.0.1, in a process that can be killed and frozen. It and
/// what it has written are gone when this value is dropped or its process ends.
#[derive(Debug)]
pub struct Webhook {
    private: Private,
    port: u16,
}

controls!(Webhook);

impl Webhook {
    /// Starts one that was never called; returns when it listens. It answers to a call with 204, and to one
    /// whose body has the word `poison` in it not at all: it closes the connection.
    pub fn start() -> Result<Self> {
        if !Path::new(PROGRAM).is_file() {
            debian::install(&["python3"])?;
        }
        let server = Self {
            private: Private::new(Account::unprivileged("nobody")?, HABITS)?,
            port: port::free()?,
        };
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            server.port = port::free()?;
            Ok(())
        })
    }

    /// Its port on 127.0.0.1, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Each call that was answered, one line of JSON for each: `headers`, and `body` in base64.
    pub fn calls(&self) -> String {
        fs::read_to_string(self.private.dir().join("calls")).unwrap_or_default()
    }

    /// Starts a stopped or killed one again on the same port.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.private.command(PROGRAM);
        command.args(["-c", SCRIPT, &self.port.to_string()]);
        let port = self.port;
        self.private.start(command, READY_WITHIN, |_| {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
    }
}
