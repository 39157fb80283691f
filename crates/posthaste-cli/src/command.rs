//! The commands, one file each.

pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod run;

use std::future::Future;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Does what was asked.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let place = &cli.place;
    match cli.command {
        Command::Run => wait_for(run::run(config::load(place)?)),
        Command::Doctor => wait_for(doctor::run(place)),
        Command::Config(act) => config::run(act, place),
    }
}

/// Runs a command that waits for databases and destinations.
fn wait_for(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(Failure::other)?.block_on(command)
}
