//! `posthaste token`: makes tokens. What lets somebody in is shown once; what is kept holds no secret.

use std::io::Write;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use crate::admin::role::{ROLES, Role};
use crate::admin::token::{self, Token};
use crate::cli::Place;
use crate::failure::Failure;
use crate::output::Output;
use crate::time::parse_duration;

const EXAMPLES: &str = "\
Examples:
  posthaste token create ada --role operator --expires 90d
  posthaste token create prometheus --role viewer-no-payload
  posthaste token create ada --json | jq -r .line >> /etc/posthaste/tokens

The token is printed once, and kept nowhere. The line goes into tokens under [admin], or into the
file that tokens_file names; it holds no secret. The daemon reads both when it starts.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Make a token, and print it with the line that lets it in
    Create(Create),
}

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Create {
    /// Whose it is: the audit log tells who acted by this name
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// What it is good for
    #[arg(long, default_value = "viewer-no-payload", value_parser = role())]
    role: Role,
    /// For how long, e.g. 90d [default: until it is taken out of the file]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    expires: Option<Duration>,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Created<'t> {
    name: &'t str,
    role: &'static str,
    expires: Option<String>,
    token: &'t str,
    line: &'t str,
}

pub(crate) fn run(place: &Place, act: &Act) -> Result<(), Failure> {
    let Act::Create(args) = act;
    let expires = args.expires.map(after).transpose()?;
    let (secret, token) = Token::create(&args.name, args.role, expires);
    let line = token.line();
    let output = Output::new(place.json);
    if output.json {
        return output.json(&Created {
            name: &token.name,
            role: token.role.name(),
            expires: token.expires.map(|at| format!("{at:.0}")),
            token: &secret,
            line: &line,
        });
    }
    writeln!(
        std::io::stdout(),
        "The token, shown only now:\n  {secret}\n\nThe line for tokens under [admin], or for the file of tokens_file:\n  {line}"
    )?;
    Ok(())
}

fn after(duration: Duration) -> Result<Timestamp, Failure> {
    let at = SystemTime::now().checked_add(duration);
    let at = at.and_then(|at| Timestamp::try_from(at).ok());
    at.ok_or_else(|| Failure::usage("--expires: this is too far away"))
}

fn name(text: &str) -> Result<String, String> {
    match token::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("1 to 64 letters, digits or . _ @ -".to_owned()),
    }
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(ROLES)
        .map(|name| Role::named(&name).expect("one of the possible values"))
}
