//! Fetches what a `pom.xml` names from Maven Central.

use super::{Error, Result, debian, program};
use std::path::Path;
use std::process::{Command, Stdio};

const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// Puts the JAR files that the `pom.xml` of this directory names into `jars` beside it.
pub(super) fn fetch(home: &Path) -> Result<()> {
    let maven = program::find("mvn", || debian::install(&["maven"]))?;
    let output = Command::new(maven)
        .args(["--batch-mode", "--quiet", COPY, "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", home.join("jars").display()))
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing("running mvn"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "Maven cannot fetch what {} names:\n{}{}",
            home.join("pom.xml").display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
