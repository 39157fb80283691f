//! Every command in the guides is run, in order, as a reader would: in a shell, with the program
//! that was built, on a real database, and what it prints is compared with what the guide shows.
//!
//! In a guide, a block marked `console` holds commands (`$ …`) and their output. In the output, `…`
//! stands for anything within a line, and a line of its own `…` for any number of lines. A block
//! after `<!-- file: NAME -->` is written to that file first. `<!-- not run -->` leaves a block out.
//! Set `POSTHASTE_DATABASE__URL` is all that is changed: it points to a database of the test's own.

mod guide;
mod shell;

use std::path::{Path, PathBuf};

use guide::Step;
use shell::Shell;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is in crates/")
        .to_owned()
}

/// Runs a guide from its first block to its last.
fn run(name: &str, environment: &[(&str, String)]) {
    let path = repository().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let steps = guide::steps(&text);
    assert!(
        steps.iter().any(|step| matches!(step, Step::Run { .. })),
        "{name} has no command to run"
    );
    let mut shell = Shell::start(environment);
    for step in steps {
        match step {
            Step::File { name, text } => shell.write(&name, &text),
            Step::Run {
                line,
                command,
                expected,
            } => {
                let printed = shell.run(&command);
                assert!(
                    guide::matches(&expected, &printed),
                    "{name}:{line}: $ {command}\n--- the guide shows\n{expected}\n--- it printed\n{printed}"
                );
            }
        }
    }
}
