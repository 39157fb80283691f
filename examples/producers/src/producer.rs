//! One producer: built by its own tools, run as a process, understood by what it prints.

use std::path::Path;

use posthaste_testkit::server::{Language, Program};
use uuid::Uuid;

use crate::Result;

/// What there are producers in.
pub const LANGUAGES: [Language; 5] = [
    Language::Go,
    Language::Java,
    Language::Python,
    Language::Sql,
    Language::TypeScript,
];

/// How a producer enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// By the function of the outbox.
    Function,
    /// By a plain insert.
    Insert,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Function, Self::Insert];

    /// As producers are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Insert => "insert",
        }
    }
}

/// What a producer does with each order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Places it.
    Commit,
    /// Notices, after it has enqueued, that the item is sold out, and rolls back.
    Rollback,
    /// Places it, then again with the same dedupe key, then again with the same id.
    Duplicate,
    /// Places it with a dedupe key that producers in other languages use at the same time.
    Race,
    /// Names a topic that breaks the rule.
    BadTopic,
    /// Names no topic.
    NoTopic,
    /// Gives a dedupe key that is not the tenant's.
    BadTenant,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Commit,
        Self::Rollback,
        Self::Duplicate,
        Self::Race,
        Self::BadTopic,
        Self::NoTopic,
        Self::BadTenant,
    ];

    /// As producers are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Rollback => "rollback",
            Self::Duplicate => "duplicate",
            Self::Race => "race",
            Self::BadTopic => "bad-topic",
            Self::NoTopic => "no-topic",
            Self::BadTenant => "bad-tenant",
        }
    }
}

/// What a producer says of one try to place an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The order's number.
    pub order: u32,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a try to place an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is placed, and its event enqueued.
    New(Uuid),
    /// The event is there already. Only the function tells which it is.
    Known(Option<Uuid>),
    /// All was rolled back.
    SoldOut,
    /// The database refused the message, and the producer knows what is wrong with it.
    Refused {
        /// `topic` or `tenant`.
        what: String,
        /// The SQLSTATE.
        state: String,
    },
}

/// A producer in one of the languages, ready to run.
#[derive(Debug, Clone)]
pub struct Producer {
    /// What it is written in.
    pub language: Language,
    program: Program,
}

impl Producer {
    /// Builds the producer in this language, unless that was done before.
    pub fn build(language: Language) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(language.name());
        let program = language.build(&folder)?;
        Ok(Self { language, program })
    }

    /// Runs it on these orders, and gives what it said.
    pub fn run(&self, database: &str, way: Way, mode: Mode, orders: &[u32]) -> Result<Vec<Line>> {
        // psql has no arguments and no loops: it runs once for each order.
        let runs: Vec<&[u32]> = match self.language {
            Language::Sql => orders.chunks(1).collect(),
            _ => vec![orders],
        };
        let mut lines = Vec::new();
        for orders in runs {
            let mut command = self.program.command();
            match self.language {
                Language::Sql => {
                    for (name, value) in [("way", way.name()), ("mode", mode.name())] {
                        command.arg("-v").arg(format!("{name}={value}"));
                    }
                    for order in orders {
                        command.arg("-v").arg(format!("order={order}"));
                    }
                    command.arg(database);
                }
                _ => {
                    command.env("DATABASE_URL", database);
                    command.args([way.name(), mode.name()]);
                    command.args(orders.iter().map(u32::to_string));
                }
            }
            let output = command.output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                return Err(format!("the producer in {:?} failed: {errors}", self.language).into());
            }
            for line in String::from_utf8(output.stdout)?.lines() {
                let line = read(line).ok_or_else(|| {
                    format!(
                        "the producer in {:?} said {line:?}: {errors}",
                        self.language
                    )
                })?;
                lines.push(line);
            }
        }
        Ok(lines)
    }
}

fn read(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (order, outcome) = words.split_first()?;
    let outcome = match outcome {
        ["new", id] => Outcome::New(id.parse().ok()?),
        ["known"] => Outcome::Known(None),
        ["known", id] => Outcome::Known(Some(id.parse().ok()?)),
        ["sold", "out"] => Outcome::SoldOut,
        ["refused", what, state] => Outcome::Refused {
            what: (*what).to_owned(),
            state: (*state).to_owned(),
        },
        _ => return None,
    };
    let order = order.parse().ok()?;
    Some(Line { order, outcome })
}
