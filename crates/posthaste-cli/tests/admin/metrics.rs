//! What is scraped is what the reference tells, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_relay::{METRICS, MetricKind};

use crate::look::{TOKENS, webhook};
use crate::scene::{STDOUT, Scene, eventually, every_database};

every_database! { every_metric_that_is_scraped_is_in_the_reference_and_most_are_scraped }

// B16
#[test]
fn outboxes_with_one_name_in_several_databases_are_told_apart() {
    let scene = Scene::sqlite();
    let table = &scene.table;
    let off = "relay.enabled = false\nrelay.stats_interval = \"200ms\"";
    let other = format!(
        "[[outbox]]\ntable = \"{table}\"\ndatabase.url = \"sqlite:other.db\"\n{off}\n\n{STDOUT}"
    );
    scene.configure(TOKENS, off, &other);
    scene.posthaste(&["migrate"]);
    for (database, count) in [("sqlite:shop.db", "3"), ("sqlite:other.db", "5")] {
        let there = ["--table", table, "--database", database];
        let enqueue = ["enqueue", "shop.order.placed.v1", "--count", count];
        scene.posthaste(&[enqueue, there].concat());
    }
    let daemon = scene.run();
    eventually("each tells its own", || {
        let text = daemon.get("/metrics").body;
        let pending = |name: &str, count| {
            text.contains(&format!("outbox_pending{{table=\"{name}\"}} {count}"))
        };
        pending(table, 3) && pending(&format!("{table}~2"), 5)
    });
}

/// The names and labels of all samples.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = rest
            .split_once('{')
            .map_or("", |(_, it)| it.rsplit_once('}').unwrap().0);
        let labels = labels
            .split("\",")
            .filter_map(|pair| pair.split_once("=\""));
        found
            .entry(name.to_owned())
            .or_default()
            .extend(labels.map(|(name, _)| name.to_owned()));
    }
    found
}

// B16 N6 F7
fn every_metric_that_is_scraped_is_in_the_reference_and_most_are_scraped(scene: &Scene) {
    let refusing = crate::look::Refusing::start("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
    let sinks = format!(
        "{}\n[sink.log]\ntype = \"stdout\"\n",
        webhook(&refusing.url())
    );
    let routes = "relay.stats_interval = \"200ms\"\nclean.interval = \"200ms\"\n\
                  [[outbox.route]]\ntopic = \"*.bad.*\"\nsink = \"hook\"\n\
                  [[outbox.route]]\ntopic = \"*\"\nsink = \"log\"";
    scene.configure(TOKENS, routes, &sinks);
    scene.enqueue("shop.order.placed.v1", "{}", 3);
    scene.enqueue("shop.bad.placed.v1", "{}", 2);
    let daemon = scene.run();
    daemon.has(3, "delivered");
    daemon.has(2, "dead");
    let mut text = String::new();
    eventually("the gauges tell", || {
        let told = daemon.get("/metrics");
        assert!(
            told.header("content-type")
                .unwrap()
                .starts_with("text/plain")
        );
        text = told.body;
        let dead = format!("outbox_dead{{table=\"{}\"}} 2", scene.table);
        text.contains(&dead) && text.contains("outbox_clean_seconds_count")
    });
    let found = samples(&text);
    for (name, labels) in &found {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let metric = METRICS.iter().find(|metric| {
            let plain = matches!(metric.kind, MetricKind::Counter | MetricKind::Gauge);
            metric.name
                == if plain {
                    name.as_str()
                } else {
                    base.unwrap_or("")
                }
        });
        let metric = metric.unwrap_or_else(|| panic!("{name} is in no reference"));
        let told: BTreeSet<String> = metric.labels.iter().map(|it| (*it).to_owned()).collect();
        let labels: BTreeSet<String> = labels.iter().filter(|it| *it != "le").cloned().collect();
        assert_eq!(labels, told, "{name}");
        let kind = format!("# TYPE {} {}", metric.name, metric.kind.as_str());
        assert!(text.contains(&kind), "{kind}");
        assert!(text.contains(&format!("# HELP {} ", metric.name)), "{name}");
    }
    // Whoever enqueued them: here, another process.
    let enqueued = format!("outbox_enqueued_total{{table=\"{}\"}} 5", scene.table);
    assert!(text.contains(&enqueued), "{text}");
    // What did not happen here is not told here.
    let absent = [
        "outbox_enqueue_total",
        "outbox_store_errors_total",
        // SQLite has none of these.
        "outbox_oldest_transaction_seconds",
        "outbox_index_bytes",
        "outbox_dead_rows",
        "outbox_database_connections",
        "outbox_database_connection_limit",
    ];
    for metric in METRICS
        .iter()
        .filter(|metric| !absent.contains(&metric.name))
    {
        let starts = found.keys().any(|name| name.starts_with(metric.name));
        assert!(starts, "{} is not scraped", metric.name);
    }
    let reasons = format!(
        "outbox_dead_total{{table=\"{}\",topic=\"shop.bad.placed.v1\",result=\"rejected\"}} 2",
        scene.table
    );
    assert!(text.contains(&reasons), "{text}");
}

const MARK: &str = "<!-- What follows is written by a test. -->\n";

// B16
#[test]
fn the_guide_tells_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (written, found) = document
        .split_once(MARK)
        .expect("the mark in docs/metrics.md");
    let mut table = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
        table.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            metric.name,
            metric.kind.as_str(),
            labels.join(", "),
            metric.about
        ));
    }
    if std::env::var_os("POSTHASTE_TEST_UPDATE").is_some() {
        std::fs::write(path, format!("{written}{MARK}{table}")).unwrap();
    } else {
        assert_eq!(
            found, table,
            "run the test with POSTHASTE_TEST_UPDATE=1 to write it anew"
        );
    }
}
