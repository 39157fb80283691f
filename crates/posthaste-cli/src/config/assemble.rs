//! Makes a configuration of what was given, and refuses what cannot work together.

use std::collections::BTreeMap;

use posthaste::Table;
use posthaste::store::{OnFailure, Ordering};
use posthaste_relay::{Cleaning, Mode, Pattern, Retry};

use super::explain::default;
use super::keys::{self, Default as Otherwise};
use super::kind::without_password;
use super::problem::{Place, Problem, Severity, Source};
use super::sinks::SinkType;
use super::values::{Group, Origin, Values};
use super::{Config, Database, Destination, Log, Outbox, Problems, Relay, Route};

/// How many connections a relayed outbox in PostgreSQL has, and one that is only cleaned.
const CONNECTIONS: (u32, u32) = (4, 1);

/// `None` if something is missing or refused, which was noted.
pub(crate) fn assemble(values: &mut Values, source: &Source) -> Option<Config> {
    let log = log(values);
    let sinks = sinks(values);
    let shared = values
        .table("database")
        .is_some()
        .then(|| database(values, "database"))
        .flatten();
    let count = values.count("outbox");
    if count == 0 {
        values.problems.push(Problem::error(
            Place::Nowhere,
            "outbox",
            "there is no outbox",
            "add [[outbox]] with its table, or set POSTHASTE_OUTBOX__0__TABLE",
        ));
    }
    let outboxes: Vec<Option<Outbox>> = (0..count)
        .map(|place| outbox(values, place, shared.as_ref(), &sinks))
        .collect();
    for (place, outbox) in outboxes.iter().enumerate() {
        if let Some(outbox) = outbox {
            check_settings(values, source, place, outbox);
        }
    }
    check_twins(values, source, &outboxes);
    check_connections(values, &outboxes);
    check_unused(values, &outboxes);
    Some(Config {
        log: log?,
        outboxes: outboxes.into_iter().collect::<Option<_>>()?,
        sinks: sinks
            .into_iter()
            .map(|(name, sink)| Some((name, sink?)))
            .collect::<Option<_>>()?,
        warnings: Problems::default(),
    })
}

fn group(values: &mut Values, path: impl Into<String>) -> Group<'_> {
    Group {
        values,
        path: path.into(),
    }
}

fn log(values: &mut Values) -> Option<Log> {
    let mut log = group(values, "log");
    Some(Log {
        level: log.text("level")?,
        json: log.text("format")? == "json",
    })
}

/// By name; `None` for one that cannot be made.
fn sinks(values: &mut Values) -> BTreeMap<String, Option<Destination>> {
    let names = values.sinks();
    let read = |name: String| {
        let mut keys = group(values, format!("sink.{name}"));
        let kind = keys.text("type");
        let concurrency = keys.integer("concurrency");
        let sink = kind
            .and_then(|kind| SinkType::named(&kind))
            .and_then(|kind| (kind.read)(&mut keys));
        let destination = sink.map(|sink| Destination {
            sink,
            concurrency: concurrency.and_then(|n| usize::try_from(n).ok()),
        });
        (name, destination)
    };
    names.into_iter().map(read).collect()
}

fn database(values: &mut Values, path: &str) -> Option<Database> {
    let mut keys = group(values, path);
    let url = keys.text("url");
    let max_connections = keys.count("max_connections");
    Some(Database {
        url: url?,
        max_connections: max_connections?,
    })
}

