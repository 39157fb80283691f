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

/// Every query of every panel, as Grafana would send it.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&ops("grafana-dashboard.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$__rate_interval", "10s")
                .replace("$table", ".*");
            queries.push((title.to_owned(), query));
        }
    }
    queries
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
        .chain(queries().iter().flat_map(|it| named(&it.1)))
    {
        assert!(
            METRICS.iter().any(|metric| metric.name == name),
            "there is no {name}"
        );
    }
    let scene = Scene::postgres();
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
    // The database did not fail.
    let may_be_empty = |query: &str| query.contains("outbox_store_errors_total");
    eventually("every panel shows something", || {
        let mut empty = Vec::new();
        for (title, text) in queries() {
            let told = query(&text);
            assert_eq!(told["status"], "success", "{title}: {text}: {told}");
            let is_empty = told["data"]["result"].as_array().unwrap().is_empty();
            if is_empty && !may_be_empty(&text) {
                empty.push(title);
            }
        }
        scene.enqueue("shop.order.placed.v1", "{}", 1);
        println!("empty: {empty:?}");
        empty.is_empty()
    });
    let dead = daemons[0].get("events?status=dead&limit=500").done();
    let dead = dead["events"].as_array().unwrap().len().to_string();
    eventually("what is in the table is told once", || {
        let all = queries();
        let mut panels = all.iter().filter(|(title, _)| title == "Dead");
        panels.all(|(_, text)| match text.contains("outbox_dead{") {
            true => query(text)["data"]["result"][0]["value"][1] == dead.as_str(),
            false => true,
        })
    });
    eventually("every rule was evaluated", || {
        let told = ask("/api/v1/rules");
        let groups = told["data"]["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups
            .iter()
            .flat_map(|it| it["rules"].as_array().unwrap())
            .collect();
        assert_eq!(rules.len(), 15, "{told}");
        for rule in &rules {
            assert_ne!(rule["health"], "err", "{rule}");
        }
        rules.iter().all(|rule| rule["health"] == "ok")
    });
}

#[test]
fn alerts_fire_when_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops");
    let told = Prometheus::promtool(&folder, &["test", "rules", "prometheus-rules.test.yaml"]);
    assert!(told.unwrap().contains("SUCCESS"));
}
