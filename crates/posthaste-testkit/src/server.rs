//! Real servers for tests: private, on loopback, gone when their owner is gone.
//!
//! [`postgres_url`] is the server that `cargo xtask test` started for all tests. A test that kills
//! or restarts its server starts one of its own with [`Postgres::start`].
//!
//! A further server is one file beside `postgres.rs`: it finds its program (or installs it with
//! `debian::install`), and describes how to start it inside a `Private`, which brings the
//! directory, the unprivileged account, the log, the signals and the clean-up. Linux only.
//! [`python`] runs other people's clients, to read back what was sent; [`Language`] builds programs that
//! enqueue without Rust. [`Proxy`] is a network that can break, [`Machine`] a host that can vanish.

mod account;
mod cache;
mod chromium;
mod debian;
mod kafka;
mod kafka_programs;
mod machine;
mod maven;
mod mortal;
mod nats;
mod otlp;
mod port;
mod postgres;
mod postgres_programs;
mod private;
mod program;
mod prometheus;
mod proxy;
mod python;
mod rabbitmq;
mod redis;
mod systemd;
mod toolchain;
mod watchdog;
mod webhook;

pub use chromium::chromium;
pub use kafka::{Kafka, Listener};
pub use machine::{Machine, has_own_network};
pub use mortal::{Fate, Mortal};
pub use nats::Nats;
pub use otlp::OtlpReceiver;
pub use port::free as free_port;
pub use postgres::Postgres;
pub use prometheus::Prometheus;
pub use proxy::Proxy;
pub use python::python;
pub use rabbitmq::{RabbitMq, Tls as RabbitMqTls};
pub use redis::Redis;
pub use systemd::systemd_analyze;
pub use toolchain::{Language, Program};
pub use webhook::Webhook;

use std::fmt;
use std::path::PathBuf;

/// The variable that names the PostgreSQL server the tests use.
pub const TEST_POSTGRES: &str = "POSTHASTE_TEST_POSTGRES";

/// The variable that names the Kafka brokers the tests share.
pub const TEST_KAFKA: &str = "POSTHASTE_TEST_KAFKA";

/// The variable that names the NATS server the tests share.
pub const TEST_NATS: &str = "POSTHASTE_TEST_NATS";

/// The variable that names the Redis server the tests share.
pub const TEST_REDIS: &str = "POSTHASTE_TEST_REDIS";

/// The variable that names the directory of the PostgreSQL programs to start private servers with.
pub const PG_BIN: &str = "POSTHASTE_PG_BIN";

/// The address of the PostgreSQL server that the tests of this run share.
///
/// # Panics
/// When no server was given: a missing server is a failure, never a skipped test.
pub fn postgres_url() -> String {
    match std::env::var(TEST_POSTGRES) {
        Ok(url) if !url.is_empty() => url,
        _ => panic!(
            "these tests need a PostgreSQL server: run them with `cargo xtask test`, \
             or set {TEST_POSTGRES} to the address of one (postgres://user@host:port/database)"
        ),
    }
}

/// A program that guides use, from the `PATH`; if it is not there, Debian's package is installed (as root).
pub fn program(name: &str, package: &str) -> Result<PathBuf> {
    program::find(name, || debian::install(&[package]))
}

/// How to start a private server. The default is right for most tests.
#[derive(Debug, Clone, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>)>,
    programs: Option<PathBuf>,
}

impl Options {
    /// The defaults: durable as in production, on a free port.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one of the server's own settings, such as `shared_buffers` to `256MB`; the last wins.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push((name.into(), value.to_string()));
        self
    }

    /// Puts a file into the server's directory, where it also works, so that a setting can name it.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.into(), contents.into()));
        self
    }

    /// Uses the programs of this directory instead of looking for them, for another version.
    #[must_use]
    pub fn programs(mut self, dir: impl Into<PathBuf>) -> Self {
        self.programs = Some(dir.into());
        self
    }
}

/// Why a server could not be found, started or stopped, and what to do about it.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// For `map_err`: says what was being done when `io` failed.
    fn doing<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |io| Self(format!("{what}: {io}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

type Result<T> = std::result::Result<T, Error>;
