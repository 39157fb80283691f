//! What can be typed: one struct for each command, in the order of the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A transactional outbox: delivers events exactly when the database has committed them.
#[derive(Debug, Parser)]
#[command(name = "posthaste", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the outbox is, and how to answer.
#[derive(Debug, Args)]
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
    /// Relay every configured outbox until told to stop
    Run,
}
