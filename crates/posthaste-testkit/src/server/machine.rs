//! A machine of its own, as far as the network can tell, that can vanish: its connections are not closed, and nobody
//! is told.

use super::{Error, Result, account, debian, program};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Tells a test that it runs in a process with a network of its own.
const OWN_NETWORK: &str = "POSTHASTE_TEST_OWN_NETWORK";
/// Where the two ends of the cable are. Nobody else is in this network.
const HERE: &str = "198.18.0.1";
const THERE: &str = "198.18.0.2";

/// Whether this process has a network of its own, for a [`Machine`]. If not, it runs the test of this full name in one
/// that has: that needs root, or a system that lets users have namespaces.
pub fn has_own_network(test: &str) -> Result<bool> {
    let ip = Ip::find()?;
    if std::env::var_os(OWN_NETWORK).is_some() {
        ip.run(&["link", "set", "lo", "up"])?;
        return Ok(true);
    }
    let mut command = Command::new("unshare");
    if !account::we_are_root()? {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let status = command
        .arg("--net")
        .arg(std::env::current_exe().map_err(Error::doing("looking for the test's program"))?)
        .args(["--exact", test, "--nocapture"])
        .env(OWN_NETWORK, "1")
        .status()
        .map_err(Error::doing("running `unshare`, of util-linux"))?;
    match status.success() {
        true => Ok(false),
        false => Err(Error::new(format!(
            "{test} failed in a network of its own, or could not have one, which takes root"
        ))),
    }
}

/// Another machine, connected to this one by a cable. All of it is gone when this is dropped.
#[derive(Debug)]
pub struct Machine {
    /// Whoever has its network, until nobody holds the other end of its standard input.
    holder: Child,
    ip: Ip,
}

impl Machine {
    /// Starts it, in a process that [has its own network](has_own_network).
    pub fn start() -> Result<Self> {
        let ip = Ip::find()?;
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::doing("running `unshare`, of util-linux"))?;
        if let Some(said) = holder.stdout.take() {
            // It has its network once it says something.
            let _ = BufReader::new(said).read_line(&mut String::new());
        }
        let pid = holder.id().to_string();
        let machine = Self { holder, ip };
        let cable = ["link", "add", "here", "type", "veth", "peer", "name"];
        machine
            .ip
            .run(&[&cable[..], &["there", "netns", &pid]].concat())?;
        let address = |address| format!("{address}/30");
        machine
            .ip
            .run(&["address", "add", &address(HERE), "dev", "here"])?;
        machine.ip.run(&["link", "set", "here", "up"])?;
        machine.there(&["address", "add", &address(THERE), "dev", "there"])?;
        machine.come_back()?;
        Ok(machine)
    }

    /// This host, as seen from there.
    pub fn host(&self) -> &'static str {
        HERE
    }

    /// A command that runs there. Files and processes are those of this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.holder.id()))
            .arg(program);
        command
    }

    /// Pulls the cable.
    pub fn vanish(&self) -> Result<()> {
        self.there(&["link", "set", "there", "down"])
    }

    /// Puts the cable back.
    pub fn come_back(&self) -> Result<()> {
        self.there(&["link", "set", "there", "up"])
    }

    fn there(&self, arguments: &[&str]) -> Result<()> {
        let mut command = self.command(&self.ip.0);
        done(command.args(arguments))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// The program `ip`, of iproute2.
#[derive(Debug)]
struct Ip(PathBuf);

impl Ip {
    fn find() -> Result<Self> {
        program::find("ip", || debian::install(&["iproute2"])).map(Self)
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        done(Command::new(&self.0).args(arguments))
    }
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(Error::doing("running `ip`"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("{command:?} failed: {}", why.trim())))
}
