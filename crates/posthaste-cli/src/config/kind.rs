//! What a key may hold: how it is read from TOML and from text, and how it is shown.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::Table;
use toml::de::{DeInteger, DeValue};
use uuid::Uuid;

use super::address::{check_address, without_password, without_secrets};
use super::measure::{parse_duration, parse_size, show_duration, show_size};
use crate::admin::token::Token;

/// What a key may hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Text,
    /// In TOML a list of texts; in the environment with commas between them.
    Texts,
    Integer {
        min: u64,
        max: u64,
    },
    Boolean,
    /// A number from 0 to 1.
    Ratio,
    Duration,
    /// Bytes.
    Size,
    /// One of these.
    Word(&'static [&'static str]),
    /// The name of an outbox.
    Table,
    Uuid,
    /// The address of a database. May hold a password.
    Database,
    /// An address and a port of this machine.
    Listen,
    /// Who may call: a list of lines, as `posthaste token create` prints them.
    Tokens,
    /// Never shown.
    Secret,
    /// A file that holds the value of the key of this name.
    File(&'static str),
}

/// What a key holds.
#[derive(Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Integer(u64),
    Boolean(bool),
    Ratio(f64),
    Duration(Duration),
}

/// Why a value was refused: what is wrong, and what would be right.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) what: String,
    pub(crate) help: Option<String>,
}

impl Refusal {
    pub(crate) fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            help: Some(help.into()),
        }
    }
}

