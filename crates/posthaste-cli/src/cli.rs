//! What can be typed: one struct for each command, in the order of the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::{
    clean, completions, config, demo, discard, doctor, enqueue, job, list, migrate, pause,
    redeliver, run, show, sink, status, tail, token,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  not done
  2  what was typed, or configured, is wrong
  3  the database is not reachable
  4  the outbox is not set up, or not as this version needs it
  5  something is found to be wrong, as a check was asked to tell";

/// A transactional outbox: delivers events exactly when the database has committed them.
#[derive(Debug, Parser)]
#[command(
    name = "posthaste",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    after_long_help = EXIT_CODES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the outbox is, and how to answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Place {
    /// The configuration file [default: posthaste.toml, if it is there]
    #[arg(
        long,
        short,
        global = true,
        value_name = "FILE",
        env = "POSTHASTE_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// The database, in place of the one that the configuration names
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The outbox [default: the only one that the configuration names]
    #[arg(long, short, global = true, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: a small shop on SQLite, a relay, and every kind of trouble
    Demo(demo::Demo),
    /// Relay every configured outbox until told to stop
    Run(run::Run),
    /// Make the outboxes in the database, or bring them up to date
    Migrate(migrate::Migrate),
    /// Look at all that a relay depends on, and say what to do about what is wrong
    Doctor(doctor::Doctor),
    /// How each outbox stands: backlog, lag, the dead
    Status(status::Status),
    /// List events, those first that ended or are due first
    List(list::List),
    /// List dead events, with the reason and the last error
    Dead(list::Dead),
    /// All about one event
    Show(show::Show),
    /// Bring dead events back, or send delivered ones again
    Redeliver(redeliver::Redeliver),
    /// Look after redeliveries that were begun with a rate
    #[command(subcommand)]
    Job(job::Act),
    /// Give events up for good
    Discard(discard::Discard),
    /// Have relays leave an outbox, or one sink of it, in peace
    Pause(pause::Pause),
    /// Let them go on
    Resume(pause::Resume),
    /// Remove what is past its retention, once and now
    Clean(clean::Clean),
    /// Follow what is delivered, and what dies, as it happens
    Tail(tail::Tail),
    /// Enqueue events by hand, for trying things out
    Enqueue(enqueue::Enqueue),
    /// Look at destinations
    #[command(subcommand)]
    Sink(sink::Act),
    /// Make tokens for those who may look after outboxes in a browser or by the API
    #[command(subcommand)]
    Token(token::Act),
    /// Check and explain the configuration
    #[command(subcommand)]
    Config(config::Act),
    /// Print what a shell needs to complete commands
    Completions(completions::Completions),
    /// Print the manual page, or write one for each command
    Man(completions::Man),
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    const MARK: &str = "<!-- What follows is written by the program. -->\n";

    #[test]
    fn what_can_be_typed_is_well_defined() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_that_takes_something_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.clone().render_long_help().to_string();
            let takes = command.get_arguments().next().is_some();
            assert!(
                !takes || help.contains("Examples:"),
                "{}",
                command.get_name()
            );
        }
    }

    /// What a shell makes of a line.
    fn words(line: &str) -> Vec<String> {
        let printed = std::process::Command::new("sh")
            .args(["-c", &format!("printf '%s\\n' {line}")])
            .output()
            .expect("a shell");
        assert!(printed.status.success(), "{line}");
        let printed = String::from_utf8(printed.stdout).expect("text");
        printed.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_example_can_be_typed() {
        let mut commands: Vec<clap::Command> = vec![Cli::command()];
        let mut count = 0;
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let Some(help) = command.get_after_long_help().map(ToString::to_string) else {
                continue;
            };
            for line in help.lines() {
                let Some(typed) = line.strip_prefix("  posthaste ") else {
                    continue;
                };
                // Up to where the shell, or a remark, takes over.
                let typed = typed.split("  ").next().unwrap_or_default();
                let typed = typed.split(['|', '<', '>', '#']).next().unwrap_or_default();
                let typed = typed.replace('…', "0000-7000-8000-000000000000");
                let words = words(&format!("posthaste {typed}"));
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{line}: {error}");
                }
                count += 1;
            }
        }
        assert!(count > 40, "{count}");
    }

    /// The help of every command. `docs/cli.md` ends with it.
    fn reference() -> String {
        let mut text = String::new();
        let mut root = Cli::command().term_width(100).max_term_width(100);
        root.build();
        let long = |command: &mut clap::Command| {
            let help = command.render_long_help().to_string();
            let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
            lines.join("\n").trim().to_owned()
        };
        text.push_str(&format!(
            "## posthaste\n```text\n{}\n```\n",
            long(&mut root)
        ));
        for command in root.get_subcommands() {
            if command.get_name() == "help" {
                continue;
            }
            // Those that every command has are told above.
            let global = |arg: clap::Arg| match arg.is_global_set() {
                true => arg.hide(true),
                false => arg,
            };
            let help = long(&mut command.clone().mut_args(global));
            let name = command.get_name();
            text.push_str(&format!("\n## posthaste {name}\n```text\n{help}\n```\n"));
        }
        text
    }

    #[test]
    fn the_reference_tells_what_the_program_does() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let document = std::fs::read_to_string(path).expect("docs/cli.md");
        let (written, found) = document.split_once(MARK).expect("the mark in docs/cli.md");
        let expected = format!("\n{}", reference());
        if std::env::var_os("POSTHASTE_TEST_UPDATE").is_some() {
            std::fs::write(path, format!("{written}{MARK}{expected}")).expect("docs/cli.md");
        } else {
            assert_eq!(
                found, expected,
                "run the test with POSTHASTE_TEST_UPDATE=1 to write it anew"
            );
        }
    }
}
