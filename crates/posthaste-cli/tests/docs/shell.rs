//! A shell in a directory of its own, with `posthaste` on its path.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const END: &str = "--- end of a command";

pub struct Shell {
    bash: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

impl Shell {
    pub fn start(environment: &[(&str, String)]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_posthaste"));
        let here = program.parent().expect("a program is in a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut bash = Command::new("bash")
            .current_dir(directory.path())
            .env("PATH", format!("{}:{path}", here.display()))
            .env_remove("NO_COLOR")
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut input = bash.stdin.take().expect("piped");
        let output = BufReader::new(bash.stdout.take().expect("piped"));
        // What people see is both, in the order in which it came. What runs on ends with the shell.
        writeln!(input, "exec 2>&1; trap 'kill $(jobs -p) 2>/dev/null' EXIT").expect("bash reads");
        Self {
            bash,
            input,
            output,
            directory,
        }
    }

    pub fn write(&mut self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).expect("the file is written");
    }

    /// Runs a command, and gives back all that it printed.
    pub fn run(&mut self, command: &str) -> String {
        writeln!(
            self.input,
            "{{ {command}\n}} </dev/null; printf '\\n%s\\n' '{END}'"
        )
        .expect("bash reads");
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("bash answers");
            assert!(read > 0, "the shell ended in: {command}\n{printed}");
            if line.trim_end() == END {
                printed.pop();
                return printed;
            }
            printed.push_str(&line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "exit");
        let _ = self.bash.wait();
    }
}
