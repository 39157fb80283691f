//! What every private server needs: a directory that is cleaned up whatever happens, an
//! unprivileged account, a log, signals, and waiting until it is ready. Knows no particular server.

use super::watchdog::{FUNCTIONS, Habits, Watchdog};
use super::{Error, Result, account::Account};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOG_LINES_SHOWN: usize = 20;

/// A private place for one server, and the server's main process while it runs.
#[derive(Debug)]
pub(super) struct Private {
    // Declared before `main`: the watchdog ends the server, then its main process is reaped.
    watchdog: Watchdog,
    account: Account,
    main: Main,
}

impl Private {
    /// Makes the place, with a watchdog over it, in the directory for temporary files.
    pub(super) fn new(account: Account, habits: Habits) -> Result<Self> {
        Ok(Self {
            watchdog: Watchdog::start(&account, &std::env::temp_dir(), habits)?,
            account,
            main: Main(None),
        })
    }

    pub(super) fn dir(&self) -> &Path {
        self.watchdog.dir()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir().join("server.log")
    }

    /// The process id of the server, if it was started and not seen to end.
    pub(super) fn pid(&self) -> Option<u32> {
        self.main.0.as_ref().map(Child::id)
    }

    /// A command that runs as the server's account in its directory, and in a process group of its
    /// own: Ctrl-C in the terminal must not reach it, for it would die without tidying up.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir())
            .env("HOME", self.dir())
            .stdin(Stdio::null())
            .process_group(0);
        self.account.apply(&mut command);
        command
    }

    /// A command that the watchdog lets finish, for short work that leaves things behind when it is
    /// interrupted.
    pub(super) fn uninterrupted(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command("flock");
        command.arg(self.dir().join("uninterrupted")).arg(program);
        command
    }

    /// Starts `server` (from [`Private::command`]), which must stay in the foreground, with its
    /// output in the log, and waits until `ready` says so. One that still runs is not started again.
    pub(super) fn start(
        &mut self,
        mut server: Command,
        patience: Duration,
        mut ready: impl FnMut(&Self) -> bool,
    ) -> Result<()> {
        if !self.ended()? {
            return Err(Error::new("the server still runs: stop or kill it first"));
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(Error::doing("opening the server's log"))?;
        let name = server.get_program().to_string_lossy().into_owned();
        let child = server
            .stdout(log.0)
            .stderr(log.1)
            .spawn()
            .map_err(Error::doing(format!("starting {name}")))?;
        self.main.0 = Some(child);

        let deadline = Instant::now() + patience;
        while !ready(self) {
            if self.ended()? {
                return Err(self.failure(format!("{name} ended instead of starting")));
            }
            if Instant::now() > deadline {
                return Err(self.failure(format!("{name} was not ready within {patience:?}")));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Sends `signal` to the main process and waits until it has ended.
    pub(super) fn stop(&mut self, signal: &str, patience: Duration) -> Result<()> {
        self.signal(signal)?;
        // A frozen one would not hear of it.
        self.signal("CONT")?;
        let deadline = Instant::now() + patience;
        while !self.ended()? {
            if Instant::now() > deadline {
                return Err(self.failure(format!(
                    "the server did not stop within {patience:?} of SIG{signal}"
                )));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Sends `signal` to the main process, if it runs.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        match self.pid() {
            Some(pid) => self.shell(&format!("kill -{signal} {pid}")),
            None => Ok(()),
        }
    }

    /// Sends `signal` to every process of the server.
    pub(super) fn signal_all(&self, signal: &str) -> Result<()> {
        self.shell(&format!("kill -{signal} $(living)"))
    }

    /// Kills every process of the server, as a power cut would, and waits until all are gone.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.shell("sweep KILL 200")?;
        self.main.reap();
        Ok(())
    }

    /// Whether the main process is not running; forgets it once it has ended.
    pub(super) fn ended(&mut self) -> Result<bool> {
        if let Some(child) = &mut self.main.0 {
            let status = child
                .try_wait()
                .map_err(Error::doing("waiting for the server"))?;
            if status.is_none() {
                return Ok(false);
            }
            self.main.0 = None;
        }
        Ok(true)
    }

    /// The end of the log, and what it means that the log ends there.
    fn failure(&self, what: String) -> Error {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        Error::new(format!("{what}; its log ends with\n{}", tail.join("\n")))
    }

    /// Runs `script` as the server's account, with the watchdog's functions.
    fn shell(&self, script: &str) -> Result<()> {
        let output = self
            .command("sh")
            .args(["-c", &format!("dir=$1\n{FUNCTIONS}\n{script}"), "sh"])
            .arg(self.dir())
            // Not in the server's directory, else it would count as one of its processes.
            .current_dir("/")
            .output()
            .map_err(Error::doing("running `sh`"))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(Error::new(format!("`{script}` failed: {}", why.trim())))
    }
}

/// What can be done to a server that has a `private`, whichever it is.
macro_rules! controls {
    ($server:ty) => {
        impl $server {
            /// Stops in order.
            pub fn stop(&mut self) -> Result<()> {
                self.private.stop("TERM", STOPPED_WITHIN)
            }

            /// Kills every process of it with SIGKILL, so that the next start has to recover.
            pub fn kill(&mut self) -> Result<()> {
                self.private.kill()
            }

            /// Freezes it (SIGSTOP): it keeps its connections, and answers nothing.
            pub fn pause(&self) -> Result<()> {
                self.private.signal("STOP")
            }

            /// Lets it go on.
            pub fn resume(&self) -> Result<()> {
                self.private.signal("CONT")
            }
        }
    };
}
pub(super) use controls;

/// The main process, reaped when dropped so that no zombie stays.
#[derive(Debug)]
struct Main(Option<Child>);

impl Main {
    fn reap(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Main {
    fn drop(&mut self) {
        self.reap();
    }
}
