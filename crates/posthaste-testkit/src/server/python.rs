//! Other people's clients, in Python: what a sink has sent is read back by code that is not ours.

use super::{Error, Result, cache, debian};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

const REQUIREMENTS: &str = include_str!("../../python/requirements.txt");

/// Runs `script` with `arguments` in a Python that has the clients of `python/requirements.txt`,
/// and gives what it printed.
///
/// The clients are installed once, in the user's cache, from PyPI.
pub fn python(script: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = command(script, arguments)?
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing("running Python"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Error::new(format!(
            "a client in Python failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// The command that does so.
pub(super) fn command(script: &str, arguments: &[&str]) -> Result<Command> {
    static INTERPRETER: LazyLock<Result<PathBuf>> = LazyLock::new(|| interpreter(REQUIREMENTS));
    let interpreter = INTERPRETER
        .as_ref()
        .map_err(|error| Error::new(error.to_string()))?;
    let mut command = Command::new(interpreter);
    command.args(["-c", script]).args(arguments);
    Ok(command)
}

/// The Python of a virtual environment that has these packages, which is made when it is missing.
pub(super) fn interpreter(requirements: &str) -> Result<PathBuf> {
    let home = cache::once("python", requirements, |home| install(home, requirements))?;
    Ok(home.join("bin/python"))
}

fn install(home: &Path, requirements: &str) -> Result<()> {
    eprintln!("installing packages for Python, from PyPI");
    if make_environment(home).is_err() {
        debian::install(&["python3", "python3-venv"])?;
        make_environment(home)?;
    }
    let mut pip = Command::new(home.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--requirement",
        "/dev/stdin",
    ]);
    let mut child = pip
        .stdin(Stdio::piped())
        .spawn()
        .map_err(Error::doing("running pip"))?;
    if let Some(mut input) = child.stdin.take() {
        input
            .write_all(requirements.as_bytes())
            .map_err(Error::doing("telling pip what to install"))?;
    }
    finished("pip", child.wait())
}

fn make_environment(home: &Path) -> Result<()> {
    let mut python = Command::new("python3");
    python.args(["-m", "venv", "--clear"]).arg(home);
    finished("python3 -m venv", python.stdin(Stdio::null()).status())
}

fn finished(what: &str, status: std::io::Result<std::process::ExitStatus>) -> Result<()> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::new(format!("`{what}` failed: {status}"))),
        Err(error) => Err(Error::new(format!("`{what}` does not run: {error}"))),
    }
}
