//! A daemon that answers operators, with a token for each role, on either database.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste_testkit::server::{self, Proxy};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::{Ask, Told};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const ROLES: [&str; 3] = ["viewer-no-payload", "viewer", "operator"];

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A folder with a configuration, a database, and tokens.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) table: String,
    pub(crate) url: String,
    /// By the places of their roles.
    pub(crate) tokens: Vec<String>,
}

/// Makes a test of each function, for every database.
macro_rules! every_database {
    ($($test:ident)*) => {
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::scene::Scene::postgres());
            })*
        }
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::scene::Scene::sqlite());
            })*
        }
    };
}
pub(crate) use every_database;

impl Scene {
    pub(crate) fn postgres() -> Self {
        let table = format!("t{}.orders_outbox", Uuid::new_v4().simple());
        Self::new(server::postgres_url(), table)
    }

    pub(crate) fn sqlite() -> Self {
        Self::new(
            "sqlite:shop.db".to_owned(),
            "public.orders_outbox".to_owned(),
        )
    }

    fn new(url: String, table: String) -> Self {
        let mut scene = Self {
            folder: tempfile::tempdir().unwrap(),
            table,
            url,
            tokens: Vec::new(),
        };
        let mut lines = String::from("# who may call\n");
        for role in ROLES {
            let made = scene.posthaste(&["token", "create", role, "--role", role, "--json"]);
            let made: Value = serde_json::from_str(&made).unwrap();
            scene
                .tokens
                .push(made["token"].as_str().unwrap().to_owned());
            lines.push_str(made["line"].as_str().unwrap());
            lines.push('\n');
        }
        std::fs::write(scene.file("tokens"), lines).unwrap();
        scene.configure("tokens_file = \"tokens\"\nrate_limit = 10000", "", STDOUT);
        scene.posthaste(&["migrate"]);
        scene
    }

    /// From now on, configurations lead to the database through a network that can break. Gives back its
    /// port, too.
    pub(crate) fn through_a_network(&mut self) -> (Proxy, u16) {
        let at = self.url.rfind(':').unwrap() + 1;
        let digits = self.url[at..].bytes().take_while(u8::is_ascii_digit);
        let end = at + digits.count();
        let port = self.url[at..end].parse().unwrap();
        let proxy = Proxy::start(port).unwrap();
        let inside = proxy.port().to_string();
        self.url.replace_range(at..end, &inside);
        (proxy, port)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration: more for `[admin]`, for the outbox, and sinks.
    pub(crate) fn configure(&self, admin: &str, outbox: &str, sinks: &str) {
        let (url, table) = (&self.url, &self.table);
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n{admin}\n\n[database]\nurl = \"{url}\"\n\n\
             [[outbox]]\ntable = \"{table}\"\n{outbox}\n\n{sinks}\n"
        );
        std::fs::write(self.file("posthaste.toml"), text).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// What a command that is to succeed prints.
    pub(crate) fn posthaste(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn enqueue(&self, topic: &str, payload: &str, count: usize) {
        self.posthaste(&["enqueue", topic, payload, "--count", &count.to_string()]);
    }

    /// A daemon that has its database.
    pub(crate) fn run(&self) -> Daemon {
        let daemon = self.begin();
        eventually("it is ready", || {
            daemon.ask("GET", "/readyz").send().status == 200
        });
        daemon
    }

    /// A daemon that may have none.
    pub(crate) fn begin(&self) -> Daemon {
        Daemon::start(self.command(&["run"]), &self.table, &self.tokens)
    }
}

pub(crate) const STDOUT: &str = "[sink.log]\ntype = \"stdout\"";

/// A running daemon, to be asked. Killed when it is dropped.
pub(crate) struct Daemon {
    process: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Such as `127.0.0.1:7411`.
    pub(crate) address: String,
    table: String,
    tokens: Vec<String>,
}

impl Daemon {
    pub(crate) fn start(mut command: Command, table: &str, tokens: &[String]) -> Self {
        let mut process = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stream, lines) = (process.stderr.take().unwrap(), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                lines.lock().unwrap().push(line.unwrap());
            }
        });
        let mut daemon = Self {
            process,
            log,
            address: String::new(),
            table: table.to_owned(),
            tokens: tokens.to_vec(),
        };
        let said = daemon.says("answering operators");
        let url = said.split("url=").nth(1).unwrap().trim_matches('"');
        daemon.address = url
            .split("://")
            .nth(1)
            .unwrap()
            .trim_matches('"')
            .to_owned();
        daemon
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Waits until its log has a line with this, and gives the line.
    pub(crate) fn says(&self, text: &str) -> String {
        let started = Instant::now();
        loop {
            let line = self
                .log
                .lock()
                .unwrap()
                .iter()
                .find(|it| it.contains(text))
                .cloned();
            if let Some(line) = line {
                return line;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it does not say {text}:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks as anybody.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(&self.address, method, path)
    }

    /// Asks about the outbox, as an operator.
    pub(crate) fn get(&self, path: &str) -> Told {
        self.ask("GET", &self.path(path)).by(&self.tokens[2]).send()
    }

    /// Does something to the outbox, as an operator.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Told {
        let ask = self.ask("POST", &self.path(path)).by(&self.tokens[2]);
        ask.json(body).send()
    }

    /// `/api/v1/outboxes/…/…`, unless it is a path from the root.
    pub(crate) fn path(&self, path: &str) -> String {
        match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/api/v1/outboxes/{}/{path}", self.table),
        }
    }

    /// Waits until so many events have this status.
    pub(crate) fn has(&self, count: usize, status: &str) {
        eventually(&format!("{count} {status}"), || {
            let page = self
                .get(&format!("events?status={status}&limit=500"))
                .done();
            page["events"].as_array().unwrap().len() == count
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(started.elapsed() < PATIENCE, "it runs on:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
