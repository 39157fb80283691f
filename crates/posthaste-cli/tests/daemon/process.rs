//! The program while it runs, and what it has answered once it has ended.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::place::SECRET;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        let answer = Self {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
        answer
    }

    /// Standard output of a command that is to succeed.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Standard error of a command that is to fail in this way.
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }

    /// Lines of JSON of a command that is to succeed.
    pub(crate) fn json(self) -> Vec<Value> {
        json_lines(&self.done())
    }
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {line}"));
    text.lines().map(line).collect()
}

/// A running `posthaste run`. Killed when it is dropped.
pub(crate) struct Daemon {
    process: Child,
    /// Not yet read, if the test wants it so.
    unread: Option<ChildStdout>,
    out: Lines,
    log: Lines,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Daemon {
    pub(crate) fn start(command: Command) -> Self {
        let mut daemon = Self::start_unread(command);
        daemon.read();
        daemon
    }

    /// Nobody reads its standard output yet.
    pub(crate) fn start_unread(mut command: Command) -> Self {
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, log) = (Lines::default(), Lines::default());
        collect(process.stderr.take().unwrap(), log.clone());
        Self {
            unread: process.stdout.take(),
            process,
            out,
            log,
        }
    }

    /// Begins to read what it delivers.
    pub(crate) fn read(&mut self) {
        if let Some(stdout) = self.unread.take() {
            collect(stdout, self.out.clone());
        }
    }

    /// Whether it has begun to deliver what nobody reads yet.
    pub(crate) fn has_begun(&self) -> bool {
        let unread = self.unread.as_ref().expect("not read yet");
        rustix::io::ioctl_fionread(unread).unwrap() > 0
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Waits until its log has a line with this.
    pub(crate) fn says(&self, text: &str) {
        self.until(&format!("says {text:?}"), || self.log().contains(text));
    }

    /// Waits until its standard output has a line with this.
    pub(crate) fn prints(&self, text: &str) {
        self.until(&format!("prints {text:?}"), || {
            let lines = self.out.lock().unwrap();
            lines.iter().any(|line| line.contains(text))
        });
    }

    /// The events that it has delivered so far.
    pub(crate) fn delivered(&self) -> Vec<Value> {
        json_lines(&self.out.lock().unwrap().join("\n"))
    }

    /// Waits until it has delivered this many different events.
    pub(crate) fn delivers(&self, count: usize) {
        self.until(&format!("delivers {count}"), || {
            ids(&self.delivered()).len() >= count
        });
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(
                started.elapsed() < PATIENCE,
                "waited for: {what}\nlog:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(self) -> Answer {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(mut self) -> Answer {
        self.read();
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "it runs on:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        };
        // The readers hold a copy each until they have come to the end.
        while Arc::strong_count(&self.out) + Arc::strong_count(&self.log) > 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = |lines: &Lines| {
            let lines = lines.lock().unwrap();
            lines.iter().map(|line| format!("{line}\n")).collect()
        };
        let answer = Answer {
            code: status.code().expect("an exit code"),
            out: text(&self.out),
            err: text(&self.log),
        };
        assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
        answer
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) -> Vec<Value> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while Arc::strong_count(&self.out) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Killed in the midst of a line, it leaves half of one.
        let lines = self.out.lock().unwrap();
        let whole = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        whole.collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn collect(stream: impl Read + Send + 'static, lines: Lines) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            lines.lock().unwrap().push(line.unwrap());
        }
    });
}

/// The ids of what was delivered.
pub(crate) fn ids(events: &[Value]) -> BTreeSet<String> {
    let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
    events.iter().map(id).collect()
}
