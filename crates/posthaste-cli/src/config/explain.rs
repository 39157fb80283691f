//! What each key does, what it holds now, and where that comes from.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::Reading;
use super::keys::{self, Default as Otherwise, Key, Section, Shape};
use super::kind::{Kind, nearest};
use super::values::Origin;

/// All that holds now: one line for each key.
pub(crate) fn explain(reading: &Reading) -> String {
    let rows: Vec<[String; 3]> = rows(reading)
        .into_iter()
        .map(|row| [row.path, row.value, row.origin])
        .collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let mut out = String::new();
    for [path, value, origin] in &rows {
        let _ = writeln!(out, "{path:first$}  {value:second$}  {origin}");
    }
    out
}

/// One key: what it does, and what it holds now. `Err`: there is no such key.
pub(crate) fn explain_key(reading: Option<&Reading>, path: &str) -> Result<String, String> {
    let Some((section, key)) = keys::find(path) else {
        return Err(not_found(path));
    };
    let general = keys::general(path);
    let mut out = format!("{general}\n  {}\n\n", key.doc);
    let mut line = |name: &str, text: &str| {
        let _ = writeln!(out, "  {name:12} {text}");
    };
    line("table", &section.header());
    line("kind", &key.kind.describe());
    line("default", &default(key));
    line("example", &example(key));
    line("environment", &keys::variable(&particular(section, key)));
    let rows = reading.map(rows).unwrap_or_default();
    for row in rows.iter().filter(|row| row.is_about(path, &general)) {
        line(
            "now",
            &format!("{} = {}  ({})", row.path, row.value, row.origin),
        );
    }
    Ok(out)
}

/// The same for scripts: all keys, or those that a path is about.
pub(crate) fn settings_as_json(reading: &Reading, path: Option<&str>) -> Result<Json, String> {
    if let Some(path) = path.filter(|path| keys::find(path).is_none()) {
        return Err(not_found(path));
    }
    let general = path.map(keys::general);
    let about = |row: &Row| match (path, &general) {
        (Some(path), Some(general)) => row.is_about(path, general),
        _ => true,
    };
    let rows = rows(reading).into_iter().filter(about);
    Ok(rows
        .map(|row| {
            json!({
                "key": row.path,
                "value": row.value,
                "origin": row.origin,
                "default": match row.key.default {
                    Otherwise::Is(text) => Some(text),
                    _ => None,
                },
                "environment": keys::variable(&row.path),
                "doc": row.key.doc,
            })
        })
        .collect())
}

/// What a key holds now.
struct Row {
    path: String,
    key: &'static Key,
    value: String,
    origin: String,
}

impl Row {
    /// Whether it is the key that was asked for, in particular or in general.
    fn is_about(&self, path: &str, general: &str) -> bool {
        match path == general {
            true => keys::general(&self.path) == general,
            false => self.path == path,
        }
    }
}

fn rows(reading: &Reading) -> Vec<Row> {
    let values = &reading.values;
    let row = |(path, key): (String, &'static Key)| {
        let (value, origin) = values.get(&path);
        let origin = match origin {
            Origin::Default if values.is_broken(&path) => "refused, see `config check`".to_owned(),
            Origin::Default => "default".to_owned(),
            Origin::Profile(profile, section) => format!("profile {profile}: {section}"),
            Origin::Given(place) => reading.source.locate(&place),
        };
        let value = match value {
            Some(value) => key.kind.toml(&value),
            None => "unset".to_owned(),
        };
        Row {
            path,
            key,
            value,
            origin,
        }
    };
    values.paths().into_iter().map(row).collect()
}

/// The default, as TOML.
pub(crate) fn default(key: &Key) -> String {
    match key.default {
        Otherwise::Is(text) => as_toml(key, text),
        Otherwise::Unset => "unset".to_owned(),
        Otherwise::Required => "required".to_owned(),
    }
}

/// The example, as a line of TOML.
pub(crate) fn example(key: &Key) -> String {
    format!("{} = {}", key.name, as_toml(key, key.example))
}

/// A text as it is in a table of this program, as TOML.
pub(crate) fn as_toml(key: &Key, text: &str) -> String {
    if key.kind == Kind::Duration {
        // As it is in the table: 60s is not told as 1m.
        return format!("{text:?}");
    }
    let value = key.kind.parse(text).expect("tested for every key");
    key.kind.toml(&value)
}

/// A path with the first place of each list.
pub(crate) fn particular(section: &Section, key: &Key) -> String {
    let path = match section.shape {
        Shape::Named => format!("{}.name.{}", section.path, key.name),
        _ => format!("{}.{}", section.path, key.name),
    };
    path.replace("outbox.", "outbox.0.")
        .replace(".route.", ".route.0.")
}

fn not_found(path: &str) -> String {
    let all: Vec<String> = keys::all()
        .map(|(section, key)| format!("{}.{}", section.path, key.name))
        .collect();
    let wanted = keys::general(path);
    let last = wanted.rsplit('.').next().unwrap_or_default();
    let same_name: Vec<&str> = all
        .iter()
        .filter(|path| path.rsplit('.').next() == Some(last))
        .map(String::as_str)
        .collect();
    let meant = match &same_name[..] {
        [] => nearest(&wanted, all.iter().map(String::as_str))
            .into_iter()
            .collect(),
        _ => same_name,
    };
    match &meant[..] {
        [] => format!("there is no key {path:?}: `posthaste config explain` lists all of them"),
        meant => format!(
            "there is no key {path:?}: did you mean {}?",
            meant.join(" or ")
        ),
    }
}
