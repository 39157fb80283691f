//! `cargo xtask check`: exactly what CI runs, step by step; the first step that fails stops it.

use crate::cargo::{cargo, require_component, run};
use crate::{Failure, Result, features, seeds, servers, usage};
use std::time::{Duration, Instant};

/// Runs every step in order; `--fast` leaves out the tests.
pub(crate) fn check(arguments: &[String]) -> Result {
    let fast = match arguments {
        [] => false,
        [only] if only == "--fast" => true,
        _ => return Err(usage("check knows only --fast")),
    };
    let start = Instant::now();
    step("format", format)?;
    step("requirements", seeds::check)?;
    step("clippy", clippy)?;
    step("each feature alone", features::check_each_alone)?;
    if !fast {
        step("tests", || servers::test(&[]))?;
    }
    step("documentation", documentation)?;
    eprintln!("\nall passed in {}", seconds(start.elapsed()));
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result) -> Result {
    eprintln!("\n=== {name}");
    let start = Instant::now();
    let result = work();
    let took = seconds(start.elapsed());
    match result {
        Ok(()) => {
            eprintln!("=== {name}: passed in {took}");
            Ok(())
        }
        Err(failure) => Err(Failure {
            message: format!("step `{name}` failed after {took}: {}", failure.message),
            code: failure.code,
        }),
    }
}

fn format() -> Result {
    require_component("rustfmt", "fmt")?;
    run(&mut cargo(["fmt", "--all", "--check"]))
}

fn clippy() -> Result {
    require_component("clippy", "clippy")?;
    let everything = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(everything).args(["--", "--deny", "warnings"]))
}

fn documentation() -> Result {
    let ours = ["doc", "--no-deps", "--workspace", "--all-features"];
    run(cargo(ours).env("RUSTDOCFLAGS", "--deny warnings"))
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