fn outbox(
    values: &mut Values,
    place: usize,
    shared: Option<&Database>,
    sinks: &BTreeMap<String, Option<Destination>>,
) -> Option<Outbox> {
    let path = format!("outbox.{place}");
    let database = outbox_database(values, &path, shared);
    let mut keys = group(values, &path);
    let table = keys
        .text("table")
        .and_then(|table| Table::parse(&table).ok());
    let namespace = keys.some_text("namespace");
    let topics = keys.texts("topics");
    let tenant = keys.some_text("tenant").and_then(|text| text.parse().ok());
    let on_failure = match keys.text("on_failure")?.as_str() {
        "park" => OnFailure::Park,
        "skip" => OnFailure::Skip,
        _ => OnFailure::Block,
    };
    let ordering = match keys.text("ordering")?.as_str() {
        "key" => Ordering::Key(on_failure),
        _ => Ordering::None,
    };
    let mode = match keys.text("mode")?.as_str() {
        "single-active" => Mode::SingleActive,
        _ => Mode::Parallel,
    };
    without_effect(
        values,
        &format!("{path}.on_failure"),
        &format!("{path}.ordering"),
        "key",
    );
    let relay = relay(values, &path)?;
    let (retry, max_attempts) = retry(values, &path)?;
    let cleaning = cleaning(values, &path)?;
    let routes = routes(values, &path, &relay, &topics, sinks);
    Some(Outbox {
        table: table?,
        database: database?,
        namespace,
        topics,
        tenant,
        ordering,
        mode,
        relay,
        retry,
        max_attempts,
        cleaning,
        routes,
    })
}

fn outbox_database(values: &mut Values, path: &str, shared: Option<&Database>) -> Option<Database> {
    let own = format!("{path}.database");
    if values.table(&own).is_some() {
        return database(values, &own);
    }
    if values.table("database").is_none() && !values.is_broken("database") {
        let place = values.table(path).cloned().unwrap_or(Place::Nowhere);
        values.problems.push(Problem::error(
            place,
            own,
            "this outbox has no database",
            "add [database] with its url, or set POSTHASTE_DATABASE__URL",
        ));
    }
    shared.cloned()
}

fn relay(values: &mut Values, outbox: &str) -> Option<Relay> {
    let mut keys = group(values, format!("{outbox}.relay"));
    Some(Relay {
        enabled: keys.boolean("enabled")?,
        batch_size: keys.count("batch_size")?,
        poll_interval: keys.duration("poll_interval")?,
        lease: keys.duration("lease")?,
        dispatch_timeout: keys.duration("dispatch_timeout")?,
        in_flight: usize::try_from(keys.integer("in_flight")?).ok()?,
        in_flight_bytes: usize::try_from(keys.integer("in_flight_bytes")?).ok()?,
        notify: keys.boolean("notify")?,
        stats_interval: keys.duration("stats_interval")?,
        mask_tenant: keys.boolean("mask_tenant")?,
    })
}

fn retry(values: &mut Values, outbox: &str) -> Option<(Retry, u32)> {
    let mut keys = group(values, format!("{outbox}.retry"));
    let (base, max) = (keys.duration("base")?, keys.duration("max")?);
    let jitter = keys.duration("jitter")?;
    let retry = match keys.text("policy")?.as_str() {
        "additive-jitter" => Retry::AdditiveJitter { base, max, jitter },
        "exponential" => Retry::Exponential { base, max },
        "fixed" => Retry::Fixed { delay: base },
        _ => Retry::EqualJitter { base, max },
    };
    let max_attempts = keys.count("max_attempts")?;
    let (jitter, policy) = (keys.at("jitter"), keys.at("policy"));
    without_effect(values, &jitter, &policy, "additive-jitter");
    Some((retry, max_attempts))
}

fn cleaning(values: &mut Values, outbox: &str) -> Option<Cleaning> {
    let mut keys = group(values, format!("{outbox}.clean"));
    Some(Cleaning {
        enabled: keys.boolean("enabled")?,
        interval: keys.duration("interval")?,
        retention: keys.duration("retention")?,
        dead_retention: Some(keys.duration("dead_retention")?).filter(|it| !it.is_zero()),
        archive: keys.boolean("archive")?,
        batch_size: keys.count("batch_size")?,
    })
}

