//! Finds a server's program, and gives it the files that it wants.

use super::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian puts servers, which is not on everybody's `PATH`.
const BESIDE_PATH: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The program of this name, from the `PATH`; if it is not there, after it was installed.
pub(super) fn find(name: &str, install: impl FnOnce() -> Result<()>) -> Result<PathBuf> {
    if let Some(program) = on_path(name) {
        return Ok(program);
    }
    install().map_err(|error| Error::new(format!("{name}: {error}")))?;
    on_path(name).ok_or_else(|| Error::new(format!("{name} was installed, but is not on the PATH")))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(BESIDE_PATH.map(PathBuf::from));
    dirs.map(|dir| dir.join(name))
        .find(|program| program.is_file())
}

/// Writes files into the directory of a server, which alone can look into it.
pub(super) fn write_files(dir: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    for (name, contents) in files {
        fs::write(dir.join(name), contents).map_err(Error::doing(format!("writing {name}")))?;
    }
    Ok(())
}
