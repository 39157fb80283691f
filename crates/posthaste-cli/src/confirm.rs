//! Asks before anything is changed. Without a terminal nobody is there to ask.

use std::io::{BufRead, IsTerminal, Write};

use crate::failure::Failure;

/// Asks a question that is answered with yes, unless that was answered beforehand.
///
/// On standard error, so that standard output holds the answer of the command only.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Failure::usage(format!(
            "{question} There is no terminal to answer in: add --yes to go ahead, or --dry-run to only look"
        )));
    }
    write!(anstream::stderr(), "{question} [y/N] ")?;
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Other("nothing was changed".to_owned())),
    }
}
