//! The example as a reader runs it.

use std::process::{Command, Output};

use posthaste_testkit::server::postgres_url;

fn show(languages: &[&str], database: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_producers"));
    command.args(languages).env_remove("DATABASE_URL");
    if let Some(address) = database {
        command.env("DATABASE_URL", address);
    }
    command.output().unwrap()
}

// P1, M6
#[test]
fn the_example_ends_with_totals_that_prove_that_nothing_was_lost() {
    let output = show(&["go", "sql"], Some(&postgres_url()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told = String::from_utf8(output.stdout).unwrap();
    // Of each: 20 on its own and 10 races, of which it wins some.
    for told_of in [
        "\ngo ",
        "\nsql ",
        "60 orders, 50 events delivered, each once.",
    ] {
        assert!(told.contains(told_of), "{told}");
    }
    assert!(!told.contains("java"), "{told}");
}

#[test]
fn the_example_says_what_it_needs() {
    let output = show(&["go"], None);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("DATABASE_URL"),
        "{errors}"
    );
    let output = show(&["cobol"], Some(&postgres_url()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("no producer in cobol, but in go, java"),
        "{errors}"
    );
}
