//! A private PostgreSQL: its own cluster, as durable as PostgreSQL is by default.

use super::account::Account;
use super::private::Private;
use super::watchdog::Habits;
use super::{Error, Options, Result, port, postgres_programs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORT_TAKEN: &str = "could not create any TCP/IP sockets";

const HABITS: Habits = Habits {
    name: "postgres",
    // An "immediate" shutdown: no checkpoint for data that nobody will read again.
    ending: "QUIT",
};

/// A PostgreSQL server of one's own, on a free port of 127.0.0.1, in a temporary directory.
///
/// fsync is on. Every local user may log in as superuser `postgres` without a password, so it is
/// for tests only. The server and its directory are gone when this value is dropped, and as well
/// when the process that owns it panics, is interrupted or is killed.
#[derive(Debug)]
pub struct Postgres {
    private: Private,
    programs: PathBuf,
    settings: Vec<(String, String)>,
    port: u16,
}

impl Postgres {
    /// Makes a new cluster and starts it; returns when it accepts queries, after about a second.
    /// PostgreSQL is looked for as in [`Postgres::programs`] and installed if need be.
    pub fn start(options: Options) -> Result<Self> {
        let programs = match options.programs {
            Some(dir) => dir,
            None => Self::programs()?,
        };
        let private = Private::new(Account::unprivileged("postgres")?, HABITS)?;
        let server = Self {
            private,
            programs,
            settings: options.settings,
            port: port::free()?,
        };
        server.make_cluster()?;
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            server.port = port::free()?;
            Ok(())
        })
    }

    /// The directory of PostgreSQL's programs: `POSTHASTE_PG_BIN`, else from `PATH`, else the
    /// newest under `/usr/lib/postgresql`, else Debian's package is installed (as root).
    pub fn programs() -> Result<PathBuf> {
        postgres_programs::find_or_install()
    }

    /// The address of database `postgres`, as superuser `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port on 127.0.0.1, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the postmaster; `None` while the server is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.private.pid()
    }

    /// The directory of this server: `data`, the Unix socket and `server.log`.
    pub fn dir(&self) -> &Path {
        self.private.dir()
    }

    /// The file the server logs to.
    pub fn log(&self) -> PathBuf {
        self.private.log()
    }

    /// Sets a server setting for the next start; the last of a name wins.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.settings.push((name.into(), value.to_string()));
    }

    /// Stops in order ("fast"): clients are cut off, open transactions rolled back.
    pub fn stop(&mut self) -> Result<()> {
        self.private.stop("INT", STOPPED_WITHIN)
    }

    /// Kills every process of the server with SIGKILL, so that the next start has to recover.
    pub fn kill(&mut self) -> Result<()> {
        self.private.kill()
    }

    /// Freezes every process of the server: connections stay open, and nobody answers.
    pub fn freeze(&self) -> Result<()> {
        self.private.signal_all("STOP")
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) -> Result<()> {
        self.private.signal_all("CONT")
    }

    /// Starts a stopped or killed server again on the same data and port.
    pub fn start_again(&mut self) -> Result<()> {
        let command = self.server_command();
        self.private.start(command, READY_WITHIN, says_ready)
    }

    /// Stops in order and starts again.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    fn make_cluster(&self) -> Result<()> {
        let initdb = self.programs.join("initdb");
        // Interrupted, it would leave shared memory behind.
        let output = without_pg_variables(self.private.uninterrupted(&initdb))
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8"])
            .args(["--locale=C", "--no-instructions"])
            // Saves seconds, and only means that the empty cluster may be lost with the machine.
            .arg("--no-sync")
            .arg("--pgdata")
            .arg(data_dir(&self.private))
            .output()
            .map_err(Error::doing(format!("running {}", initdb.display())))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::new(format!(
            "{} failed:\n{}",
            initdb.display(),
            String::from_utf8_lossy(&output.stderr)
        )))
    }

    fn server_command(&self) -> Command {
        let mut command =
            without_pg_variables(self.private.command(self.programs.join("postgres")));
        command.arg("-D").arg(data_dir(&self.private));
        command.arg("-k").arg(self.private.dir());
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &self.port.to_string()),
            ("fsync", "on"),
            ("max_connections", "200"),
            // In the data directory, which is removed, and not in /dev/shm: a server killed at the
            // wrong moment leaves it behind, and containers have little room there.
            ("dynamic_shared_memory_type", "mmap"),
        ];
        for (name, value) in ours {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command
    }
}

fn data_dir(private: &Private) -> PathBuf {
    private.dir().join("data")
}

/// Whether the postmaster we started accepts queries: it writes so in line 8 of its pid file,
/// which is what `pg_ctl --wait` reads as well. An older file names another process.
fn says_ready(private: &Private) -> bool {
    let file = fs::read_to_string(data_dir(private).join("postmaster.pid")).unwrap_or_default();
    let mut lines = file.lines().map(str::trim);
    let pid = lines.next().and_then(|pid| pid.parse().ok());
    pid == private.pid() && lines.nth(6) == Some("ready")
}

/// The caller's own PGPORT, PGDATA and so on are about another server.
fn without_pg_variables(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C");
    command
}
