//! The watchdog of one private server: a small shell process that makes the server's directory,
//! waits for its owner to go, then ends whatever still runs there and removes the directory.
//!
//! It waits on a pipe that only the owner holds, so a normal drop, a panic, Ctrl-C and `kill -9`
//! of the owner all look the same to it: end of file. It runs as the server's account, so that it
//! may look at and signal the server's processes and remove its files, and nothing else.

use super::{Error, Result, account::Account};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Shell functions about `$dir`. A process belongs to the server when it works in its directory:
/// unlike process groups and parents, that survives `setsid` and the death of the parent.
pub(super) const FUNCTIONS: &str = r#"
living() {
    find /proc/[0-9]*/cwd -maxdepth 0 -lname "$dir*" 2>/dev/null | cut -d/ -f3
}

# sweep SIGNAL TRIES: signals the living until there are none.
sweep() {
    tries=$2
    while pids=$(living); [ -n "$pids" ]; do
        [ "$tries" -gt 0 ] || return 1
        tries=$((tries - 1))
        note_shared_memory
        kill -"$1" $pids 2>/dev/null
        sleep 0.05
    done
}

# System V shared memory outlives a process that is killed. Its id is shown as an inode.
note_shared_memory() {
    for pid in $pids; do cat "/proc/$pid/maps" 2>/dev/null; done |
        awk '$6 ~ "^/SYSV" { print $5 }' | sort -u >>"$dir/shared-memory"
}

free_shared_memory() {
    [ -e "$dir/shared-memory" ] || return 0
    for id in $(sort -u "$dir/shared-memory"); do ipcrm -m "$id"; done
}
"#;

/// $1 parent directory, $2 name of the server, $3 signal that ends it.
const WATCH: &str = r#"
umask 077
trap '' HUP INT QUIT TERM PIPE
dir=$(mktemp -d "$1/posthaste-$2-XXXXXX") && dir=$(cd "$dir" && pwd -P) || exit 1
printf '%s\n' "$dir"
exec >/dev/null 2>&1
while read -r _; do :; done
flock --wait 30 "$dir/uninterrupted" true
sweep "$3" 100 || sweep KILL 100
free_shared_memory
rm -rf "$dir"
"#;

/// How the watchdog of one kind of server behaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Part of the directory's name.
    pub(super) name: &'static str,
    /// The signal that ends the server at once; what ignores it for five seconds is killed.
    pub(super) ending: &'static str,
}

/// A running watchdog. Dropping it ends the server and removes the directory before it returns.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    dir: PathBuf,
}

impl Watchdog {
    /// Starts a watchdog, which makes a new directory in `parent`.
    pub(super) fn start(account: &Account, parent: &Path, habits: Habits) -> Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{FUNCTIONS}{WATCH}"), "posthaste-watchdog"])
            .arg(parent)
            .args([habits.name, habits.ending])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its own group, so that Ctrl-C in the terminal does not reach it.
            .process_group(0);
        account.apply(&mut command);
        let mut process = command
            .spawn()
            .map_err(Error::doing("starting the watchdog with `sh`"))?;
        let said = read_all(process.stdout.take());
        let complaint = read_all(process.stderr.take());
        let dir = PathBuf::from(said.trim_end_matches('\n'));
        if dir.as_os_str().is_empty() {
            let _ = process.wait();
            return Err(Error::new(format!(
                "user `{}` cannot make a directory in {}; \
                 set TMPDIR to one where it can, on a real disk ({})",
                account.name(),
                parent.display(),
                complaint.trim()
            )));
        }
        Ok(Self { process, dir })
    }

    /// The directory it guards.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Reads until the script closes this end, which it does before it starts to wait.
fn read_all(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    if let Some(mut stream) = stream {
        // An unreadable answer is an empty one, which the caller reports.
        let _ = stream.read_to_string(&mut text);
    }
    text
}
