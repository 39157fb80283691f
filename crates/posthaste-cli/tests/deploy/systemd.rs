//! The unit: what systemd thinks of it, and whether it fits the program.

use std::time::Duration;

use posthaste_testkit::server::systemd_analyze;
use tempfile::TempDir;

use crate::{STOP, read};

const UNIT: &str = "ops/posthaste.service";
/// Of a hundred: how much an intruder could do. Most units have more than ninety.
const EXPOSURE: &str = "--threshold=15";

/// The unit, with the program that was built: systemd wants it to be there.
fn unit(folder: &TempDir) -> String {
    let text = read(UNIT).replace("/usr/local/bin/posthaste", env!("CARGO_BIN_EXE_posthaste"));
    let path = folder.path().join("posthaste.service");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn value(key: &str) -> String {
    let unit = read(UNIT);
    let found = unit.lines().find_map(|line| line.strip_prefix(key));
    found
        .and_then(|it| it.strip_prefix('='))
        .unwrap_or_else(|| panic!("{key}"))
        .to_owned()
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let told = systemd_analyze(&["verify", "--man=no", &unit(&folder)]).unwrap();
    // It also tells of what it does not know, and goes on.
    assert_eq!(told, "");
}

#[test]
fn an_intruder_could_do_little() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["security", "--no-pager", "--offline=true", EXPOSURE];
    systemd_analyze(&[&arguments[..], &[&unit(&folder)]].concat()).unwrap();
}

#[test]
fn a_stop_is_waited_for_and_mistakes_are_not_tried_again() {
    let seconds: u64 = value("TimeoutStopSec")
        .trim_end_matches('s')
        .parse()
        .unwrap();
    assert!(Duration::from_secs(seconds) > STOP);
    assert_eq!(value("Type"), "notify");
    // What is configured wrongly, and a schema that is not there: see the exit codes in docs/cli.md.
    assert_eq!(value("RestartPreventExitStatus"), "2 4");
    assert!(value("Environment").contains("POSTHASTE_DATABASE__URL_FILE="));
}
