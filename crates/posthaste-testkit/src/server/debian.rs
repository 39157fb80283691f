//! Installs a Debian package when a server's programs are not there. Knows no particular server.

use super::{Error, Result, account};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian asks this program before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// What it says while we install. By its comment we know our own.
const NO_SERVICES: &str =
    "#!/bin/sh\n# Of Posthaste's tests, while they install what they need.\nexit 101\n";
/// Whoever installs holds a lock on this file: apt-get itself does not wait for one that refreshes
/// the package lists.
const LOCK: &str = "/run/posthaste-install.lock";

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
    let _alone = fs::File::create(LOCK)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::doing("waiting for another installation"))?;
    // Whoever had the lock may have done it.
    if are_installed(packages) {
        return Ok(());
    }
    let _quiet = NoServices::new(Path::new(POLICY))?;
    apt_get(&["update"], &list)?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments, &list)
}

fn are_installed(packages: &[&str]) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${db:Status-Abbrev}\n"]);
    let Ok(output) = query.args(packages).stdin(Stdio::null()).output() else {
        return false;
    };
    let states = String::from_utf8_lossy(&output.stdout);
    output.status.success() && states.lines().all(|state| state.trim_end() == "ii")
}

fn apt_get(arguments: &[&str], packages: &str) -> Result<()> {
    let shown = arguments.join(" ");
    eprintln!("running `apt-get {shown}`");
    let output = Command::new("apt-get")
        // Somebody else may install something at the same time.
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
struct NoServices<'p> {
    policy: &'p Path,
    is_ours: bool,
}

impl<'p> NoServices<'p> {
    fn new(policy: &'p Path) -> Result<Self> {
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(policy)
            .and_then(|mut file| file.write_all(NO_SERVICES.as_bytes()));
        let is_ours = match made {
            Ok(()) => true,
            // Whoever made it has decided, unless we did: a run that was interrupted left it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::read_to_string(policy).is_ok_and(|text| text == NO_SERVICES)
            }
            Err(error) => {
                return Err(Error::doing(format!("writing {}", policy.display()))(error));
            }
        };
        Ok(Self { policy, is_ours })
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = fs::remove_file(self.policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_an_interrupted_installation_is_removed_and_nobody_elses() {
        let policy = std::env::temp_dir().join(format!("policy-rc.d-{}", std::process::id()));
        let left = std::mem::ManuallyDrop::new(NoServices::new(&policy).unwrap());
        assert!(left.is_ours && policy.exists());
        drop(NoServices::new(&policy).unwrap());
        assert!(!policy.exists());
        fs::write(&policy, "#!/bin/sh\nexit 101\n").unwrap();
        drop(NoServices::new(&policy).unwrap());
        assert!(policy.exists());
        fs::remove_file(policy).unwrap();
    }

    #[test]
    fn it_is_known_what_is_installed() {
        assert!(!are_installed(&["posthaste-is-no-package"]));
    }
}
