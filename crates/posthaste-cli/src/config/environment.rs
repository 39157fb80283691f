//! Reads `POSTHASTE_…` variables: each sets one key, and stands above the file.

use super::file::check_name;
use super::keys::{self, Key, Section, Shape};
use super::kind::nearest;
use super::problem::{Place, Problem};
use super::sinks::SinkType;
use super::values::Values;

const PREFIX: &str = "POSTHASTE_";

/// Used by the program itself, its tests and its benchmarks.
const OTHERS: [&str; 4] = [
    "POSTHASTE_CONFIG",
    "POSTHASTE_TEST_",
    "POSTHASTE_BENCH_",
    "POSTHASTE_PG_BIN",
];

/// The last place of a list that can be set.
const LAST: usize = 999;

/// The variables that are about the configuration, in their order.
pub(crate) fn ours(environment: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let is_others = |name: &str| {
        OTHERS.iter().any(|other| match other.ends_with('_') {
            true => name.starts_with(other),
            false => name == *other,
        })
    };
    let is_ours = |name: &str| {
        name.strip_prefix(PREFIX)
            .is_some_and(|rest| !is_others(name) && !is_of_kubernetes(rest))
    };
    let mut variables: Vec<_> = environment.filter(|(name, _)| is_ours(name)).collect();
    variables.sort();
    variables
}

/// Whether this is what Kubernetes tells every pod of a Service with the name `posthaste`, given what comes after
/// the prefix. No key is called so.
fn is_of_kubernetes(rest: &str) -> bool {
    let port = || rest.strip_prefix("PORT_")?.split_once('_');
    let service = || rest.strip_prefix("SERVICE_PORT_");
    matches!(rest, "SERVICE_HOST" | "SERVICE_PORT" | "PORT")
        || service().is_some_and(|name| !name.is_empty() && !rest.contains("__"))
        || port().is_some_and(|(number, told)| {
            number.parse::<u16>().is_ok()
                && matches!(told, "TCP" | "TCP_PROTO" | "TCP_PORT" | "TCP_ADDR")
        })
}

/// The types of the sinks come first: what keys a sink has depends on it.
pub(crate) fn note_types(variables: &[(String, String)], values: &mut Values) {
    for (variable, text) in variables {
        let name = variable
            .strip_prefix("POSTHASTE_SINK__")
            .and_then(|rest| rest.strip_suffix("__TYPE"));
        if let (Some(name), Some(sink)) = (name, SinkType::named(text)) {
            values.types.insert(name.to_lowercase(), sink);
        }
    }
}

/// Reads all variables.
pub(crate) fn read(variables: &[(String, String)], values: &mut Values) {
    for (variable, text) in variables {
        let place = Place::Environment(variable.clone());
        let path = variable[PREFIX.len()..].to_lowercase().replace("__", ".");
        match find(&path, values) {
            Some((key, tables)) => {
                for table in tables {
                    if let Some(name) = table.strip_prefix("sink.") {
                        check_name(name, &table, &place, values);
                    }
                    values.put_table(&table, place.clone());
                }
                let read = key.kind.parse(text);
                values.put(&path, key, place, read);
            }
            None => {
                let message = format!("{variable} sets no key");
                let help = meant(&path, values);
                values
                    .problems
                    .push(Problem::error(place, path, message, help));
            }
        }
    }
    refuse_gaps("outbox", values);
    for place in 0..values.count("outbox") {
        refuse_gaps(&format!("outbox.{place}.route"), values);
    }
}

/// The key at a path, and the tables that it is in.
fn find(path: &str, values: &Values) -> Option<(&'static Key, Vec<String>)> {
    let mut parts = path.split('.').peekable();
    let mut tables: Vec<String> = Vec::new();
    let mut section: Option<&'static Section> = None;
    loop {
        let part = parts.next()?;
        let above = tables.last().cloned();
        let join = |name: &str| {
            above
                .as_ref()
                .map_or(name.to_owned(), |above| format!("{above}.{name}"))
        };
        if parts.peek().is_none() {
            let sink = above.as_ref().and_then(|above| above.strip_prefix("sink."));
            let sink = sink.and_then(|name| values.types.get(name).copied());
            let key = section?.keys(sink).find(|key| key.name == part)?;
            return Some((key, tables));
        }
        let general = section.map_or("", |section| section.path);
        let inner = Section::within(general).find(|inner| inner.name() == part)?;
        let table = match inner.shape {
            Shape::Once => join(part),
            Shape::Listed => {
                let place: usize = parts.next()?.parse().ok()?;
                if place > LAST {
                    return None;
                }
                format!("{}.{place}", join(part))
            }
            Shape::Named => format!("{}.{}", join(part), parts.next()?),
        };
        tables.push(table);
        section = Some(inner);
    }
}

/// What was probably meant by a variable that sets nothing.
fn meant(path: &str, values: &Values) -> String {
    let mut candidates: Vec<String> = keys::all()
        .map(|(section, key)| match section.shape {
            Shape::Named => format!("{}.name.{}", section.path, key.name),
            _ => format!("{}.{}", section.path, key.name)
                .replace("outbox.", "outbox.0.")
                .replace(".route.", ".route.0."),
        })
        .collect();
    candidates.extend(values.paths().into_iter().map(|(path, _)| path));
    match nearest(path, candidates.iter().map(String::as_str)) {
        Some(path) => format!("did you mean {}?", keys::variable(path)),
        None => "such as POSTHASTE_DATABASE__URL or POSTHASTE_OUTBOX__0__TABLE".to_owned(),
    }
}

