//! Finds PostgreSQL's programs, or installs them.

use super::{Error, PG_BIN, Result, debian};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const DEBIAN: &str = "/usr/lib/postgresql";
const CLUSTER_CONFIG: &str = "/etc/postgresql-common/createcluster.conf";

pub(super) fn find_or_install() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(PG_BIN).filter(|dir| !dir.is_empty()) {
        let dir = PathBuf::from(dir);
        return if is_complete(&dir) {
            Ok(dir)
        } else {
            Err(Error::new(format!(
                "{PG_BIN} is {}, but `postgres` and `initdb` are not both there",
                dir.display()
            )))
        };
    }
    if let Some(dir) = on_path().or_else(newest_of_debian) {
        return Ok(dir);
    }
    install().map_err(|error| {
        Error::new(format!(
            "PostgreSQL: {error}\nWith PostgreSQL elsewhere, set {PG_BIN} to the directory of \
             `postgres` and `initdb`"
        ))
    })?;
    newest_of_debian().ok_or_else(|| {
        Error::new(format!(
            "package postgresql is installed, but there is no {DEBIAN}/*/bin/postgres; \
             set {PG_BIN}"
        ))
    })
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let dir = std::env::split_paths(&path).find(|dir| is_complete(dir))?;
    // Links to some of the programs: where they point to are all of them.
    let real = fs::canonicalize(dir.join("postgres")).ok();
    real.and_then(|program| program.parent().map(Path::to_owned))
        .filter(|real| is_complete(real))
        .or(Some(dir))
}

fn newest_of_debian() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, dir)| is_complete(dir))
        .collect();
    versions.sort();
    versions.pop().map(|(_, dir)| dir)
}

fn is_complete(dir: &Path) -> bool {
    ["postgres", "initdb"]
        .iter()
        .all(|program| dir.join(program).is_file())
}

/// In two steps, because the package would otherwise make and start a system-wide cluster.
fn install() -> Result<()> {
    debian::install(&["postgresql-common"])?;
    let config = fs::read_to_string(CLUSTER_CONFIG).unwrap_or_default();
    let decided = config
        .lines()
        .any(|line| line.trim_start().starts_with("create_main_cluster"));
    if !decided {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(CLUSTER_CONFIG)
            .and_then(|mut file| file.write_all(b"\ncreate_main_cluster = false\n"))
            .map_err(Error::doing(format!("writing {CLUSTER_CONFIG}")))?;
    }
    debian::install(&["postgresql"])
}