/// Where everything goes. What is not relayed needs no sink.
fn routes(
    values: &mut Values,
    outbox: &str,
    relay: &Relay,
    topics: &[String],
    sinks: &BTreeMap<String, Option<Destination>>,
) -> Vec<Route> {
    let path = format!("{outbox}.route");
    let routes: Vec<(String, Option<Route>)> = (0..values.count(&path))
        .map(|place| {
            let mut keys = group(values, format!("{path}.{place}"));
            let (topic, sink) = (keys.text("topic"), keys.text("sink"));
            let route = topic.zip(sink).map(|(topic, sink)| Route { topic, sink });
            (keys.path, route)
        })
        .collect();
    for (path, route) in &routes {
        if let Some(route) = route
            .as_ref()
            .filter(|route| !sinks.contains_key(&route.sink))
        {
            let path = format!("{path}.sink");
            let message = format!("there is no sink {:?}", route.sink);
            let help = match &sinks.keys().map(String::as_str).collect::<Vec<_>>()[..] {
                [] => format!("add [sink.{}] with its type", route.sink),
                names => match super::kind::nearest(&route.sink, names.iter().copied()) {
                    Some(name) => format!("did you mean {name:?}?"),
                    None => format!("add [sink.{}], or use {}", route.sink, names.join(" or ")),
                },
            };
            let place = values.place(&path);
            values
                .problems
                .push(Problem::error(place, path, message, help));
        }
    }
    let whole = routes.iter().all(|(_, route)| route.is_some());
    let mut found: Vec<Route> = routes.into_iter().filter_map(|(_, route)| route).collect();
    if let (true, true, [only]) = (
        found.is_empty(),
        whole,
        &sinks.keys().collect::<Vec<_>>()[..],
    ) {
        found.push(Route {
            topic: "*".to_owned(),
            sink: (*only).clone(),
        });
    }
    if relay.enabled && whole && !values.is_broken("sink") {
        check_routes(values, outbox, &found, topics, sinks.len());
    }
    found
}

/// Whether every event has somewhere to go, and every route something to do.
fn check_routes(
    values: &mut Values,
    outbox: &str,
    routes: &[Route],
    topics: &[String],
    sinks: usize,
) {
    let path = format!("{outbox}.route");
    let last = match routes.len() {
        0 => values.place(&path),
        count => {
            let last = format!("{path}.{}", count - 1);
            values.table(&last).cloned().unwrap_or(Place::Nowhere)
        }
    };
    let goes = |topic: &str| {
        routes
            .iter()
            .any(|route| Pattern::new(&*route.topic).matches(topic))
    };
    let takes_all =
        |route: &Route| !route.topic.is_empty() && route.topic.chars().all(|c| c == '*');
    let lost: Vec<&String> = topics.iter().filter(|topic| !goes(topic)).collect();
    let (message, help) = match (sinks, routes) {
        (0, []) => (
            "this outbox has nowhere to deliver to".to_owned(),
            "add a sink, such as [sink.log] with type = \"stdout\", or set relay.enabled = false"
                .to_owned(),
        ),
        (_, []) => (
            "there are several sinks, and no route".to_owned(),
            "say with [[outbox.route]] what goes where".to_owned(),
        ),
        _ if topics.is_empty() && !routes.iter().any(takes_all) => (
            "an event that no route is for would have nowhere to go".to_owned(),
            "end with a route that matches everything: topic = \"*\"".to_owned(),
        ),
        _ if !lost.is_empty() => (
            format!("no route is for {:?}", lost[0]),
            "add a route for it, or end with one that matches everything: topic = \"*\"".to_owned(),
        ),
        _ => {
            let after = routes
                .iter()
                .position(takes_all)
                .map_or(routes.len(), |all| all + 1);
            for place in after..routes.len() {
                let path = format!("{path}.{place}");
                let at = values.table(&path).cloned().unwrap_or(Place::Nowhere);
                let message = "nothing gets here: a route before it matches everything";
                let problem = Problem::error(
                    at,
                    path,
                    message,
                    "put it before that route, or leave it out",
                );
                values.problems.push(problem.warning());
            }
            return;
        }
    };
    values
        .problems
        .push(Problem::error(last, path, message, help));
}

/// A value that was chosen, and would do nothing, is a misunderstanding.
fn without_effect(values: &mut Values, path: &str, other: &str, needed: &str) {
    let given = |path: &str| matches!(values.get(path).1, Origin::Given(_));
    let shown = |path: &str| shown(values, path).unwrap_or_default();
    let default = keys::find(path).map(|(_, key)| key.default);
    let is_default = matches!(default, Some(Otherwise::Is(text)) if text == shown(path));
    if !given(path) || shown(other) == needed || values.is_broken(other) || is_default {
        return;
    }
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let message = format!(
        "{} does nothing with {} = {:?}",
        name(path),
        name(other),
        shown(other)
    );
    let help = format!(
        "set {} = {needed:?}, or leave {} out",
        name(other),
        name(path)
    );
    let place = values.place(path);
    values
        .problems
        .push(Problem::error(place, path, message, help));
}

