//! What cannot work together is refused, with the line of the key at fault.
//!
//! What a relay refuses by itself is written in the relay; here is the rest.

use std::collections::BTreeMap;

use posthaste_relay::Pattern;

use super::address::without_password;
use super::explain::default;
use super::keys::{self, Default as Otherwise};
use super::problem::{Place, Problem, Severity, Source};
use super::values::{Origin, Values};
use super::{Outbox, Route};

/// How many connections a relayed outbox in PostgreSQL has, and one that is only cleaned.
const CONNECTIONS: (u32, u32) = (4, 1);

/// Whether every event has somewhere to go, and every route something to do.
pub(crate) fn routes(
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
            .any(|route| route.is_by_topic() && Pattern::new(&*route.topic).matches(topic))
    };
    let takes_all = |route: &Route| route.is_by_topic() && Pattern::new(&*route.topic).is_any();
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
pub(crate) fn without_effect(values: &mut Values, path: &str, other: &str, needed: &str) {
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
        None if setting == "dead_letters" => format!("{outbox}.dead_letter.topic"),
        None => format!("{outbox}.relay.{setting}"),
    }
}

/// What the relay itself would refuse.
pub(crate) fn settings(values: &mut Values, source: &Source, place: usize, outbox: &Outbox) {
    let path = format!("outbox.{place}");
    let problems = outbox.settings.problems();
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
pub(crate) fn twins(values: &mut Values, source: &Source, outboxes: &[Option<Outbox>]) {
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
pub(crate) fn connections(values: &mut Values, outboxes: &[Option<Outbox>]) {
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
        let connections = match (outbox.settings.deliver, outbox.settings.cleaning.enabled) {
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
pub(crate) fn unused(values: &mut Values, outboxes: &[Option<Outbox>]) {
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
        let topics = &outbox.settings.scope.topics;
        let letters = outbox.settings.dead_letters.as_ref();
        if let Some(topic) = letters.filter(|it| !topics.is_empty() && !topics.contains(it)) {
            let path = format!("outbox.{place}.dead_letter.topic");
            let at = values.place(&path);
            let message =
                format!("dead letters stay in the outbox: {topic:?} is not among its topics");
            let help = "add it to the outbox's topics, unless another relay delivers the letters";
            values
                .problems
                .push(Problem::error(at, path, message, help).warning());
        }
        if outbox.notify && !outbox.database.is_postgres() {
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
    use posthaste_relay::{Cleaning, Retry, Settings};
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
            error_limit: 0,
            dead_letters: Some(String::new()),
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
