//! A private NATS server with JetStream: as durable as its version can be.

use super::account::Account;
use super::private::{Private, controls};
use super::watchdog::Habits;
use super::{Error, Options, Result, debian, port, program};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(60);
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
const PORT_TAKEN: &str = "address already in use";

const HABITS: Habits = Habits {
    name: "nats",
    // Nobody will read its data again.
    ending: "KILL",
};

/// A NATS server of one's own, on a free port of 127.0.0.1, in a temporary directory.
///
/// JetStream is on. Versions that can (2.10 and later) write every message to the disk before they
/// acknowledge it; older ones do so every other minute, so that only a machine that fails loses
/// anything. The server and its directory are gone when this value is dropped or its process ends.
#[derive(Debug)]
pub struct Nats {
    private: Private,
    program: PathBuf,
    syncs: bool,
    settings: Vec<(String, String)>,
    port: u16,
}

controls!(Nats);

impl Nats {
    /// The address of a server that all tests of this process share: the one that
    /// `POSTHASTE_TEST_NATS` names, else one that is started when the first test asks for it.
    ///
    /// # Panics
    /// When there is none and none can be started.
    pub fn shared() -> String {
        static SHARED: OnceLock<Nats> = OnceLock::new();
        match std::env::var(super::TEST_NATS) {
            Ok(url) if !url.is_empty() => url,
            _ => SHARED
                .get_or_init(|| Self::start(Options::new()).expect("a NATS server for the tests"))
                .url(),
        }
    }

    /// Starts a server with no streams; returns when it answers. A setting is a line of its
    /// configuration, such as `authorization` with `{ token: "secret" }`. The program is looked for on
    /// the `PATH`, and Debian's package is installed if need be (as root).
    pub fn start(options: Options) -> Result<Self> {
        let program = match options.programs {
            Some(dir) => dir.join("nats-server"),
            None => program::find("nats-server", || debian::install(&["nats-server"]))?,
        };
        let private = Private::new(Account::unprivileged("nats")?, HABITS)?;
        program::write_files(private.dir(), &options.files)?;
        let server = Self {
            private,
            syncs: can_sync(&program)?,
            program,
            settings: options.settings,
            port: port::free()?,
        };
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            server.port = port::free()?;
            Ok(())
        })
    }

    /// Starts this many servers that are one cluster: streams can have replicas on all of them, once it has
    /// found its leader.
    pub fn cluster(count: usize) -> Result<Vec<Self>> {
        let ports = (0..count)
            .map(|_| port::free())
            .collect::<Result<Vec<_>>>()?;
        let routes: Vec<String> = ports
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        let routes = routes.join(", ");
        let member = |port: &u16| {
            let cluster =
                format!("{{ name: posthaste, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}");
            let options = Options::new().setting("server_name", format!("s{port}"));
            Self::start(options.setting("cluster", cluster))
        };
        ports.iter().map(member).collect()
    }

    /// Its address, the same after every restart.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its name, if it is one of a cluster.
    pub fn name(&self) -> Option<&str> {
        let mut settings = self.settings.iter();
        let found = settings.find(|(name, _)| name == "server_name");
        found.map(|(_, value)| value.as_str())
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets a server setting for the next start.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.settings.push((name.into(), value.to_string()));
    }

    /// Starts a stopped or killed server again on the same data and port.
    pub fn start_again(&mut self) -> Result<()> {
        let file = self.private.dir().join("server.conf");
        fs::write(&file, self.configuration())
            .map_err(Error::doing("writing the server's configuration"))?;
        let mut command = self.private.command(&self.program);
        command.arg("--config").arg(file);
        let port = self.port;
        self.private.start(command, READY_WITHIN, |_| greets(port))
    }

    fn configuration(&self) -> String {
        let sync = if self.syncs {
            ", sync_interval: always"
        } else {
            ""
        };
        let mut text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream: {{ store_dir: \"data\"{sync} }}\n",
            self.port
        );
        for (name, value) in &self.settings {
            text += &format!("{name}: {value}\n");
        }
        text
    }
}

/// Whether this version can write each message to the disk: `nats-server: v2.10.1`.
fn can_sync(program: &Path) -> Result<bool> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(Error::doing(format!("running {}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text
        .rsplit('v')
        .next()
        .unwrap_or_default()
        .split('.')
        .map(|part| part.trim().parse::<u32>().unwrap_or(0));
    Ok((numbers.next(), numbers.next()) >= (Some(2), Some(10)))
}

/// Whether it says who it is, which it does first, and only once its streams are there.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut greeting = [0; 5];
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .is_ok()
        && stream.read_exact(&mut greeting).is_ok()
        && &greeting == b"INFO "
}
