//! A real Prometheus scrapes a running daemon: every rule and every panel of `ops/` is evaluated.

use std::path::Path;

use posthaste_relay::METRICS;
use posthaste_testkit::server::Prometheus;
use serde_json::Value;

use crate::look::{Refusing, TOKENS, webhook};
use crate::scene::{Scene, eventually};

fn ops(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A line of a panel.
struct Line {
    title: String,
    /// As Grafana would send it.
    query: String,
    /// The labels that name it.
    labels: Vec<String>,
}

/// Every line of every panel.
fn lines() -> Vec<Line> {
    let dashboard: Value = serde_json::from_str(&ops("grafana-dashboard.json")).unwrap();
    let mut lines = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let labels = legend.split("{{").skip(1);
            lines.push(Line {
                title: panel["title"].as_str().unwrap().to_owned(),
                query: query
                    .replace("$__rate_interval", "10s")
                    .replace("$table", ".*"),
                labels: labels
                    .map(|rest| rest.split("}}").next().unwrap().to_owned())
                    .collect(),
            });
        }
    }
    assert!(lines.len() > 30);
    lines
}

/// Whether something of what was answered can be drawn, and is named as the panel says.
fn is_drawn(line: &Line, told: &Value) -> bool {
    let series = told["data"]["result"].as_array().unwrap();
    series.iter().any(|it| {
        let value = it["value"][1].as_str().unwrap();
        let named = |label: &String| it["metric"].get(label).is_some();
        value != "NaN" && line.labels.iter().all(named)
    })
}

/// Every metric of ours that a text names.
fn named(text: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text
        .split(|c| !word(c))
        .filter(|it| it.starts_with("outbox_"));
    words
        .map(|name| {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            base.unwrap_or(name).to_owned()
        })
        .collect()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

// B16 N6 F7
#[test]
fn a_real_prometheus_evaluates_every_rule_and_every_panel() {
    let rules = ops("prometheus-rules.yaml");
    for name in named(&rules)
        .into_iter()
        .chain(lines().iter().flat_map(|it| named(&it.query)))
    {
        assert!(
            METRICS.iter().any(|metric| metric.name == name),
            "there is no {name}"
        );
    }
    let mut scene = Scene::postgres();
    // A network that can break, on the way to the database.
    let (proxy, _) = scene.through_a_network();
    let refusing = Refusing::start("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
    let sinks = format!(
        "{}\n[sink.log]\ntype = \"stdout\"\n",
        webhook(&refusing.url())
    );
    let routes = "relay.stats_interval = \"500ms\"\nclean.interval = \"500ms\"\n\
                  [[outbox.route]]\ntopic = \"*.bad.*\"\nsink = \"hook\"\n\
                  [[outbox.route]]\ntopic = \"*\"\nsink = \"log\"";
    scene.configure(TOKENS, routes, &sinks);
    // Two relays, as the manifests start: each tells all that it sees of the table.
    let daemons = [scene.run(), scene.run()];
    let targets = daemons.each_ref().map(|daemon| daemon.address.as_str());
    let fast = rules.replace("interval: 30s", "interval: 1s");
    let prometheus = Prometheus::start_with(&targets, &scene.tokens[0], &fast).unwrap();
    let ask =
        |path: &str| -> Value { serde_json::from_str(&prometheus.get(path).unwrap()).unwrap() };
    let query = |query: &str| ask(&format!("/api/v1/query?query={}", encoded(query)));
    eventually("it is scraped", || {
        query("sum(up)")["data"]["result"][0]["value"][1] == "2"
    });
    // Events between scrapes, so that rates have something to tell.
    let mut sent = 0;
    eventually("rates tell", || {
        scene.enqueue("shop.order.placed.v1", "{}", 3);
        scene.enqueue("shop.bad.placed.v1", "{}", 1);
        sent += 1;
        let rate = query("sum(rate(outbox_dispatch_total{result=\"success\"}[10s])) > 0");
        sent > 3 && !rate["data"]["result"].as_array().unwrap().is_empty()
    });
    proxy.cut();
    let pause = serde_json::json!({"destination": "hook", "why": "to see it in a panel"});
    eventually("it is back", || {
        daemons[0].post("pause", &pause).status == 200
    });
    eventually("every panel shows something", || {
        let mut empty = Vec::new();
        for line in lines() {
            let told = query(&line.query);
            let (title, text) = (&line.title, &line.query);
            assert_eq!(told["status"], "success", "{title}: {text}: {told}");
            if !is_drawn(&line, &told) {
                empty.push(line.title);
            }
        }
        scene.enqueue("shop.order.placed.v1", "{}", 1);
        println!("empty: {empty:?}");
        // A connection at rest is replaced without a word.
        if empty.iter().any(|title| title == "Database errors") {
            proxy.cut();
        }
        empty.is_empty()
    });
    let dead = daemons[0].get("events?status=dead&limit=500").done();
    let dead = dead["events"].as_array().unwrap().len().to_string();
    eventually("what is in the table is told once", || {
        let all = lines();
        let mut panels = all.iter().filter(|line| line.title == "Dead");
        panels.all(
            |Line { query: text, .. }| match text.contains("outbox_dead{") {
                true => query(text)["data"]["result"][0]["value"][1] == dead.as_str(),
                false => true,
            },
        )
    });
    // The choice of outboxes, as Grafana fills it.
    let outboxes = ask("/api/v1/label/table/values?match%5B%5D=outbox_pending");
    assert_eq!(outboxes["data"], serde_json::json!([scene.table]));
    eventually("every rule was evaluated", || {
        let told = ask("/api/v1/rules");
        let groups = told["data"]["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups
            .iter()
            .flat_map(|it| it["rules"].as_array().unwrap())
            .collect();
        assert_eq!(rules.len(), 17, "{told}");
        for rule in &rules {
            assert_ne!(rule["health"], "err", "{rule}");
        }
        rules.iter().all(|rule| rule["health"] == "ok")
    });
}

// F7
#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    let told = Prometheus::promtool(&folder, &["test", "rules", "prometheus-rules.test.yaml"]);
    assert!(told.unwrap().contains("SUCCESS"));
    // None is left out of these tests.
    let (rules, tests) = (
        ops("prometheus-rules.yaml"),
        ops("prometheus-rules.test.yaml"),
    );
    let alerts: Vec<&str> = rules
        .split("- alert: ")
        .skip(1)
        .map(|rest| rest.lines().next().unwrap())
        .collect();
    assert_eq!(alerts.len(), 14);
    for alert in alerts {
        let start = format!("alertname: {alert}");
        let cases = tests.split(start.as_str()).skip(1);
        let (quiet, loud): (Vec<&str>, Vec<&str>) = cases
            .map(|rest| rest.split_once("exp_alerts:").unwrap().1)
            .partition(|rest| rest.trim_start().starts_with("[]"));
        assert!(quiet.len() >= 2, "{alert} is not seen to keep quiet");
        assert!(!loud.is_empty(), "{alert} is not seen to fire");
    }
}
