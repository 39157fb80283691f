//! The image: judged by hadolint, and held to what it promises.

use posthaste_testkit::server;

use crate::{read, repository};

const LINT: &str = "import os, subprocess, sys\n\
    tool = os.path.join(os.path.dirname(sys.executable), 'hadolint')\n\
    done = subprocess.run([tool, '--failure-threshold', 'style', sys.argv[1]], stdout=sys.stderr)\n\
    sys.exit(done.returncode)";

#[test]
fn hadolint_finds_nothing_to_say_about_the_image() {
    let file = repository().join("Dockerfile");
    server::python(LINT, &[file.to_str().unwrap()]).unwrap();
}

#[test]
fn the_image_is_small_is_not_root_and_is_built_by_the_right_compiler() {
    let text = read("Dockerfile");
    let stages: Vec<&str> = text.lines().filter(|it| it.starts_with("FROM ")).collect();
    let version = read("Cargo.toml");
    let version = version
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .unwrap()
        .trim_matches('"');
    assert!(
        stages[0].starts_with(&format!("FROM rust:{version}-")),
        "{stages:?}"
    );
    assert!(stages.last().unwrap().ends_with(":nonroot"), "{stages:?}");
    assert!(text.contains("--locked") && text.contains("CMD [\"run\"]"));
}
