//! Whom a server runs as: ourselves, or somebody unprivileged when we are root, because most
//! servers refuse to run as root and none should.

use super::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The account that a private server and its watchdog run as.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// `None`: the user we already are.
    other: Option<(u32, u32)>,
    name: String,
}

impl Account {
    /// Ourselves; as root the user called `preferred` if there is one, else `nobody`.
    pub(super) fn unprivileged(preferred: &str) -> Result<Self> {
        if !we_are_root()? {
            return Ok(Self {
                other: None,
                name: id(&["-un"])?,
            });
        }
        for name in [preferred, "nobody"] {
            let (Ok(uid), Ok(gid)) = (id(&["-u", name]), id(&["-g", name])) else {
                continue;
            };
            if let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) {
                return Ok(Self {
                    other: Some((uid, gid)),
                    name: name.to_owned(),
                });
            }
        }
        Err(Error::new(format!(
            "a server must not run as root, and there is no user `{preferred}` or `nobody`: \
             add one with `useradd --system {preferred}`, or run as an ordinary user"
        )))
    }

    /// The name to use in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes `command` run as this account, with no supplementary groups of ours.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.other {
            command.uid(uid).gid(gid);
        }
    }
}

/// Whether this process may install packages and must not run servers.
pub(super) fn we_are_root() -> Result<bool> {
    Ok(id(&["-u"])? == "0")
}

fn id(arguments: &[&str]) -> Result<String> {
    let output = Command::new("id")
        .args(arguments)
        .output()
        .map_err(Error::doing("running `id`"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
