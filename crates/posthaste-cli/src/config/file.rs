//! Reads a TOML file against the table of keys. What does not belong there is told with its line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Section, Shape};
use super::kind::nearest;
use super::problem::{Place, Problem};
use super::sinks::SinkType;
use super::values::Values;

/// Reads a file. Gives back whether it is TOML at all.
pub(crate) fn read(text: &str, values: &mut Values) -> bool {
    let (root, errors) = DeTable::parse_recoverable(text);
    let line = |at: usize| text[..text.floor_char_boundary(at)].matches('\n').count();
    let mut lines = Vec::new();
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        // What follows a mistake in its line is probably the same one.
        if lines.contains(&line(span.start)) {
            continue;
        }
        lines.push(line(span.start));
        let why = error.message();
        let why = why.split(", expected").next().unwrap_or(why);
        let message = format!("this is not TOML: {why}");
        let place = Place::File(span);
        values
            .problems
            .push(Problem::error(place, "", message, remedy(why)));
    }
    let headers = text
        .lines()
        .enumerate()
        .filter(|(_, text)| text.trim_start().starts_with('['));
    if headers
        .map(|(line, _)| line)
        .any(|line| lines.contains(&line))
    {
        // Without a header, nothing is where it seems to be.
        return false;
    }
    note_types(root.get_ref(), values);
    let before = values.problems.len();
    walk(root.get_ref(), None, "", values);
    let found = values.problems.split_off(before);
    values.problems.extend(found.into_iter().filter(
        |problem| !matches!(&problem.place, Place::File(span) if lines.contains(&line(span.start))),
    ));
    errors.is_empty()
}

fn remedy(why: &str) -> &'static str {
    match why {
        "string values must be quoted" => {
            "put the value into quotes, or write a number, true or false"
        }
        "duplicate key" => "leave one of them out",
        why if why.contains("string") => "a text begins and ends with a quote, in one line",
        why if why.contains("unclosed") => "close the bracket",
        _ => "a line is a [table], key = value, or # a comment",
    }
}

/// The types of the sinks come first: what keys a sink has depends on it.
fn note_types(root: &DeTable<'_>, values: &mut Values) {
    let sinks = root
        .get("sink")
        .and_then(|sinks| sinks.get_ref().as_table());
    for (name, sink) in sinks.into_iter().flatten() {
        let named = sink
            .get_ref()
            .get("type")
            .and_then(|it| it.get_ref().as_str());
        if let Some(sink) = named.and_then(SinkType::named) {
            values
                .types
                .entry(name.get_ref().to_string())
                .or_insert(sink);
        }
    }
}

/// Reads a table, `path` being where it is.
fn walk(table: &DeTable<'_>, section: Option<&Section>, path: &str, values: &mut Values) {
    let general = section.map_or("", |section| section.path);
    let sink = path
        .strip_prefix("sink.")
        .and_then(|name| values.types.get(name).copied());
    for (name, value) in table {
        let here = match path {
            "" => name.get_ref().to_string(),
            path => format!("{path}.{}", name.get_ref()),
        };
        let name_at = Place::File(name.span());
        let own =
            section.and_then(|section| section.keys(sink).find(|key| key.name == *name.get_ref()));
        if let Some(key) = own {
            let read = key.kind.read(key.name, value.get_ref());
            values.put(&here, key, Place::File(value.span()), read);
        } else if let Some(inner) =
            Section::within(general).find(|inner| inner.name() == name.get_ref())
        {
            descend(inner, &here, name_at, value, values);
        } else if general != "sink" || sink.is_some() || !of_any_sink(name.get_ref()) {
            let (help, meant) = unknown(name.get_ref(), section, sink);
            if let Some(meant) = meant.filter(|meant| !table.contains_key(*meant)) {
                values.put_broken(&format!("{path}.{meant}"));
            }
            let message = match section.map(Section::header) {
                Some(_) if sink.is_some() => {
                    let kind = sink.map_or("", |sink| sink.name);
                    format!("a sink of type {kind:?} has no key `{}`", name.get_ref())
                }
                Some(header) => format!("{header} has no key `{}`", name.get_ref()),
                None => format!("there is no key or table `{}`", name.get_ref()),
            };
            values
                .problems
                .push(Problem::error(name_at, here, message, help));
        }
    }
}

