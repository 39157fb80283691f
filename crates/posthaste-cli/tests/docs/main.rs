//! Every command in the guides is run, in order, as a reader would: in a shell, with the program
//! that was built, on a real database, and what it prints is compared with what the guide shows.
//!
//! In a guide, a block marked `console` holds commands (`$ …`) and their output. In the output, `…`
//! stands for anything within a line, and a line of its own `…` for any number of lines; ids and
//! times are others each time. A block after `<!-- file: NAME -->` is written to that file first. `<!-- not run -->` leaves a block out.
//! `postgres://localhost/shop` stands for a database of the test's own, as it does for a reader.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod guide;
mod shell;
mod snippets;

use std::path::{Path, PathBuf};

use guide::Step;
use posthaste_testkit::server::{Options, Postgres};
use shell::Shell;

const SHOP: &str = "postgres://localhost/shop";

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is in crates/")
        .to_owned()
}

/// A server with a database `shop`.
pub(crate) struct Server {
    server: Postgres,
    programs: PathBuf,
}

impl Server {
    pub(crate) fn start() -> Self {
        let server = Postgres::start(Options::new()).unwrap();
        let programs = Postgres::programs().unwrap();
        let made = std::process::Command::new(programs.join("createdb"))
            .args(["--maintenance-db", &server.url(), "shop"])
            .status();
        assert!(made.unwrap().success());
        Self { server, programs }
    }

    pub(crate) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/shop", self.server.port())
    }

    /// What makes `psql shop` work.
    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PGHOST", "127.0.0.1".to_owned()),
            ("PGPORT", self.server.port().to_string()),
            ("PGUSER", "postgres".to_owned()),
            ("PSQLRC", "/dev/null".to_owned()),
        ]
    }
}

/// Runs a guide from its first block to its last, and tells all that is not as it shows.
fn run(name: &str) {
    let path = repository().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let steps = guide::steps(&text);
    assert!(
        steps.iter().any(|step| matches!(step, Step::Run { .. })),
        "{name} has no command to run"
    );
    let server = Server::start();
    let address = server.address();
    let real = |text: &str| text.replace(SHOP, &address);
    let mut shell = Shell::start(&server.programs, &server.environment());
    let mut wrong = Vec::new();
    for step in steps {
        match step {
            Step::File { name, text } => shell.write(&name, &real(&text)),
            Step::Run {
                line,
                command,
                expected,
            } => {
                let printed = shell.run(&real(&command)).replace(&address, SHOP);
                if !guide::matches(&expected, &printed) {
                    wrong.push(format!(
                        "{name}:{line}: $ {command}\n--- the guide shows\n{expected}--- it printed\n{printed}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_readme_runs() {
    run("README.md");
}

#[test]
fn the_guide_of_the_admin_api_runs() {
    run("docs/admin.md");
}

#[test]
fn the_runbook_runs() {
    run("docs/operations.md");
}
