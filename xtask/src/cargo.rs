//! Runs cargo, in the workspace and in a clean environment.

use crate::{Failure, Result};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// A cargo command in the root of the workspace.
pub(crate) fn cargo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    // `cargo run` describes xtask itself in these; build scripts that watch them would run again.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    if env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
        if env::var_os("CARGO_TARGET_DIR").is_none()
            && let Some(cache) = cache_dir()
        {
            command.env("CARGO_TARGET_DIR", cache.join("posthaste").join("target"));
        }
    }
    command
}

/// Runs `command` and passes its exit code on.
pub(crate) fn run(command: &mut Command) -> Result {
    let shown = describe(command);
    let status = command
        .status()
        .map_err(|error| Failure::new(format!("cannot run `{shown}`: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure {
        message: format!("`{shown}` failed"),
        code: code(status),
    })
}

/// Fails with the remedy when a component of the toolchain, such as clippy, is not installed.
pub(crate) fn require_component(component: &str, subcommand: &str) -> Result {
    let probe = cargo([subcommand, "--version"]).output();
    if probe.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{component} is missing: run `rustup component add {component}`"
    )))
}

fn describe(command: &Command) -> String {
    let mut words = vec!["cargo".to_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into()));
    words.join(" ")
}

fn code(status: ExitStatus) -> u8 {
    // None: ended by a signal.
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// The root of the workspace. From the environment that `cargo run` gives: a target directory shared by several worktrees may
/// run the xtask that was built in another one.
pub(crate) fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map(Path::to_owned).unwrap_or(xtask)
}

/// The user's cache directory: outlives the fresh clone that CI works in.
fn cache_dir() -> Option<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty());
    given
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
}
