//! The `posthaste` program: reads what it is asked to do, does it, and says how it ended.

mod admin;
mod cli;
mod command;
mod config;
mod confirm;
mod failure;
mod filter;
mod log;
mod output;
mod place;
mod progress;
mod serve;
mod supervisor;
mod sweep;
mod time;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match command::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
