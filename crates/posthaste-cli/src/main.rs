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
use tikv_jemallocator::Jemalloc;

use crate::cli::Cli;

/// An event is read on one thread and sent on another, which slows the allocator of most systems down.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match command::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
