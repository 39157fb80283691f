//! Makes a configuration of what was given.

use std::collections::BTreeMap;

use posthaste::Table;
use posthaste::store::{OnFailure, Ordering, Scope};
use posthaste_relay::{Cleaning, Mode, Retry, Settings};

use super::kind::nearest;
use super::problem::{Place, Problem, Source};
use super::sinks::SinkType;
use super::values::{Group, Values};
use super::{Config, Database, Destination, Log, Outbox, Problems, Route};
use super::{admin, check, trace};

/// `None` if something is missing or refused, which was noted.
pub(crate) fn assemble(values: &mut Values, source: &Source) -> Option<Config> {
    let log = log(values);
    let admin = admin::read(values);
    let tracing = trace::read(values);
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
            check::settings(values, source, place, outbox);
        }
    }
    check::twins(values, source, &outboxes);
    check::connections(values, &outboxes);
    check::unused(values, &outboxes);
    Some(Config {
        log: log?,
        admin: admin?,
        tracing: tracing?,
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
            .and_then(|kind| (kind.make)(&mut keys));
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
    let tenant_id = keys.some_text("tenant").and_then(|text| text.parse().ok());
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
    check::without_effect(
        values,
        &format!("{path}.on_failure"),
        &format!("{path}.ordering"),
        "key",
    );
    let notify = group(values, format!("{path}.relay")).boolean("notify")?;
    let scope = Scope {
        namespace,
        topics,
        tenant_id,
    };
    let dead_letters = group(values, format!("{path}.dead_letter")).some_text("topic");
    let relay = relay(values, &path)?;
    let settings = Settings {
        ordering,
        mode,
        scope,
        dead_letters,
        cleaning: cleaning(values, &path)?,
        ..retry(values, &path, relay)?
    };
    let routes = routes(values, &path, &settings, sinks);
    Some(Outbox {
        table: table?,
        database: database?,
        settings,
        notify,
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

fn relay(values: &mut Values, outbox: &str) -> Option<Settings> {
    let mut keys = group(values, format!("{outbox}.relay"));
    Some(Settings {
        deliver: keys.boolean("enabled")?,
        batch_size: keys.count("batch_size")?,
        poll_interval: keys.duration("poll_interval")?,
        lease: keys.duration("lease")?,
        dispatch_timeout: keys.duration("dispatch_timeout")?,
        in_flight: usize::try_from(keys.integer("in_flight")?).ok()?,
        in_flight_bytes: usize::try_from(keys.integer("in_flight_bytes")?).ok()?,
        error_limit: usize::try_from(keys.integer("error_limit")?).ok()?,
        stats_interval: keys.duration("stats_interval")?,
        mask_tenant: keys.boolean("mask_tenant")?,
        ..Settings::default()
    })
}

fn retry(values: &mut Values, outbox: &str, settings: Settings) -> Option<Settings> {
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
    check::without_effect(values, &jitter, &policy, "additive-jitter");
    Some(Settings {
        retry,
        max_attempts,
        ..settings
    })
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
    settings: &Settings,
    sinks: &BTreeMap<String, Option<Destination>>,
) -> Vec<Route> {
    let path = format!("{outbox}.route");
    let routes: Vec<(String, Option<Route>)> = (0..values.count(&path))
        .map(|place| {
            let mut keys = group(values, format!("{path}.{place}"));
            let (topic, sink) = (keys.text("topic"), keys.text("sink"));
            let namespace = keys.some_text("namespace");
            let tenant = keys.some_text("tenant").and_then(|text| text.parse().ok());
            let aggregate_type = keys.some_text("aggregate_type");
            let route = topic.zip(sink).map(|(topic, sink)| Route {
                topic,
                namespace,
                tenant,
                aggregate_type,
                sink,
            });
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
                names => match nearest(&route.sink, names.iter().copied()) {
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
            sink: (*only).clone(),
            ..Route::everything()
        });
    }
    if settings.deliver && whole && !values.is_broken("sink") {
        check::routes(values, outbox, &found, &settings.scope.topics, sinks.len());
    }
    found
}
