//! `posthaste completions` and `posthaste man`: what a shell and a reader want to know.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  posthaste completions bash > ~/.local/share/bash-completion/completions/posthaste
  posthaste completions zsh > \"${fpath[1]}/_posthaste\"
  posthaste completions fish > ~/.config/fish/completions/posthaste.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  posthaste man | man -l -
  posthaste man /usr/local/share/man/man1";

#[derive(Debug, Args)]
#[command(after_long_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = MAN_EXAMPLES)]
pub(crate) struct Man {
    /// Where to put a page for each command [default: the main page goes to standard output]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "posthaste", &mut script);
    print(&script)
}

pub(crate) fn man(args: &Man) -> Result<(), Failure> {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return print(&page);
    };
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        Failure::Other(format!("cannot write to {}: {error}", directory.display()))
    })
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    use std::io::Write;

    std::io::stdout().write_all(bytes)?;
    Ok(())
}