/// Reads what should be a table, a list of tables, or a table of named ones.
fn descend(
    section: &Section,
    path: &str,
    name_at: Place,
    value: &Spanned<DeValue<'_>>,
    values: &mut Values,
) {
    let refuse = |place: Place, help: String, values: &mut Values| {
        let message = format!("{} is a table", section.path);
        let problem = Problem::error(place, path, message, help);
        values.problems.push(problem);
        values.put_broken(path);
    };
    let header = section.header();
    match (section.shape, value.get_ref()) {
        (Shape::Once, DeValue::Table(table)) => {
            values.put_table(path, name_at);
            walk(table, Some(section), path, values);
        }
        (Shape::Listed, DeValue::Array(items)) => {
            for (place, item) in items.iter().enumerate() {
                let path = format!("{path}.{place}");
                match item.get_ref() {
                    DeValue::Table(table) => {
                        values.put_table(&path, Place::File(item.span()));
                        walk(table, Some(section), &path, values);
                    }
                    _ => refuse(Place::File(item.span()), format!("write {header}"), values),
                }
            }
        }
        (Shape::Listed, DeValue::Table(table)) => {
            let message = format!("{} is a list: there may be several", section.path);
            let help = format!("write {header}, with two brackets");
            values
                .problems
                .push(Problem::error(name_at.clone(), path, message, help));
            let path = format!("{path}.0");
            values.put_table(&path, name_at);
            walk(table, Some(section), &path, values);
        }
        (Shape::Named, DeValue::Table(table)) => {
            for (name, item) in table {
                let path = format!("{path}.{}", name.get_ref());
                let name_at = Place::File(name.span());
                match item.get_ref() {
                    DeValue::Table(table) => {
                        check_name(name.get_ref(), &path, &name_at, values);
                        values.put_table(&path, name_at);
                        walk(table, Some(section), &path, values);
                    }
                    _ => refuse(name_at, format!("give it a name: {header}"), values),
                }
            }
        }
        (Shape::Once | Shape::Named, DeValue::Array(items))
            if items.iter().all(|item| item.get_ref().is_table()) =>
        {
            refuse(name_at, format!("write {header}, with one bracket"), values);
        }
        _ => refuse(name_at, format!("write {header}"), values),
    }
}

/// A name has to fit into a variable, so that the environment can set every key.
pub(crate) fn check_name(name: &str, path: &str, place: &Place, values: &mut Values) {
    let fits = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.contains("__")
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('_');
    if !fits {
        values.problems.push(Problem::error(
            place.clone(),
            path,
            format!("{name:?} cannot be the name of a sink"),
            "lower-case letters, digits and single underscores, such as \"order_events\"",
        ));
    }
}

fn of_any_sink(name: &str) -> bool {
    keys::all().any(|(section, key)| section.path == "sink" && key.name == name)
}

/// What may help with a key that is not there, and which one was probably meant.
fn unknown(
    name: &str,
    section: Option<&Section>,
    sink: Option<&SinkType>,
) -> (String, Option<&'static str>) {
    let general = section.map_or("", |section| section.path);
    let own = section.into_iter().flat_map(|section| section.keys(sink));
    let tables = Section::within(general).map(Section::name);
    let known: Vec<&'static str> = own.map(|key| key.name).chain(tables).collect();
    let meant = nearest(name, known.iter().copied());
    // A password of a database does not belong into a sink that has one, too: it is part of the address.
    let of_others = |other: &Section| general != "database" || other.path != "sink";
    let others = || keys::all().filter(|(other, _)| of_others(other));
    let elsewhere = others()
        .find(|(_, key)| key.name == name)
        .or_else(|| others().find(|(_, key)| nearest(name, std::iter::once(key.name)).is_some()));
    let help = match (meant, elsewhere) {
        (Some(meant), Some((section, key))) if key.name == name => {
            format!(
                "did you mean `{meant}`? `{name}` belongs into {}",
                section.header()
            )
        }
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, Some((section, key))) if key.name == name => {
            format!("`{name}` belongs into {}", section.header())
        }
        (None, Some((section, key))) => {
            format!("did you mean `{}`, in {}?", key.name, section.header())
        }
        (None, None) => format!("there are {}", known.join(", ")),
    };
    (help, meant)
}
