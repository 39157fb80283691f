//! The commands, one file each.

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Does what was asked.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run => Err(Failure::usage("not yet")),
    }
}
