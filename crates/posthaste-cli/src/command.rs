//! The commands, one file each.

pub(crate) mod config;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Does what was asked.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Config(act) => config::run(act, &cli.place),
        Command::Run => Err(Failure::usage("not yet")),
    }
}
