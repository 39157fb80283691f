//! What a key may hold: how it is read from TOML and from text, and how it is shown.

use std::time::Duration;

use posthaste::Table;
use toml::de::{DeInteger, DeValue};
use uuid::Uuid;

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
    /// Never shown. What the first sink with a password needs.
    #[allow(dead_code, reason = "stdout has no secret; the brokers' sinks have")]
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
            Self::Duration => "a duration, such as \"500ms\", \"1s\" or \"1h30m\"".to_owned(),
            Self::Size => "a size, such as \"16MiB\" or a number of bytes".to_owned(),
            Self::Word(words) => format!("one of {}", one_of(words)),
            Self::Table => "the name of a table, such as \"public.orders_outbox\"".to_owned(),
            Self::Uuid => "a uuid in quotes".to_owned(),
            Self::Database => {
                "the address of a database, such as \"postgres://localhost/shop\" or \"sqlite:shop.db\""
                    .to_owned()
            }
            Self::Secret => "a secret in quotes".to_owned(),
            Self::File(_) => "the path of a file, in quotes".to_owned(),
        }
    }

    /// Whether a value must not be shown as it is.
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::Database | Self::Secret)
    }

    /// Reads a value of a TOML file.
    pub(crate) fn read(self, name: &str, value: &DeValue<'_>) -> Result<Value, Refusal> {
        match (self, value) {
            (Self::Boolean, DeValue::Boolean(value)) => Ok(Value::Boolean(*value)),
            (Self::Integer { .. } | Self::Size, DeValue::Integer(number)) => self.integer(number),
            (Self::Texts, DeValue::Array(items)) => {
                let texts = items
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map_or_else(
                    || Err(self.expected("a list of something else")),
                    |texts| Ok(Value::Texts(texts)),
                )
            }
            (Self::Boolean | Self::Integer { .. } | Self::Texts, DeValue::String(text)) => {
                let mut refusal = self.expected("a string");
                if self != Self::Texts && self.parse(text).is_ok() {
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
            (Self::Size, Value::Integer(bytes)) => show_size(*bytes),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Texts(texts)) => texts.join(","),
            (_, Value::Integer(number)) => number.to_string(),
            (_, Value::Boolean(value)) => value.to_string(),
            (_, Value::Duration(duration)) => show_duration(*duration),
        }
    }

    /// The value as TOML, as people may see it.
    pub(crate) fn toml(self, value: &Value) -> String {
        match value {
            Value::Integer(_) if self != Self::Size => self.show(value),
            Value::Boolean(_) => self.show(value),
            Value::Texts(texts) => format!("{texts:?}"),
            _ => format!("{:?}", self.show(value)),
        }
    }
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

/// From the largest to the smallest, with its milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    if text.is_empty() {
        return Err("it is empty");
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (number, after) = match digits {
            Some(0) => return Err("a whole number is missing"),
            Some(end) => rest.split_at(end),
            None => return Err("the unit is missing"),
        };
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if UNITS.iter().all(|(name, _)| *name != unit) {
            return Err("the unit is not known");
        }
        // The iterator goes on from the last unit, so that each comes once, and in its order.
        let Some((_, millis)) = units.find(|(name, _)| *name == unit) else {
            return Err("larger units come first, each once");
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*millis))
            .and_then(|part| total.checked_add(part))
            .ok_or("it is too long")?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

pub(crate) fn show_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    if !rest.is_multiple_of(1000) && rest < 60_000 {
        return format!("{rest}ms");
    }
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let (number, left) = (rest / u128::from(millis), rest % u128::from(millis));
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
        rest = left;
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

fn parse_size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let bytes = match unit.trim_start() {
        "" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(bytes)
}

fn show_size(bytes: u64) -> String {
    match SIZES
        .iter()
        .find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size))
    {
        Some((unit, size)) if *size > 1 => format!("{}{unit}", bytes / size),
        _ => bytes.to_string(),
    }
}

