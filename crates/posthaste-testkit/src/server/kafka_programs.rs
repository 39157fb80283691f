//! Where Kafka comes from: Maven Central, once, into the user's cache.

use super::private::Private;
use super::{Error, Result, cache, debian, maven};
use std::fs;
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
        fs::hard_link(file.path(), &place)
            .or_else(|_| fs::copy(file.path(), &place).map(drop))
            .map_err(Error::doing("copying the JAR files"))?;
    }
    Ok(())
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}