/// What a key holds, as people may see it.
fn shown(values: &Values, path: &str) -> Option<String> {
    let (_, key) = keys::find(path)?;
    values.get(path).0.map(|value| key.kind.show(&value))
}

/// The key of a setting of the relay.
fn key_of(outbox: &str, setting: &str) -> String {
    match setting.split_once('.') {
        Some(("cleaning", name)) => format!("{outbox}.clean.{name}"),
        Some(_) => format!("{outbox}.{setting}"),
        None if setting == "max_attempts" => format!("{outbox}.retry.{setting}"),
        None => format!("{outbox}.relay.{setting}"),
    }
}

/// What the relay itself would refuse.
fn check_settings(values: &mut Values, source: &Source, place: usize, outbox: &Outbox) {
    let path = format!("outbox.{place}");
    let problems = outbox.settings().problems();
    let alone: Vec<&str> = problems
        .iter()
        .filter_map(|problem| match problem.settings {
            [only] => Some(*only),
            _ => None,
        })
        .collect();
    for problem in &problems {
        let settings = problem.settings;
        // What is wrong by itself fits nothing else, either: said once is enough.
        let repeats = settings.len() > 1 && settings.iter().any(|name| alone.contains(name));
        let keys: Vec<String> = settings.iter().map(|name| key_of(&path, name)).collect();
        if repeats || keys.iter().any(|key| values.is_broken(key)) {
            continue;
        }
        let rank = |key: &&String| match values.get(key).1 {
            Origin::Given(_) => 0,
            Origin::Profile(..) => 1,
            Origin::Default => 2,
        };
        let culprit = keys
            .iter()
            .min_by_key(rank)
            .expect("a problem names its settings");
        let told = |key: &String| told(values, source, key);
        let help = match &keys[..] {
            [only] => keys::find(only).map(|(_, key)| format!("the default is {}", default(key))),
            keys => Some(keys.iter().map(told).collect::<Vec<_>>().join(", ")),
        };
        let at = values.place(culprit);
        values.problems.push(Problem::error(
            at,
            culprit,
            &problem.why,
            help.unwrap_or_default(),
        ));
    }
}

/// Such as `lease is 60s (default)`.
fn told(values: &Values, source: &Source, path: &str) -> String {
    let name = path.rsplit('.').next().unwrap_or_default();
    let from = match values.get(path).1 {
        Origin::Default => "default".to_owned(),
        Origin::Profile(profile, _) => format!("profile {profile}"),
        Origin::Given(place) => source.locate(&place),
    };
    format!(
        "{name} is {} ({from})",
        shown(values, path).unwrap_or_default()
    )
}

/// Two relays of one outbox in one process would take each other's events.
fn check_twins(values: &mut Values, source: &Source, outboxes: &[Option<Outbox>]) {
    for (place, outbox) in outboxes.iter().enumerate() {
        let same = |other: &Outbox| {
            outbox
                .as_ref()
                .is_some_and(|it| it.table == other.table && it.database.url == other.database.url)
        };
        let Some(twin) = outboxes[..place]
            .iter()
            .position(|other| other.as_ref().is_some_and(same))
        else {
            continue;
        };
        let path = format!("outbox.{place}.table");
        let first = source.locate(&values.place(&format!("outbox.{twin}.table")));
        let message = format!("this outbox is configured twice: first at {first}");
        let help = "describe it once; [[outbox.route]] sends its topics to several sinks";
        let at = values.place(&path);
        values
            .problems
            .push(Problem::error(at, path, message, help));
    }
}

