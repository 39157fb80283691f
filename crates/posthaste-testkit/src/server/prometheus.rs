//! A private Prometheus: scrapes what it is told to, and evaluates the rules it is given.

use super::account::Account;
use super::private::Private;
use super::watchdog::Habits;
use super::{Error, Result, debian, port};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(60);

const HABITS: Habits = Habits {
    name: "prometheus",
    ending: "TERM",
};

/// A Prometheus of one's own, on a free port of 127.0.0.1, with its data in a temporary directory.
#[derive(Debug)]
pub struct Prometheus {
    private: Private,
    port: u16,
}

impl Prometheus {
    /// Starts one that scrapes `target` (`127.0.0.1:7411`) each second with `token`, and evaluates
    /// the rules of `rules`. Debian's package is installed if need be (as root).
    pub fn start(target: &str, token: &str, rules: &str) -> Result<Self> {
        Self::start_with(&[target], token, rules)
    }

    /// The same with several targets.
    pub fn start_with(targets: &[&str], token: &str, rules: &str) -> Result<Self> {
        install()?;
        let private = Private::new(Account::unprivileged("prometheus")?, HABITS)?;
        let mut server = Self {
            private,
            port: port::free()?,
        };
        let write = |name: &str, text: &str| {
            fs::write(server.private.dir().join(name), text)
                .map_err(Error::doing(format!("writing {name}")))
        };
        write("rules.yaml", rules)?;
        let targets = targets.iter().map(|target| format!("'{target}'"));
        let targets = targets.collect::<Vec<_>>().join(", ");
        // Rules of half a minute would keep a test waiting: every group is evaluated each second.
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yaml]\n\
             scrape_configs:\n\
             - job_name: posthaste\n\
             \x20 authorization: {{credentials: {token}}}\n\
             \x20 static_configs: [{{targets: [{targets}]}}]\n"
        );
        write("prometheus.yaml", &configuration)?;
        let mut command = server.private.command("prometheus");
        command
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{}", server.port));
        let port = server.port;
        let ready = move |_: &Private| ask(port, "/-/ready").is_ok_and(|it| it.contains("200 OK"));
        server.private.start(command, READY_WITHIN, ready)?;
        Ok(server)
    }

    /// What it answers to a GET of this path: the body.
    pub fn get(&self, path: &str) -> Result<String> {
        let answer = ask(self.port, path).map_err(Error::doing("asking Prometheus"))?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        body.map(str::to_owned)
            .ok_or_else(|| Error::new("Prometheus did not answer in HTTP"))
    }

    /// Runs `promtool` with these arguments in a folder, and gives what it printed.
    pub fn promtool(folder: &Path, arguments: &[&str]) -> Result<String> {
        install()?;
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(folder)
            .output()
            .map_err(Error::doing("running promtool"))?;
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        match output.status.success() {
            true => Ok(told),
            false => Err(Error::new(told)),
        }
    }
}

fn install() -> Result<()> {
    let there = Command::new("prometheus").arg("--version").output();
    match there {
        Ok(output) if output.status.success() => Ok(()),
        _ => debian::install(&["prometheus"]),
    }
}

/// HTTP/1.0: the answer ends with the connection, and is in one piece.
fn ask(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