/// Whether this can be the address of a database. What is refused is not repeated: it may hold a password.
fn check_address(text: &str) -> Result<(), Refusal> {
    if let Some(file) = text.strip_prefix("sqlite:") {
        return match file.trim_start_matches('/') {
            "" => Err(Refusal::new(
                "the file is missing",
                "such as \"sqlite:shop.db\"",
            )),
            _ if file.contains(":memory:") => Err(Refusal::new(
                "a database in memory is seen by no other process",
                "name a file, such as \"sqlite:shop.db\"",
            )),
            _ => Ok(()),
        };
    }
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        let what = match text.split_once("://") {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                format!("there is no store for {scheme}://")
            }
            _ => "it is not the address of a database".to_owned(),
        };
        return Err(Refusal::new(
            what,
            "\"postgres://user:password@host:5432/database\" or \"sqlite:shop.db\"",
        ));
    }
    text.parse::<tokio_postgres::Config>().map(|_| ()).map_err(|error| {
        // Only what cannot hold a part of the address.
        let why = std::error::Error::source(&error)
            .map(ToString::to_string)
            .filter(|why| why.starts_with("invalid value for option"))
            .map_or_else(String::new, |why| format!(": {why}"));
        Refusal::new(
            format!("it is not a valid PostgreSQL address{why}"),
            "\"postgres://user:password@host:5432/database\", with special characters percent-encoded",
        )
    })
}

/// An address with its password replaced, or nothing of it if it is not one.
pub(crate) fn without_password(text: &str) -> String {
    if text.starts_with("sqlite:") {
        return text.to_owned();
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return "***".to_owned();
    };
    // The last @ ends the password, even if it was not encoded as it should be.
    let (who, place) = match rest.rsplit_once('@') {
        Some((who, place)) => (Some(who), place),
        None => (None, rest),
    };
    if who.is_some_and(|who| who.contains(['?', '='])) {
        return format!("{scheme}://***");
    }
    // Options may hold one, too, even if their question mark is missing.
    let place = match place.split_once('?') {
        None if !place.contains('=') => place.to_owned(),
        Some((place, _)) if !place.contains('=') => format!("{place}?***"),
        _ => "***".to_owned(),
    };
    match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
        Some((user, "")) => format!("{scheme}://{user}@{place}"),
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, millis, shown) in [
            ("0s", 0, "0s"),
            ("500ms", 500, "500ms"),
            ("1s", 1000, "1s"),
            ("1600ms", 1600, "1600ms"),
            ("90s", 90_000, "1m30s"),
            ("5m", 300_000, "5m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("168h", 604_800_000, "7d"),
            ("1d2h3m4s5ms", 93_784_005, "1d2h3m4s5ms"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(show_duration(duration), shown);
            assert_eq!(parse_duration(shown).unwrap(), duration);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        for (text, why) in [
            ("", "empty"),
            ("5", "unit is missing"),
            ("s", "number is missing"),
            ("-1s", "number is missing"),
            ("1.5s", "unit is not known"),
            ("1 s", "unit is not known"),
            ("1w", "unit is not known"),
            ("1S", "unit is not known"),
            ("5m5m", "each once"),
            ("30m1h", "larger units come first"),
            ("99999999999999999999d", "too long"),
            ("18446744073709551615ms1", "unit is missing"),
            ("18446744073709551615d", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("16MiB", 16 << 20, "16MiB"),
            ("1024", 1024, "1KiB"),
            ("1 GiB", 1 << 30, "1GiB"),
            ("100B", 100, "100"),
            ("0", 0, "0"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(show_size(bytes), shown);
        }
        for text in ["", "MiB", "1MB?", "-1", "1.5MiB", "99999999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://localhost/shop", "postgres://localhost/shop"),
            ("postgres://app@db/shop", "postgres://app@db/shop"),
            (
                "postgres://app:hunter2@db/shop",
                "postgres://app:***@db/shop",
            ),
            (
                "postgres://app:hun@ter2@db/shop",
                "postgres://app:***@db/shop",
            ),
            ("postgres://app:a:b@db", "postgres://app:***@db"),
            ("postgres://app:a?b@db", "postgres://***"),
            ("postgres://a:b@db/x?password=c@d", "postgres://***"),
            (
                "postgres://db/shop?user=a&password=hunter2",
                "postgres://db/shop?***",
            ),
            ("host=db password=hunter2", "***"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }

    #[test]
    fn a_refused_address_is_not_repeated() {
        for text in [
            "hunter2",
            "mysql://root:hunter2@db/shop",
            "postgres://app:hunter2@db:port/shop",
            "postgres://app:x@db/shop?hunter2=1",
            "host=db password=hunter2",
        ] {
            let refusal = Kind::Database.parse(text).err().unwrap();
            assert!(!format!("{refusal:?}").contains("hunter2"), "{refusal:?}");
        }
    }
}
