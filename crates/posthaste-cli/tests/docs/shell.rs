//! A shell in a directory of its own, with `posthaste` on its path, that prints to a terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Far more than any command of a guide takes.
const PATIENCE: Duration = Duration::from_secs(60);
const END: &str = "--- end of a command";

pub(crate) struct Shell {
    bash: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    directory: tempfile::TempDir,
}

impl Shell {
    pub(crate) fn start(programs: &Path, environment: &[(&str, String)]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_posthaste"));
        let here = program.parent().expect("a program is in a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let directory = tempfile::tempdir().unwrap();
        let (screen, terminal) = terminal();
        let mut bash = Command::new("bash");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
            bash.env_remove(name);
        }
        let mut bash = bash
            .current_dir(directory.path())
            .env(
                "PATH",
                format!("{}:{}:{path}", here.display(), programs.display()),
            )
            .env("NO_COLOR", "1")
            .env("USER", "ann")
            .env_remove("SUDO_USER")
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::piped())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .expect("bash starts");
        let mut input = bash.stdin.take().expect("piped");
        let (seen, lines) = channel();
        std::thread::spawn(move || {
            // The terminal is gone with the last program that has it: that is an error, not an end.
            let whole = BufReader::new(screen).lines().map_while(Result::ok);
            whole.map(|line| seen.send(line)).find(Result::is_err)
        });
        // What runs on ends with the shell.
        writeln!(input, "trap 'kill $(jobs -p) 2>/dev/null' EXIT").unwrap();
        Self {
            bash,
            input,
            lines,
            directory,
        }
    }

    pub(crate) fn write(&mut self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Runs a command, and gives back all that it printed.
    pub(crate) fn run(&mut self, command: &str) -> String {
        // In braces, and not in brackets: what it changes stays changed.
        let run = format!("{{ {command}\n}} </dev/null; printf '\\n%s\\n' '{END}'");
        writeln!(self.input, "{run}").expect("bash reads");
        let mut printed = String::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("this does not end: {command}\n{printed}");
            };
            let line = line.replace('\r', "");
            if line == END {
                // The line that was begun to be sure that the end has one of its own.
                printed.pop();
                return printed;
            }
            printed.push_str(&format!("{line}\n"));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // One that is stuck in a command does not read on.
        match std::thread::panicking() {
            true => drop(self.bash.kill()),
            false => drop(writeln!(self.input, "exit")),
        }
        let _ = self.bash.wait();
    }
}

/// Both ends of a new terminal: what is seen, and what programs write to.
fn terminal() -> (File, File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let path = Path::new(name.to_str().unwrap());
    let terminal = File::options().read(true).write(true).open(path).unwrap();
    (File::from(screen), terminal)
}
