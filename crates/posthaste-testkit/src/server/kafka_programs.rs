//! Where Kafka comes from: Maven Central, once, into the user's cache.

use super::private::Private;
use super::{Error, Result, cache, debian, maven};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const POM: &str = include_str!("../../java/pom.xml");

/// The directory of Kafka's JAR files, which are fetched when they are missing. Another version
/// has another directory.
pub(super) fn find_or_fetch() -> Result<PathBuf> {
    if !runs("java") {
        debian::install(&["default-jre-headless"])?;
    }
    let home = cache::once("kafka", POM, |home| {
        eprintln!("fetching Kafka from Maven Central");
        fs::write(home.join("pom.xml"), POM).map_err(Error::doing("writing pom.xml"))?;
        maven::fetch(home)
    })?;
    Ok(home.join("jars"))
}

/// Puts the files where the server's account can read them, as our cache may be closed to it.
pub(super) fn lend(jars: &Path, private: &Private) -> Result<()> {
    // Made by that account, so that the watchdog may remove what is in it.
    let made = private.command("mkdir").arg("jars").status();
    made.map_err(Error::doing("running mkdir"))?;
    let files = fs::read_dir(jars).map_err(Error::doing(format!("reading {}", jars.display())))?;
    for file in files {
        let file = file.map_err(Error::doing("reading the JAR files"))?;
        let place = private.dir().join("jars").join(file.file_name());
        lend_one(&file.path(), &place).map_err(Error::doing("copying the JAR files"))?;
    }
    Ok(())
}

/// A link keeps who may read the file, and with some umasks that is nobody else.
fn lend_one(file: &Path, place: &Path) -> std::io::Result<()> {
    let all_may_read = fs::metadata(file)?.mode() & 0o444 == 0o444;
    if all_may_read && fs::hard_link(file, place).is_ok() {
        return Ok(());
    }
    fs::copy(file, place)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o644))
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}
