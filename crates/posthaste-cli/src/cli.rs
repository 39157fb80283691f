//! What can be typed: one struct for each command, in the order of the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::{
    clean, completions, config, demo, discard, enqueue, list, migrate, redeliver, show, status,
    tail,
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
        env = "POSTHASTE_CONFIG"
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
    Run,
    /// Make the outboxes in the database, or bring them up to date
    Migrate(migrate::Migrate),
    /// Look at all that a relay depends on, and say what to do about what is wrong
    Doctor,
    /// How each outbox stands: backlog, lag, the dead
    Status(status::Status),
    /// List events, the oldest first
    List(list::List),
    /// List dead events, with the reason and the last error
    Dead(list::Dead),
    /// All about one event
    Show(show::Show),
    /// Bring dead events back, or send delivered ones again
    Redeliver(redeliver::Redeliver),
    /// Give events up for good
    Discard(discard::Discard),
    /// Remove what is past its retention, once and now
    Clean(clean::Clean),
    /// Follow what is delivered, and what dies, as it happens
    Tail(tail::Tail),
    /// Enqueue events by hand, for trying things out
    Enqueue(enqueue::Enqueue),
    /// Check and explain the configuration
    #[command(subcommand)]
    Config(config::Act),
    /// Print what a shell needs to complete commands
    Completions(completions::Completions),
    /// Print the manual page, or write one for each command
    Man(completions::Man),
}
