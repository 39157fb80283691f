//! Where Kafka comes from: Maven Central, once, into the user's cache.

use super::private::Private;
use super::python::cache;
use super::{Error, Result, debian};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const POM: &str = include_str!("../../java/pom.xml");
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The directory of Kafka's JAR files, which are fetched when they are missing. Another version
/// has another directory.
pub(super) fn find_or_fetch() -> Result<PathBuf> {
    if !runs("java") {
        debian::install(&["default-jre-headless"])?;
    }
    let mut hasher = DefaultHasher::new();
    POM.hash(&mut hasher);
    let cache = cache()?;
    let home = cache.join(format!("kafka-{:016x}", hasher.finish()));
    let (jars, complete) = (home.join("jars"), home.join("complete"));
    if complete.exists() {
        return Ok(jars);
    }
    fs::create_dir_all(&home).map_err(Error::doing(format!("making {}", home.display())))?;
    let lock = fs::File::create(cache.join("kafka.lock"))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::doing("waiting for another installation"))?;
    if !complete.exists() {
        fetch(&home, &jars)?;
        fs::File::create(complete).map_err(Error::doing("ending the installation"))?;
    }
    drop(lock);
    Ok(jars)
}

fn fetch(home: &Path, jars: &Path) -> Result<()> {
    if !runs("mvn") {
        debian::install(&["maven"])?;
    }
    eprintln!("fetching Kafka from Maven Central");
    fs::write(home.join("pom.xml"), POM).map_err(Error::doing("writing pom.xml"))?;
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", COPY, "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing("running mvn"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "Kafka cannot be fetched by Maven:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
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
