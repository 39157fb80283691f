//! A browser for tests of pages: only that it is there. Who drives it starts it.

use super::{Result, debian};
use std::process::Command;

/// Makes sure that `chromium` can be run. Debian's package is installed if need be (as root).
pub fn chromium() -> Result<()> {
    let there = Command::new("chromium").arg("--version").output();
    match there.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        // Without a font there is no text to see.
        false => debian::install(&["chromium", "fonts-dejavu-core"]),
    }
}
