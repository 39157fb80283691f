//! `cargo xtask`: the one way to check, test and measure.
//!
//! Ctrl-C needs no handling here: the cargo that we run gets the signal as well, and the private
//! servers have a watchdog that ends them when this process is gone.

mod cargo;
mod check;
mod example;
mod features;
mod seeds;
mod servers;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

  example [name [arguments]]       run an example system on servers of its own; without a name, list them
  quickstart                       run the example `quickstart` on a PostgreSQL started for it
  test [arguments of cargo test]   run the tests on real servers, started for the run
  check [--fast]                   all that CI checks; --fast leaves out the tests
  seeds [--check]                  write docs/seeds.md: what is asked for, and which tests prove it
  bench [--quick] [scenario …]     run the benchmarks on a PostgreSQL started for the run
  postgres                         start a PostgreSQL to work with, until Ctrl-C
  help                             this text

In the environment:
  POSTHASTE_TEST_POSTGRES    use this server for the tests     postgres://user@host:port/database
  POSTHASTE_TEST_NATS        use this server for the tests     nats://host:port
  POSTHASTE_TEST_REDIS       use this server for the tests     redis://host:port
  POSTHASTE_BENCH_POSTGRES   use this server for the benchmarks
  POSTHASTE_TEST_KAFKA       use these brokers for the tests   host:port
  POSTHASTE_TEST_RABBITMQ    use this RabbitMQ for the tests   amqp://user:password@host:port/vhost
  POSTHASTE_PG_BIN           start servers with the PostgreSQL programs of this directory
  TMPDIR                     where the servers keep their data; a real disk for benchmarks
";

/// What stops a command: a message for people, and the exit code to pass on.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn new(message: impl ToString) -> Self {
        Self {
            message: message.to_string(),
            code: 1,
        }
    }
}

type Result<T = ()> = std::result::Result<T, Failure>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", arguments.as_slice()),
    };
    let result = match command {
        "test" => servers::test(rest),
        "check" => check::check(rest),
        "bench" => servers::bench(rest),
        "postgres" => servers::postgres(),
        "example" => example::example(rest),
        "seeds" => seeds::seeds(rest),
        "quickstart" => servers::quickstart(),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        "" => Err(usage("which command?")),
        unknown => Err(usage(&format!("there is no command `{unknown}`"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

/// Whether the help knows the first of these words.
fn is_command(words: &str) -> bool {
    let name = words.split(' ').next().unwrap_or_default();
    let mut lines = HELP.lines().take_while(|line| !line.starts_with("In the"));
    lines.any(|line| line.split_whitespace().next() == Some(name) && line.starts_with("  "))
}

fn usage(problem: &str) -> Failure {
    Failure {
        message: format!("{problem}\n\n{HELP}"),
        code: 2,
    }
}
