//! Every command in the guides is run, in order, as a reader would: in a shell, with the program
//! that was built, on a real database, and what it prints is compared with what the guide shows.
//!
//! In a guide, a block marked `console` holds commands (`$ …`) and their output. In the output, `…`
//! stands for anything within a line, and a line of its own `…` for any number of lines; ids and
//! times are others each time. A block after `<!-- file: NAME -->` is written to that file first. `<!-- not run -->` leaves a block out.
//! `posthaste tail … --for …` is run again, some times, until it shows what the guide does.
//! `postgres://localhost/shop` stands for a database of the test's own, as it does for a reader; in the
//! guide of an example it is called like the example, whose program is on the path as well.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod blocks;
mod examples;
mod guide;
mod scripts;
mod shell;
mod snippets;

use std::path::{Path, PathBuf};

use guide::Step;
use posthaste_testkit::server::{Options, Postgres};
use shell::Shell;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is in crates/")
        .to_owned()
}

/// A server with a database of this name.
pub(crate) struct Server {
    server: Postgres,
    programs: PathBuf,
    database: &'static str,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with("shop")
    }

    fn with(database: &'static str) -> Self {
        let server = Postgres::start(Options::new()).unwrap();
        let programs = Postgres::programs().unwrap();
        let made = std::process::Command::new(programs.join("createdb"))
            .args(["--maintenance-db", &server.url(), database])
            .status();
        assert!(made.unwrap().success());
        Self {
            server,
            programs,
            database,
        }
    }

    pub(crate) fn address(&self) -> String {
        let (port, database) = (self.server.port(), self.database);
        format!("postgres://postgres@127.0.0.1:{port}/{database}")
    }

    /// What makes `psql shop` and the like work.
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
    run_on(name, "shop");
}

fn run_on(name: &str, database: &'static str) {
    let path = repository().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let steps = guide::steps(&text);
    assert!(
        steps.iter().any(|step| matches!(step, Step::Run { .. })),
        "{name} has no command to run"
    );
    let server = Server::with(database);
    let (address, shown) = (server.address(), format!("postgres://localhost/{database}"));
    let real = |text: &str| text.replace(&shown, &address);
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
                let mut look = || shell.run(&real(&command)).replace(&address, &shown);
                let mut printed = look();
                // What it waits for may come late on a busy machine; to look again changes nothing.
                if command.contains(" tail ") && command.contains("--for") {
                    for _ in 1..10 {
                        if guide::matches(&expected, &printed) {
                            break;
                        }
                        printed = look();
                    }
                }
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

// org-1.3, org-10.3.2, org-10.4.1, org-10.4.2, org-10.4.3, org-10.4.4, org-10.4.6, org-10.4.7, B18, K6
#[test]
fn the_runbook_of_the_example_org_runs() {
    let program = Path::new(env!("CARGO_BIN_EXE_posthaste")).with_file_name("org");
    assert!(
        program.is_file(),
        "{} is missing: run `cargo build -p org`, or all tests, which builds it",
        program.display()
    );
    run_on("examples/org/README.md", "org");
}
