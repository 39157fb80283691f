//! The example `quickstart`, run as a reader of the README runs it.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::PathBuf;
use std::process::{Command, Output};

use posthaste_testkit::server::postgres_url;
use serde_json::Value;

/// Cargo builds the examples with the tests, and puts them beside the tests' own directory.
fn example() -> Command {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).unwrap();
    let example: PathBuf = target.join("examples").join("quickstart");
    assert!(
        example.is_file(),
        "{} is missing: run `cargo build -p posthaste-relay --example quickstart`",
        example.display()
    );
    let mut command = Command::new(example);
    command.env_remove("DATABASE_URL");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What was delivered: item and attempts, by the item.
fn deliveries(output: &Output) -> Vec<(String, u64)> {
    let mut deliveries: Vec<(String, u64)> = text(&output.stdout)
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let item = event["payload"]["item"].as_str().unwrap();
            (item.to_owned(), event["attempts"].as_u64().unwrap())
        })
        .collect();
    deliveries.sort();
    deliveries
}

// M6, M15, F6: and again in the same database, as a curious reader does.
#[test]
fn the_quickstart_loses_nothing_and_says_so() {
    for address_from in ["argument", "environment"] {
        let mut example = example();
        let output = match address_from {
            "argument" => example.arg(postgres_url()).output().unwrap(),
            _ => example
                .env("DATABASE_URL", postgres_url())
                .output()
                .unwrap(),
        };
        let summary = text(&output.stderr);
        assert!(output.status.success(), "{summary}");
        assert_eq!(
            summary,
            "committed    7\n\
             rolled back  1\n\
             delivered    6\n\
             dead         1 (rejected: too heavy for any courier)\n\
             Nothing was lost: each committed order has its event, and no other has one.\n"
        );
        let expected = [
            ("book", 1),
            ("chair", 1),
            ("globe", 1),
            ("kettle", 1),
            ("lamp", 1),
            ("vase", 3),
        ];
        let expected = expected.map(|(item, attempts)| (item.to_owned(), attempts));
        assert_eq!(deliveries(&output), expected);
    }
}

#[test]
fn without_a_database_it_says_what_is_missing() {
    let output = example().output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("DATABASE_URL"));
}
