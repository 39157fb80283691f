//! Small disks that are soon full, for tests that any user can run: where only root may mount, the test runs once
//! more in a process with mounts of its own.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells a test that it runs in a process with mounts of its own.
const OWN_MOUNTS: &str = "POSTHASTE_TEST_OWN_MOUNTS";

/// Whether this process may do anything.
pub fn is_root() -> bool {
    let this = std::fs::metadata("/proc/self").expect("the system tells of this process");
    this.uid() == 0
}

/// Whether this process has mounts of its own. If not, it runs the test of this full name in one that has: that
/// needs root, or a system that lets users have namespaces.
pub fn has_own_mounts(test: &str) -> bool {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .arg("--mount")
        .arg(std::env::current_exe().expect("the test's program"))
        .args(["--exact", test, "--nocapture"])
        .env(OWN_MOUNTS, "1")
        .status()
        .expect("unshare, of util-linux");
    assert!(status.success(), "{test}, with mounts of its own");
    false
}

/// Mounts on a folder. Gives back whether it could.
pub fn mount(arguments: &[&str], on: &Path) -> bool {
    let status = Command::new("mount").args(arguments).arg(on).status();
    status.expect("mount, of util-linux").success()
}

/// A disk with room for some megabytes, in a process with mounts of its own.
pub struct SmallDisk {
    /// Where it is.
    pub folder: PathBuf,
}

impl SmallDisk {
    /// Mounts it on a folder, which is there.
    pub fn on(folder: &Path, megabytes: u32) -> Self {
        let size = format!("size={megabytes}m");
        assert!(mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder));
        let folder = folder.to_owned();
        Self { folder }
    }

    /// Leaves no space, not even a byte.
    pub fn fill(&self) {
        let mut ballast = File::create(self.folder.join("ballast")).expect("a file");
        for size in [65536, 4096, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Gives the space back.
    pub fn free(&self) {
        std::fs::remove_file(self.folder.join("ballast")).expect("it was full");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.folder)
            .status();
        let _ = std::fs::remove_dir(&self.folder);
    }
}
