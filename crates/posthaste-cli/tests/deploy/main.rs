//! What is shipped to run the program with: checked by those who read it, and against what the program does.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod guide;
mod image;
mod kubernetes;
mod systemd;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that a stop takes: what is under way, then settling, then the last spans, all with a database that
/// does not answer.
const STOP: Duration = Duration::from_secs(30 + 5 + 3 + 10);

fn repository() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    crates.expect("the crate is in crates/").to_owned()
}

fn read(name: &str) -> String {
    let path = repository().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}
