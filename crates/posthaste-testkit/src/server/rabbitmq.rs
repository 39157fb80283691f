//! A private RabbitMQ: its own node, as durable as RabbitMQ is by default.

use super::account::Account;
use super::private::{Private, controls};
use super::watchdog::Habits;
use super::{Error, Options, Result, debian, port};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORT_TAKEN: &str = "eaddrinuse";
const DEBIAN: &str = "/usr/lib/rabbitmq/bin";
const NODE: &str = "rabbit@localhost";

const HABITS: Habits = Habits {
    name: "rabbitmq",
    // An orderly shutdown takes seconds, and nobody will read the data again.
    ending: "KILL",
};

/// A RabbitMQ server of one's own, on a free port of 127.0.0.1, in a temporary directory.
///
/// It has the users of [`RabbitMq::USERS`]. The server, its Erlang port mapper and its directory are
/// gone when this value is dropped, and as well when the process that owns it is.
#[derive(Debug)]
pub struct RabbitMq {
    private: Private,
    programs: PathBuf,
    settings: Vec<(String, String)>,
    tls: Option<Tls>,
    ports: Ports,
}

/// What a server shows to its clients, and what it wants to see, all of them PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Who signs the clients' certificates.
    pub authority: String,
    /// The server's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// Whether clients must show a certificate.
    pub demanding: bool,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    amqps: u16,
    epmd: u16,
    node: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        Ok(Self {
            amqp: port::free()?,
            amqps: port::free()?,
            epmd: port::free()?,
            node: port::free()?,
        })
    }
}

controls!(RabbitMq);

impl RabbitMq {
    /// The variable that names the server the tests share, instead of one that they start.
    pub const TEST: &'static str = "POSTHASTE_TEST_RABBITMQ";

    /// How many bytes a message has at most, so that this limit can be tested. A server that is given
    /// has the same, see `compose.yaml`.
    pub const MAX_MESSAGE_SIZE: usize = 4 * 1024 * 1024;

    /// Names and passwords: one that may do everything, one that may not write, one whose
    /// password has all the characters that an address must encode.
    pub const USERS: [(&'static str, &'static str); 3] = [
        ("guest", "guest"),
        ("reader", "reader-secret"),
        ("od:d@us/er", "p%40:/@ss?#wörd"),
    ];

    /// Makes a new node and starts it; returns when it accepts connections, after some seconds.
    /// RabbitMQ is installed from Debian's package if need be.
    pub fn start(options: Options) -> Result<Self> {
        Self::start_with(options, None)
    }

    /// The same, and it speaks TLS on a port of its own.
    pub fn start_with_tls(options: Options, tls: Tls) -> Result<Self> {
        Self::start_with(options, Some(tls))
    }

    /// The address of the server that the tests of this process share: started when it is first
    /// asked for, unless the environment names one. Nobody stops it.
    ///
    /// # Panics
    /// When it cannot be started: a missing server is a failure, never a skipped test.
    pub fn shared() -> String {
        static SHARED: OnceLock<RabbitMq> = OnceLock::new();
        match std::env::var(Self::TEST) {
            Ok(url) if !url.is_empty() => url,
            _ => SHARED
                .get_or_init(|| {
                    Self::start(Options::new())
                        .unwrap_or_else(|error| panic!("these tests need RabbitMQ: {error}"))
                })
                .url(),
        }
    }

