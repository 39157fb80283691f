//! A private Redis: every write is on the disk before it is acknowledged.

use super::account::Account;
use super::private::{Private, controls};
use super::watchdog::Habits;
use super::{Options, Result, debian, port, program};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(60);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const PORT_TAKEN: &str = "Address already in use";

const HABITS: Habits = Habits {
    name: "redis",
    // Nobody will read its data again.
    ending: "KILL",
};

/// A Redis server of one's own, on a free port of 127.0.0.1, in a temporary directory.
///
/// `appendonly yes` and `appendfsync always`. With the setting `tls-cert-file` it speaks TLS only. The
/// server and its directory are gone when this value is dropped or its process ends, however it ends.
#[derive(Debug)]
pub struct Redis {
    private: Private,
    program: PathBuf,
    settings: Vec<(String, String)>,
    port: u16,
}

controls!(Redis);

impl Redis {
    /// The address of a server that all tests of this process share: the one that
    /// `POSTHASTE_TEST_REDIS` names, else one that is started when the first test asks for it.
    ///
    /// # Panics
    /// When there is none and none can be started.
    pub fn shared() -> String {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        match std::env::var(super::TEST_REDIS) {
            Ok(url) if !url.is_empty() => url,
            _ => SHARED
                .get_or_init(|| Self::start(Options::new()).expect("a Redis server for the tests"))
                .url(),
        }
    }

    /// Starts a server with no data; returns when it answers. Redis is looked for on the `PATH`, and
    /// Debian's package is installed if need be (as root).
    pub fn start(options: Options) -> Result<Self> {
        let program = match options.programs {
            Some(dir) => dir.join("redis-server"),
            None => program::find("redis-server", || debian::install(&["redis-server"]))?,
        };
        let private = Private::new(Account::unprivileged("redis")?, HABITS)?;
        program::write_files(private.dir(), &options.files)?;
        let server = Self {
            private,
            program,
            settings: options.settings,
            port: port::free()?,
        };
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            server.port = port::free()?;
            Ok(())
        })
    }

    /// Its address, the same after every restart.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts a stopped or killed server again on the same data and port.
    pub fn start_again(&mut self) -> Result<()> {
        let (command, port, is_tls) = (self.command(), self.port, self.is_tls());
        self.private
            .start(command, READY_WITHIN, |_| answers(port, is_tls))
    }

    fn is_tls(&self) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|(name, _)| name == "tls-cert-file")
    }

    fn command(&self) -> Command {
        let mut command = self.private.command(&self.program);
        let (plain, tls) = match self.is_tls() {
            true => ("0".to_owned(), self.port.to_string()),
            false => (self.port.to_string(), "0".to_owned()),
        };
        let ours = [
            ("bind", "127.0.0.1"),
            ("port", &*plain),
            ("tls-port", &*tls),
            ("daemonize", "no"),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            // The append-only file has all; snapshots would only cost time.
            ("save", ""),
        ];
        for (name, value) in ours {
            command.arg(format!("--{name}")).arg(value);
        }
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).args(value.split(' '));
        }
        command
    }
}

/// Whether it takes commands: it accepts connections before it has read its data.
fn answers(port: u16, is_tls: bool) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut answer = [0; 8];
    is_tls
        || stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .is_ok()
            && stream.write_all(b"PING\r\n").is_ok()
            && stream.read(&mut answer).is_ok()
            && (answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH"))
}