/// Whether the connections suffice: those of `[database]` for all outboxes there.
fn check_connections(values: &mut Values, outboxes: &[Option<Outbox>]) {
    let mut needs: BTreeMap<String, (u32, usize, u32)> = BTreeMap::new();
    for (place, outbox) in outboxes.iter().enumerate() {
        let Some(outbox) = outbox.as_ref().filter(|it| it.database.is_postgres()) else {
            continue;
        };
        let own = format!("outbox.{place}.database");
        let path = match values.table(&own) {
            Some(_) => own,
            None => "database".to_owned(),
        };
        let connections = match (outbox.relay.enabled, outbox.cleaning.enabled) {
            (true, _) => CONNECTIONS.0,
            (false, true) => CONNECTIONS.1,
            (false, false) => 0,
        };
        let entry = needs
            .entry(path)
            .or_insert((0, 0, outbox.database.max_connections));
        entry.0 += connections;
        entry.1 += 1;
    }
    for (path, (needed, count, allowed)) in needs {
        let path = format!("{path}.max_connections");
        if needed <= allowed || values.is_broken(&path) {
            continue;
        }
        let outboxes = match count {
            1 => "the outbox needs".to_owned(),
            count => format!("its {count} outboxes need"),
        };
        let message = format!("max_connections is {allowed}, but {outboxes} {needed}");
        let help = format!("set max_connections = {needed} or more: a relayed outbox needs four");
        let place = values.place(&path);
        values
            .problems
            .push(Problem::error(place, path, message, help));
    }
}

/// What does nothing, but harms nothing either.
fn check_unused(values: &mut Values, outboxes: &[Option<Outbox>]) {
    // What cannot be read may be of use.
    if values
        .problems
        .iter()
        .any(|problem| problem.severity == Severity::Error)
    {
        return;
    }
    for name in values.sinks() {
        let mut routes = outboxes.iter().flatten().flat_map(|outbox| &outbox.routes);
        if routes.any(|route| route.sink == name) {
            continue;
        }
        let path = format!("sink.{name}");
        let place = values.table(&path).cloned().unwrap_or(Place::Nowhere);
        let problem = Problem::error(
            place,
            path,
            format!("no route leads to the sink {name:?}"),
            "add a route to it, or leave it out",
        );
        values.problems.push(problem.warning());
    }
    for (place, outbox) in outboxes.iter().enumerate() {
        let Some(outbox) = outbox.as_ref() else {
            continue;
        };
        if outbox.relay.notify && !outbox.database.is_postgres() {
            let path = format!("outbox.{place}.relay.notify");
            let at = values.place(&path);
            let url = without_password(&outbox.database.url);
            let message =
                format!("notify does nothing on {url}: relays there notice commits by themselves");
            values
                .problems
                .push(Problem::error(at, path, message, "leave it out").warning());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_relay::Settings;
    use std::time::Duration;

    #[test]
    fn every_setting_that_a_relay_refuses_is_a_key() {
        let zero = Duration::ZERO;
        let base = Settings::default();
        let mut settings = vec![Settings {
            batch_size: 0,
            in_flight: 0,
            in_flight_bytes: 0,
            max_attempts: 0,
            poll_interval: zero,
            dispatch_timeout: zero,
            lease: zero,
            stats_interval: zero,
            retry: Retry::Exponential {
                base: zero,
                max: zero,
            },
            cleaning: Cleaning {
                interval: zero,
                batch_size: 0,
                archive: true,
                retention: zero,
                ..Cleaning::default()
            },
            ..base.clone()
        }];
        let long = Duration::MAX;
        settings.push(Settings {
            poll_interval: long,
            dispatch_timeout: long,
            lease: long,
            stats_interval: long,
            in_flight: 1,
            retry: Retry::Fixed { delay: long },
            cleaning: Cleaning {
                interval: long,
                retention: long,
                dead_retention: Some(long),
                ..Cleaning::default()
            },
            ..base.clone()
        });
        settings.push(Settings {
            retry: Retry::Exponential {
                base: long,
                max: zero,
            },
            ..base
        });
        let problems: Vec<_> = settings.iter().flat_map(Settings::problems).collect();
        assert!(problems.len() >= 20, "{problems:?}");
        for setting in problems.iter().flat_map(|problem| problem.settings) {
            let path = key_of("outbox.0", setting);
            assert!(keys::find(&path).is_some(), "{path}");
        }
    }
}
