//! The commands that need servers: each starts what was not given in the environment, and the
//! servers end with the command, however it ends.

use crate::cargo::{cargo, run};
use crate::{Failure, Result};
use posthaste_testkit::server::{Options, PG_BIN, Postgres, TEST_POSTGRES};
use std::env;
use std::thread;

const BENCH_POSTGRES: &str = "POSTHASTE_BENCH_POSTGRES";

/// `cargo xtask test`: all tests with all features, or those that `arguments` choose.
pub(crate) fn test(arguments: &[String]) -> Result {
    let (_server, url) = given_or_started(TEST_POSTGRES)?;
    let mut command = cargo(["test", "--all-features"]);
    if !chooses_packages(arguments) {
        command.arg("--workspace");
    }
    command.args(arguments).env(TEST_POSTGRES, url);
    // So that tests which start a server of their own use the same version. Without programs
    // here, with a server elsewhere, those tests say themselves what is missing.
    if let Ok(programs) = Postgres::programs() {
        command.env(PG_BIN, programs);
    }
    run(&mut command)
}

/// `cargo xtask bench`: the benchmarks, optimised.
pub(crate) fn bench(arguments: &[String]) -> Result {
    // Built first: a compiler that is still busy would be measured too.
    run(&mut cargo(["build", "--release", "-p", "posthaste-bench"]))?;
    if needs_daemon(arguments) {
        run(&mut cargo(["build", "--release", "-p", "posthaste-cli"]))?;
    }
    let (_server, url) = given_or_started(BENCH_POSTGRES)?;
    let mut command = cargo(["run", "--release", "--quiet", "-p", "posthaste-bench", "--"]);
    run(command.args(arguments).env(BENCH_POSTGRES, url))
}

/// Whether the real program is measured, too.
fn needs_daemon(arguments: &[String]) -> bool {
    let is_named = |name: &str| arguments.iter().any(|argument| argument == name);
    let is_all = arguments.iter().all(|argument| argument.starts_with("--"));
    is_named("admin") || is_named("program") || (is_all && !is_named("--quick"))
}

/// `cargo xtask quickstart`: the example of that name, on a server that lives as long as it runs.
pub(crate) fn quickstart() -> Result {
    let example = ["-p", "posthaste-relay", "--example", "quickstart"];
    // Built first: what does not compile needs no server.
    run(cargo(["build"]).args(example))?;
    let server = start_postgres()?;
    let command = ["run", "--quiet"];
    run(cargo(command).args(example).args(["--", &server.url()]))
}

/// `cargo xtask postgres`: a server to play with.
pub(crate) fn postgres() -> Result {
    let server = start_postgres()?;
    println!("{}", server.url());
    eprintln!(
        "log in {}; Ctrl-C stops and removes it",
        server.log().display()
    );
    loop {
        thread::park();
    }
}

/// The server that `variable` names, else a private one that lives as long as the first value.
fn given_or_started(variable: &str) -> Result<(Option<Postgres>, String)> {
    match env::var(variable) {
        Ok(url) if !url.is_empty() => Ok((None, url)),
        _ => {
            let server = start_postgres()?;
            let url = server.url();
            Ok((Some(server), url))
        }
    }
}

/// A private server that lives as long as the value.
pub(crate) fn start_postgres() -> Result<Postgres> {
    Postgres::start(Options::new()).map_err(Failure::new)
}

/// Whether cargo's own arguments, those before `--`, name packages.
fn chooses_packages(arguments: &[String]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

#[cfg(test)]
mod tests {
    use super::chooses_packages;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn packages_are_only_looked_for_before_the_double_dash() {
        assert!(chooses_packages(&words("-p posthaste")));
        assert!(chooses_packages(&words("--test flow --package=posthaste")));
        assert!(!chooses_packages(&words("claim -- -p posthaste")));
        assert!(!chooses_packages(&[]));
    }
}
