//! What systemd says of a unit, without running it.

use super::{Error, Result, debian, program};
use std::process::Command;

/// Runs `systemd-analyze` with these arguments, and gives what it printed. Debian's package is
/// installed if need be (as root); nothing is started.
pub fn systemd_analyze(arguments: &[&str]) -> Result<String> {
    let program = program::find("systemd-analyze", || debian::install(&["systemd"]))?;
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(Error::doing("running systemd-analyze"))?;
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    match output.status.success() {
        true => Ok(told),
        false => Err(Error::new(told)),
    }
}
