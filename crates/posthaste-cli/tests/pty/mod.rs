//! A real terminal with somebody at it, who waits for what is shown and types.
#![allow(dead_code, reason = "not every test program types lines")]

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal, and the program that runs in it.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Screen>,
    child: Child,
    /// How much of what was shown has been looked at.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    shown: Mutex<Shown>,
    more: Condvar,
}

#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Terminal {
    /// Opens a terminal, and runs the command in it.
    pub(crate) fn open(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        // Makes the terminal the one that Ctrl-C comes from.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program());
        session.args(command.get_args());
        // Whatever the tests are run in, this is a terminal that can do what terminals can.
        session.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            session.current_dir(folder);
        }
        let child = session
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        drop(session);
        let keyboard = File::from(master);
        let screen = Arc::new(Screen::default());
        let (glass, shown) = (keyboard.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || shown.show(glass));
        Self {
            keyboard,
            screen,
            child,
            seen: 0,
        }
    }

    /// Waits until the text is shown. Gives back what came before it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let found = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .position(|at| at == text.as_bytes())
        };
        let (before, after) = self.screen.wait(self.seen, text, |bytes, _| {
            found(bytes).map(|at| (lossy(&bytes[..at]), at + text.len()))
        });
        self.seen += after;
        before
    }

    /// Types a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.keyboard
            .write_all(format!("{text}\n").as_bytes())
            .unwrap();
    }

    /// Presses a letter together with the control key.
    pub(crate) fn control(&mut self, letter: char) {
        self.keyboard.write_all(&[letter as u8 & 0x1f]).unwrap();
    }

    /// Waits until the program has ended. Gives back its exit code and what else was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let rest = self.screen.wait(self.seen, "the end", |bytes, is_over| {
            is_over.then(|| lossy(bytes))
        });
        let status = self.child.wait().unwrap();
        (status.code().expect("it was not killed"), rest)
    }
}

impl Screen {
    /// Until nobody has the terminal open any more, which is an error when it is read.
    fn show(&self, mut glass: File) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = glass.read(&mut buffer) {
            self.shown.lock().unwrap().bytes.extend(&buffer[..count]);
            self.more.notify_all();
        }
        self.shown.lock().unwrap().is_over = true;
        self.more.notify_all();
    }

    fn wait<T>(&self, from: usize, what: &str, look: impl Fn(&[u8], bool) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut shown = self.shown.lock().unwrap();
        loop {
            if let Some(found) = look(&shown.bytes[from..], shown.is_over) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !shown.is_over && !left.is_zero(),
                "waited for {what:?}, and saw {}",
                lossy(&shown.bytes[from..])
            );
            shown = self.more.wait_timeout(shown, left).unwrap().0;
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