impl Kind {
    /// What it is, after "expected".
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Text => "text in quotes".to_owned(),
            Self::Texts => "a list of texts, such as [\"a\", \"b\"]".to_owned(),
            Self::Integer { min, max } if max >= u64::from(u32::MAX) => {
                format!("an integer of at least {min}")
            }
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Boolean => "true or false".to_owned(),
            Self::Ratio => "a number from 0 to 1".to_owned(),
            Self::Duration => "a duration, such as \"500ms\", \"1s\" or \"1h30m\"".to_owned(),
            Self::Size => "a size, such as \"16MiB\" or a number of bytes".to_owned(),
            Self::Word(words) => format!("one of {}", one_of(words)),
            Self::Table => "the name of a table, such as \"public.orders_outbox\"".to_owned(),
            Self::Uuid => "a uuid in quotes".to_owned(),
            Self::Database => {
                "the address of a database, such as \"postgres://localhost/shop\" or \"sqlite:shop.db\""
                    .to_owned()
            }
            Self::Listen => {
                "an address and a port, such as \"127.0.0.1:7411\" or \"[::1]:7411\"".to_owned()
            }
            Self::Tokens => "a list of lines that `posthaste token create` prints".to_owned(),
            Self::Secret => "a secret in quotes".to_owned(),
            Self::File(_) => "the path of a file, in quotes".to_owned(),
        }
    }

    /// Whether a value must not be shown as it is.
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::Database | Self::Secret | Self::Tokens)
    }

    /// Reads a value of a TOML file.
    pub(crate) fn read(self, name: &str, value: &DeValue<'_>) -> Result<Value, Refusal> {
        match (self, value) {
            (Self::Boolean, DeValue::Boolean(value)) => Ok(Value::Boolean(*value)),
            (Self::Integer { .. } | Self::Size, DeValue::Integer(number)) => self.integer(number),
            (Self::Ratio, DeValue::Integer(number)) => self.parse(number.as_str()),
            (Self::Ratio, DeValue::Float(number)) => self.parse(number.as_str()),
            (Self::Texts | Self::Tokens, DeValue::Array(items)) => {
                let texts = items
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned));
                match (self, texts.collect::<Option<Vec<_>>>()) {
                    (_, None) => Err(self.expected("a list of something else")),
                    (Self::Tokens, Some(lines)) => self.tokens(lines),
                    (_, Some(texts)) => Ok(Value::Texts(texts)),
                }
            }
            (
                Self::Boolean | Self::Integer { .. } | Self::Ratio | Self::Texts | Self::Tokens,
                DeValue::String(text),
            ) => {
                let mut refusal = self.expected("a string");
                let listed = matches!(self, Self::Texts | Self::Tokens);
                if !listed && self.parse(text).is_ok() {
                    refusal.help = Some(format!("without quotes: {name} = {text}"));
                }
                Err(refusal)
            }
            (_, DeValue::String(text)) => self.parse(text),
            (Self::Duration, DeValue::Integer(number)) => Err(Refusal::new(
                self.expected("an integer").what,
                format!("with a unit, in quotes: {name} = \"{number}s\" or \"{number}ms\""),
            )),
            (_, other) => Err(self.expected(found(other))),
        }
    }

    /// Reads a value given as text: by the environment, a default or a profile.
    pub(crate) fn parse(self, text: &str) -> Result<Value, Refusal> {
        match self {
            Self::Text | Self::Secret => Ok(Value::Text(text.to_owned())),
            Self::File(_) if text.is_empty() => Err(self.expected("nothing")),
            Self::File(_) => Ok(Value::Text(text.to_owned())),
            Self::Texts => Ok(Value::Texts(
                text.split(',')
                    .map(|part| part.trim().to_owned())
                    .filter(|part| !part.is_empty())
                    .collect(),
            )),
            Self::Integer { .. } => match text.parse::<i128>() {
                Ok(number) => self.within(number),
                Err(_) => Err(self.expected(&format!("{text:?}"))),
            },
            Self::Boolean => match text {
                "true" => Ok(Value::Boolean(true)),
                "false" => Ok(Value::Boolean(false)),
                _ => Err(Refusal::new(
                    format!("{text:?} is neither true nor false"),
                    "write true or false",
                )),
            },
            Self::Ratio => match text.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(Value::Ratio(number)),
                _ => Err(Refusal::new(
                    format!("{text} is not a number from 0 to 1"),
                    "write 1 for all, or such as 0.1 for one in ten",
                )),
            },
            Self::Duration => parse_duration(text).map(Value::Duration).map_err(|why| {
                Refusal::new(
                    format!("{text:?} is not a duration: {why}"),
                    "a number and a unit (ms, s, m, h or d), such as \"500ms\", \"1s\" or \"1h30m\"",
                )
            }),
            Self::Size => parse_size(text).map(Value::Integer).ok_or_else(|| {
                Refusal::new(
                    format!("{text:?} is not a size"),
                    "a number of bytes, or one with a unit (KiB, MiB or GiB), such as \"16MiB\"",
                )
            }),
            Self::Word(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Self::Word(words) => Err(Refusal::new(
                format!("{text:?} is not one of {}", one_of(words)),
                match nearest(text, words.iter().copied()) {
                    Some(word) => format!("did you mean {word:?}?"),
                    None => format!("one of {}", one_of(words)),
                },
            )),
            Self::Table => match Table::parse(text) {
                Ok(_) => Ok(Value::Text(text.to_owned())),
                Err(error) => Err(Refusal::new(
                    error.to_string(),
                    "a name such as \"orders_outbox\" or \"shop.orders_outbox\"",
                )),
            },
            Self::Uuid if text.is_empty() || Uuid::try_parse(text).is_ok() => {
                Ok(Value::Text(text.to_owned()))
            }
            Self::Uuid => Err(Refusal::new(
                format!("{text:?} is not a uuid"),
                "such as \"67e55044-10b1-426f-9247-bb680e5fe0c8\"",
            )),
            Self::Database => check_address(text).map(|()| Value::Text(text.to_owned())),
            Self::Listen => match text.parse::<SocketAddr>() {
                Ok(_) => Ok(Value::Text(text.to_owned())),
                Err(_) => Err(Refusal::new(
                    format!("{text:?} is not an address with a port"),
                    "such as \"127.0.0.1:7411\", or \"0.0.0.0:7411\" for all of this machine's addresses",
                )),
            },
            Self::Tokens => {
                let lines = text.split(['\n', ',']).map(|line| {
                    let line = line.split('#').next().unwrap_or_default();
                    line.trim().to_owned()
                });
                self.tokens(lines.filter(|line| !line.is_empty()).collect())
            }
        }
    }

    fn tokens(self, lines: Vec<String>) -> Result<Value, Refusal> {
        match lines.iter().find_map(|line| Token::parse(line).err()) {
            None => Ok(Value::Texts(lines)),
            Some(why) => Err(Refusal::new(
                why,
                "run `posthaste token create NAME`: it prints the line to put here",
            )),
        }
    }

    fn integer(self, number: &DeInteger<'_>) -> Result<Value, Refusal> {
        match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => self.within(number),
            Err(_) => Err(self.expected("a number that is too large")),
        }
    }

    fn within(self, number: i128) -> Result<Value, Refusal> {
        let (min, max) = match self {
            Self::Integer { min, max } => (min, max),
            _ => (0, u64::MAX),
        };
        match u64::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => Ok(Value::Integer(number)),
            _ if number < i128::from(min) => Err(Refusal::new(
                format!("{number} is too small"),
                self.describe(),
            )),
            _ => Err(Refusal::new(
                format!("{number} is too large"),
                format!("an integer from {min} to {max}"),
            )),
        }
    }

    fn expected(self, found: &str) -> Refusal {
        Refusal {
            what: format!("expected {}, found {found}", self.describe()),
            help: None,
        }
    }

    /// The value as people may see it.
    pub(crate) fn show(self, value: &Value) -> String {
        match (self, value) {
            (Self::Database, Value::Text(text)) => without_password(text),
            (Self::Secret, _) => "***".to_owned(),
            (Self::Tokens, Value::Texts(lines)) => named(lines).join(","),
            (Self::Size, Value::Integer(bytes)) => show_size(*bytes),
            (_, Value::Text(text)) => without_secrets(text),
            (_, Value::Texts(texts)) => shown(texts).join(","),
            (_, Value::Integer(number)) => number.to_string(),
            (_, Value::Boolean(value)) => value.to_string(),
            (_, Value::Ratio(number)) => number.to_string(),
            (_, Value::Duration(duration)) => show_duration(*duration),
        }
    }

    /// The value as TOML, as people may see it.
    pub(crate) fn toml(self, value: &Value) -> String {
        match value {
            Value::Integer(_) if self != Self::Size => self.show(value),
            Value::Boolean(_) | Value::Ratio(_) => self.show(value),
            Value::Texts(lines) if self == Self::Tokens => format!("{:?}", named(lines)),
            Value::Texts(texts) => format!("{:?}", shown(texts)),
            _ => format!("{:?}", self.show(value)),
        }
    }
}

fn shown(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| without_secrets(text)).collect()
}

/// Name and role of each token: the hash says nothing to people.
fn named(lines: &[String]) -> Vec<String> {
    let short = |line: &String| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    lines.iter().map(short).collect()
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    quoted.join(", ")
}

/// The word that was probably meant.
pub(crate) fn nearest<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(text);
    words
        .map(|word| (strsim::jaro_winkler(&wanted, &plain(word)), word))
        .filter(|(likeness, _)| *likeness > 0.82)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}