    fn start_with(options: Options, tls: Option<Tls>) -> Result<Self> {
        let programs = match options.programs {
            Some(dir) => dir,
            None => programs()?,
        };
        let server = Self {
            private: Private::new(Account::unprivileged("rabbitmq")?, HABITS)?,
            programs,
            settings: options.settings,
            tls,
            ports: Ports::free()?,
        };
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            server.ports = Ports::free()?;
            Ok(())
        })
    }

    /// Its address, as `guest`, who may do everything.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.amqp)
    }

    /// The port on 127.0.0.1, the same after every restart.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    /// The port for TLS, if it speaks that.
    pub fn tls_port(&self) -> u16 {
        self.ports.amqps
    }

    /// The file the server logs to.
    pub fn log(&self) -> PathBuf {
        self.private.log()
    }

    /// Whether it can be connected to.
    pub fn answers(&self) -> bool {
        says_hello(self.ports.amqp)
    }

    /// Starts a stopped or killed server again on the same data and ports.
    pub fn start_again(&mut self) -> Result<()> {
        self.configure()?;
        let command = self.server_command();
        let port = self.ports.amqp;
        self.private
            .start(command, READY_WITHIN, |_| says_hello(port))
    }

    /// Stops the broker in order, but not the virtual machine it runs in: much faster to start
    /// again than a process, and the same to all clients.
    pub fn stop_broker(&self) -> Result<()> {
        self.control(&["stop_app"]).map(drop)
    }

    /// Starts the broker again.
    pub fn start_broker(&self) -> Result<()> {
        self.control(&["start_app"]).map(drop)
    }

    /// Runs `rabbitmqctl`, and gives what it printed.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        let program = self.programs.join("rabbitmqctl");
        let output = self
            .with_environment(self.private.command(&program))
            .args(["--quiet", "--node", NODE])
            .args(arguments)
            .output()
            .map_err(Error::doing(format!("running {}", program.display())))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::new(format!(
                "rabbitmqctl {} failed: {}{}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    fn configure(&self) -> Result<()> {
        let dir = self.private.dir();
        let at = |name: &str| dir.join(name).display().to_string();
        let mut settings = vec![
            (
                "listeners.tcp.1".to_owned(),
                format!("127.0.0.1:{}", self.ports.amqp),
            ),
            ("loopback_users".to_owned(), "none".to_owned()),
            ("load_definitions".to_owned(), at("definitions.json")),
            (
                "max_message_size".to_owned(),
                Self::MAX_MESSAGE_SIZE.to_string(),
            ),
            ("log.console".to_owned(), "true".to_owned()),
            ("log.file".to_owned(), "false".to_owned()),
        ];
        if let Some(tls) = &self.tls {
            for (name, text) in [
                ("authority.pem", &tls.authority),
                ("server.pem", &tls.certificate),
                ("server.key", &tls.key),
            ] {
                write(&dir.join(name), text)?;
            }
            let demanding = tls.demanding.to_string();
            let verify = match tls.demanding {
                true => "verify_peer",
                false => "verify_none",
            };
            settings.extend(
                [
                    ("listeners.ssl.1", format!("127.0.0.1:{}", self.ports.amqps)),
                    ("ssl_options.cacertfile", at("authority.pem")),
                    ("ssl_options.certfile", at("server.pem")),
                    ("ssl_options.keyfile", at("server.key")),
                    ("ssl_options.verify", verify.to_owned()),
                    ("ssl_options.fail_if_no_peer_cert", demanding),
                ]
                .map(|(name, value)| (name.to_owned(), value)),
            );
        }
        settings.extend(self.settings.iter().cloned());
        let lines: String = settings
            .iter()
            .map(|(name, value)| format!("{name} = {value}\n"))
            .collect();
        write(&dir.join("rabbitmq.conf"), &lines)?;
        write(&dir.join("definitions.json"), &definitions())?;
        write(&dir.join("enabled_plugins"), "[].\n")
    }

    /// The port mapper is ours as well: the one that Erlang would start leaves the directory, and
    /// so would outlive us.
    fn server_command(&self) -> Command {
        let mut command = self.with_environment(self.private.command("sh"));
        let script = "epmd -port \"$ERL_EPMD_PORT\" -address 127.0.0.1 & exec \"$1\"";
        command
            .args(["-c", script, "sh"])
            .arg(self.programs.join("rabbitmq-server"));
        command
    }

    fn with_environment(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("RABBITMQ_") || name.starts_with("ERL_") {
                command.env_remove(name);
            }
        }
        let dir = self.private.dir();
        command
            .env("RABBITMQ_NODENAME", NODE)
            .env("RABBITMQ_DIST_PORT", self.ports.node.to_string())
            .env("ERL_EPMD_PORT", self.ports.epmd.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // A shell that stays in between would not pass signals on.
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .env("RABBITMQ_SERVER_START_ARGS", "-noinput");
        for (name, file) in [
            ("RABBITMQ_CONF_ENV_FILE", "no-environment"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "no-advanced.config"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_MNESIA_BASE", "data"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_SCHEMA_DIR", "schema"),
        ] {
            command.env(name, dir.join(file));
        }
        command
    }
}

fn programs() -> Result<PathBuf> {
    let dir = PathBuf::from(DEBIAN);
    let is_there = || dir.join("rabbitmq-server").is_file();
    if !is_there() {
        debian::install(&["rabbitmq-server"])
            .map_err(|error| Error::new(format!("RabbitMQ: {error}")))?;
    }
    match is_there() {
        true => Ok(dir),
        false => Err(Error::new(format!(
            "package rabbitmq-server is installed, but there is no {DEBIAN}/rabbitmq-server"
        ))),
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(Error::doing(format!("writing {}", file.display())))
}

/// Users and what they may do.
fn definitions() -> String {
    let users = RabbitMq::USERS
        .map(|(name, password)| {
            format!(r#"{{"name":"{name}","password":"{password}","tags":"administrator"}}"#)
        })
        .join(",");
    let permissions = RabbitMq::USERS
        .map(|(name, _)| {
            let may = if name == "reader" { "" } else { ".*" };
            format!(
                r#"{{"user":"{name}","vhost":"/","configure":"{may}","write":"{may}","read":".*"}}"#
            )
        })
        .join(",");
    format!(r#"{{"vhosts":[{{"name":"/"}}],"users":[{users}],"permissions":[{permissions}]}}"#)
}

/// Whether it answers as AMQP servers do.
fn says_hello(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let patience = Duration::from_secs(1);
    let Ok(mut stream) = TcpStream::connect_timeout(&address, patience) else {
        return false;
    };
    let mut first = [0];
    stream.set_read_timeout(Some(patience)).is_ok()
        && stream.write_all(b"AMQP\0\0\x09\x01").is_ok()
        && stream.read_exact(&mut first).is_ok()
        && first == [1]
}
