//! Installs a Debian package when a server's programs are not there. Knows no particular server.

use super::{Error, Result, account};
use std::process::{Command, Stdio};

/// Installs `packages` with apt-get, as root on Debian or Ubuntu; everybody else is told what to
/// install. The package lists are refreshed first: those of a fresh container are empty.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !account::we_are_root()? {
        return Err(Error::new(format!(
            "not installed, and only root can install it: run `sudo apt-get install {list}`"
        )));
    }
    apt_get(&["update"], &list)?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments, &list)
}

fn apt_get(arguments: &[&str], packages: &str) -> Result<()> {
    let shown = arguments.join(" ");
    eprintln!("running `apt-get {shown}`");
    let output = Command::new("apt-get")
        .arg("--quiet")
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
