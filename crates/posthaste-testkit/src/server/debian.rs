//! Installs a Debian package when a server's programs are not there. Knows no particular server.

use super::{Error, Result, account};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

/// Debian asks this program before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Whoever installs something has this locked.
const TURNS: &str = "/run/posthaste-apt-get.lock";

/// Installs `packages` with apt-get, as root on Debian or Ubuntu; everybody else is told what to
/// install. The package lists are refreshed first: those of a fresh container are empty. No service
/// of a package is started: tests start their own servers.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !account::we_are_root()? {
        return Err(Error::new(format!(
            "not installed, and only root can install it: run `sudo apt-get install {list}`"
        )));
    }
    // Another test may install something at the same time, and apt-get does not wait for its own lists.
    let turn = fs::File::create(TURNS).map_err(Error::doing("taking turns to install"))?;
    turn.lock()
        .map_err(Error::doing("taking turns to install"))?;
    let _quiet = NoServices::new()?;
    apt_get(&["update"], &list)?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments, &list)
}

fn apt_get(arguments: &[&str], packages: &str) -> Result<()> {
    let shown = arguments.join(" ");
    eprintln!("running `apt-get {shown}`");
    let output = Command::new("apt-get")
        // So may somebody else.
        .args(["--quiet", "-o", "DPkg::Lock::Timeout=600"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing(format!(
            "not installed, and `apt-get` does not run here; \
             install {packages} in this system's own way"
        )))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(format!(
        "`apt-get {shown}` failed; install {packages} by hand.\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    )))
}

/// While this lives, installing starts no services.
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn new() -> Result<Self> {
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(POLICY)
            .and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n"));
        match made {
            Ok(()) => Ok(Self { is_ours: true }),
            // Whoever made it has decided.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self { is_ours: false }),
            Err(error) => Err(Error::doing(format!("writing {POLICY}"))(error)),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}