/// Lists count from 0 without gaps: an entry that nobody described is a mistake in counting.
fn refuse_gaps(list: &str, values: &mut Values) {
    let count = values.count(list);
    let Some(gap) = (0..count).find(|n| values.table(&format!("{list}.{n}")).is_none()) else {
        return;
    };
    let path = format!("{list}.{}", count - 1);
    let place = values.table(&path).cloned().unwrap_or(Place::Nowhere);
    let message = format!("there is no {list}.{gap} before it");
    let help = format!(
        "count from 0: the next one is {}",
        keys::variable(&format!("{list}.{gap}"))
    );
    values
        .problems
        .push(Problem::error(place, path, message, help));
    // Go on without them: they would be missing all that an entry needs.
    for n in gap..count {
        values.forget_table(&format!("{list}.{n}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Value;
    use super::super::sinks::SINKS;
    use super::*;

    fn values(variables: &[(&str, &str)]) -> Values {
        let variables = variables
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let variables = ours(variables);
        let mut values = Values::default();
        note_types(&variables, &mut values);
        read(&variables, &mut values);
        values
    }

    // B15
    #[test]
    fn every_key_can_be_set_by_the_environment() {
        for (section, key) in keys::all() {
            let path = match section.path.strip_prefix("outbox") {
                _ if section.shape == Shape::Named => format!("sink.log.{}", key.name),
                Some(".route") => format!("outbox.0.route.0.{}", key.name),
                Some(rest) => format!("outbox.0{rest}.{}", key.name),
                None => format!("{}.{}", section.path, key.name),
            };
            let variable = keys::variable(&path);
            let owner = SINKS
                .iter()
                .find(|sink| sink.keys.iter().any(|its| its.doc == key.doc));
            let mut given = vec![(variable.as_str(), key.example)];
            given.extend(owner.map(|sink| ("POSTHASTE_SINK__LOG__TYPE", sink.name)));
            let values = values(&given);
            assert!(
                values.problems.is_empty(),
                "{variable}: {:?}",
                values.problems
            );
            let (value, _) = values.get(&path);
            assert!(value == key.kind.parse(key.example).ok(), "{variable}");
        }
    }

    #[test]
    fn variables_of_others_are_left_alone() {
        let values = values(&[
            ("POSTHASTE_CONFIG", "x"),
            ("POSTHASTE_TEST_POSTGRES", "x"),
            ("POSTHASTE_BENCH_EVENTS", "x"),
            ("POSTHASTE_PG_BIN", "x"),
            ("POSTHASTE", "x"),
            ("HOME", "x"),
        ]);
        assert!(values.problems.is_empty(), "{:?}", values.problems);
    }

    // As a pod beside a Service of this name has them.
    #[test]
    fn what_kubernetes_tells_of_a_service_with_our_name_is_left_alone() {
        let told = [
            ("POSTHASTE_SERVICE_HOST", "10.96.0.7"),
            ("POSTHASTE_SERVICE_PORT", "7411"),
            ("POSTHASTE_SERVICE_PORT_ADMIN", "7411"),
            ("POSTHASTE_SERVICE_PORT_HTTP_METRICS", "7411"),
            ("POSTHASTE_PORT", "tcp://10.96.0.7:7411"),
            ("POSTHASTE_PORT_7411_TCP", "tcp://10.96.0.7:7411"),
            ("POSTHASTE_PORT_7411_TCP_PROTO", "tcp"),
            ("POSTHASTE_PORT_7411_TCP_PORT", "7411"),
            ("POSTHASTE_PORT_7411_TCP_ADDR", "10.96.0.7"),
        ];
        let problems = values(&told).problems;
        assert!(problems.is_empty(), "{problems:?}");
        // Nothing else is: it may be a key that was misspelt.
        for misspelt in [
            "POSTHASTE_SERVICE",
            "POSTHASTE_SERVICE_PORT_",
            "POSTHASTE_SERVICE_PORT__ADMIN",
            "POSTHASTE_PORTS",
            "POSTHASTE_PORT_ADMIN",
            "POSTHASTE_PORT_7411_TCP_NAME",
            "POSTHASTE_DATABASE_SERVICE_HOST",
        ] {
            let problems = values(&[(misspelt, "x")]).problems;
            assert_eq!(problems.len(), 1, "{misspelt}");
        }
    }

    #[test]
    fn an_unknown_variable_is_named_with_what_was_probably_meant() {
        for (variable, meant) in [
            ("POSTHASTE_DATABASE__ULR", "POSTHASTE_DATABASE__URL"),
            ("POSTHASTE_DATABASE_URL", "POSTHASTE_DATABASE__URL"),
            (
                "POSTHASTE_OUTBOX__0__RELAY__BATCHSIZE",
                "POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE",
            ),
            ("POSTHASTE_OUTBOX__TABLE", "POSTHASTE_OUTBOX__0__TABLE"),
            ("POSTHASTE_NONSENSE", "such as POSTHASTE_DATABASE__URL"),
        ] {
            let values = values(&[(variable, "secret")]);
            let [problem] = &values.problems[..] else {
                panic!("{:?}", values.problems);
            };
            assert!(problem.message.contains(variable), "{problem:?}");
            assert!(
                problem.help.as_ref().unwrap().contains(meant),
                "{problem:?}"
            );
            assert!(!format!("{problem:?}").contains("secret"));
        }
    }

    #[test]
    fn lists_are_counted_from_zero() {
        let values = values(&[("POSTHASTE_OUTBOX__1__TABLE", "orders")]);
        assert_eq!(values.problems.len(), 1);
        assert_eq!(values.count("outbox"), 0);
        assert!(matches!(
            values.get("outbox.1.table").0,
            Some(Value::Text(_))
        ));
    }
}
