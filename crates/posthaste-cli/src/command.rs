//! The commands, one file each.

pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod discard;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod job;
pub(crate) mod list;
pub(crate) mod migrate;
pub(crate) mod pause;
pub(crate) mod redeliver;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod sink;
pub(crate) mod status;
pub(crate) mod tail;
pub(crate) mod token;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Cli, Command};
use crate::failure::Failure;

/// Does what was asked.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let place = &cli.place;
    match &cli.command {
        Command::Demo(args) => demo::run(place, args),
        Command::Run(_) => run::run(place),
        Command::Migrate(args) => wait(migrate::run(place, args)),
        Command::Doctor(_) => wait(doctor::run(place)),
        Command::Status(args) => wait(status::run(place, args)),
        Command::List(args) => wait(list::list(place, args)),
        Command::Dead(args) => wait(list::dead(place, args)),
        Command::Show(args) => wait(show::run(place, args)),
        Command::Redeliver(args) => wait(redeliver::run(place, args)),
        Command::Job(act) => wait(job::run(act, place)),
        Command::Discard(args) => wait(discard::run(place, args)),
        Command::Pause(args) => wait(pause::pause(place, args)),
        Command::Resume(args) => wait(pause::resume(place, args)),
        Command::Clean(args) => wait(clean::run(place, args)),
        Command::Tail(args) => wait(tail::run(place, args)),
        Command::Enqueue(args) => wait(enqueue::run(place, args)),
        Command::Sink(act) => wait(sink::run(act, place)),
        Command::Token(act) => token::run(place, act),
        Command::Config(act) => config::run(act, place),
        Command::Completions(args) => completions::completions(args),
        Command::Man(args) => completions::man(args),
    }
}

/// Runs a command that talks to a database. One thread is enough for a single question.
fn wait(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(command)
}

/// Comes when Ctrl-C is pressed, even if that was before it is waited for.
fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let mut signal = signal(SignalKind::interrupt())?;
    Ok(async move {
        signal.recv().await;
    })
}
