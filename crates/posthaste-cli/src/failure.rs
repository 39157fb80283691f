//! How a command ends when it could not do as asked: a message for people, a code for scripts.

use std::process::ExitCode;

use posthaste::StoreError;
use posthaste::schema::SchemaError;

use crate::config::{Outbox, Problems, without_password};
use crate::output::{BAD, colours};

/// Why a command ended, and the exit code that says so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was typed, or configured, cannot be done. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The configuration cannot be used. Exit code 2.
    #[error("{0}")]
    Configuration(Problems),
    /// The same, and it was said already. Exit code 2.
    #[error("the configuration cannot be used")]
    Told,
    /// The database is not reachable. Exit code 3.
    #[error("{0}")]
    Unavailable(String),
    /// The outbox is not set up, or not as this version needs it. Exit code 4.
    #[error("{0}")]
    Schema(String),
    /// Something is found to be wrong, as a check was asked to tell. Exit code 5.
    #[error("{0}")]
    Unhealthy(String),
    /// Anything else. Exit code 1.
    #[error("{0}")]
    Other(String),
    /// Whoever read the answer has had enough, as `head` has. Exit code 0, and nothing is said.
    #[error("nobody reads the answer")]
    Unread,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn other(error: impl std::error::Error) -> Self {
        Self::Other(whole(&error))
    }

    /// Why the database of an outbox could not be asked, with what to ask oneself if it is a server.
    pub(crate) fn to_reach(outbox: &Outbox, error: StoreError) -> Self {
        let address = without_password(&outbox.database.url);
        let whose = format!("{} at {address}", outbox.table);
        match Self::from(error) {
            Self::Unavailable(why) => {
                let ask = match outbox.database.is_postgres() {
                    true => " Is the server running, and the address right?",
                    false => "",
                };
                Self::Unavailable(format!("{whose}: {why}{ask}"))
            }
            Self::Other(why) => {
                let remedy = match why.contains("SQLSTATE 3D000") {
                    true => ". Create it first, such as with createdb",
                    false => "",
                };
                Self::Other(format!("{whose}: {why}{remedy}"))
            }
            // On SQLite it names the file itself.
            Self::Schema(why) if outbox.database.is_postgres() => {
                match why.strip_prefix(&outbox.table.to_string()) {
                    Some(rest) => Self::Schema(format!("{whose}{rest}")),
                    None => Self::Schema(format!("{whose}: {why}")),
                }
            }
            other => other,
        }
    }

    /// Several as one: each is said, and the gravest gives the code. What may pass by itself is the least.
    pub(crate) fn together(failures: Vec<Self>) -> Result<(), Self> {
        let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let said = said.join("\n");
        let gravest = failures.into_iter().max_by_key(|failure| match failure {
            Self::Unavailable(_) => 0,
            Self::Other(_) => 1,
            Self::Schema(_) => 2,
            _ => 3,
        });
        match gravest {
            None => Ok(()),
            Some(Self::Unavailable(_)) => Err(Self::Unavailable(said)),
            Some(Self::Other(_)) => Err(Self::Other(said)),
            Some(Self::Schema(_)) => Err(Self::Schema(said)),
            Some(Self::Usage(_)) => Err(Self::Usage(said)),
            Some(other) => Err(other),
        }
    }

    /// The exit code. Documented in the help and in `docs/cli.md`: scripts depend on it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Unread => 0,
            Self::Other(_) => 1,
            Self::Usage(_) | Self::Configuration(_) | Self::Told => 2,
            Self::Unavailable(_) => 3,
            Self::Schema(_) => 4,
            Self::Unhealthy(_) => 5,
        }
    }

    /// For commands that have more to do, or to find, than to tell: that nobody reads on ends nothing.
    pub(crate) fn unless_unread(told: Result<(), Self>) -> Result<(), Self> {
        match told {
            Err(Self::Unread) => Ok(()),
            told => told,
        }
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Configuration(problems) => eprint!("{}", problems.report(colours())),
            Self::Told | Self::Unread => {}
            other => anstream::eprintln!("{BAD}error:{BAD:#} {other}"),
        }
        ExitCode::from(self.code())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        Self::Schema(match &error {
            SchemaError::Missing { table } => {
                format!("{table} is not set up: run posthaste migrate")
            }
            SchemaError::Older {
                table,
                found,
                needed,
            } => format!(
                "{table} has schema version {found}, and this version needs {needed}: run posthaste migrate"
            ),
            error => whole(error),
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(format!("{}.", whole(&error))),
            StoreError::Schema(error) => error.into(),
            StoreError::Settings(why) => Self::Usage(why),
            other => Self::Other(whole(&other)),
        }
    }
}

/// An error with everything that caused it.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors quote what caused them.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn only_of_a_server_is_it_asked_whether_it_runs() {
        let locked = || StoreError::Unavailable("another process has kept the file locked".into());
        let told = |url: &str| {
            let outbox = Config::empty().outbox(Some(url), Some("orders")).unwrap();
            Failure::to_reach(&outbox, locked()).to_string()
        };
        let server = told("postgres://ann:s3cret@localhost/shop");
        assert!(server.starts_with("public.orders at postgres://ann:***@localhost/shop: "));
        assert!(server.ends_with("locked. Is the server running, and the address right?"));
        assert!(told("sqlite:shop.db").ends_with("locked."));
        assert!(Failure::from(locked()).to_string().ends_with("locked."));
    }
}
