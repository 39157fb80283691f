//! Probes and checks: well, ill with a remedy, and on the way out.

use serde_json::{Value, json};

use crate::look::{TOKENS, webhook};
use crate::scene::{Scene, eventually, every_database};
use crate::shape::fits;

every_database! {
    a_daemon_that_serves_is_live_ready_and_well
}

fn check<'v>(health: &'v Value, name: &str) -> &'v Value {
    let checks = health["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == name).unwrap()
}

// F8
fn a_daemon_that_serves_is_live_ready_and_well(scene: &Scene) {
    let mut daemon = scene.run();
    eventually("it is ready", || {
        daemon.ask("GET", "/readyz").send().status == 200
    });
    assert_eq!(
        daemon.ask("GET", "/livez").send().done(),
        json!({"status": "ok"})
    );
    daemon
        .ask("GET", "/healthz")
        .send()
        .fails(401, "admin.unauthenticated");
    let health = daemon.get("/healthz").done();
    fits(&daemon, "Health", &health);
    assert_eq!(health["status"], "ok", "{health:#}");
    assert_eq!(health["checks"].as_array().unwrap().len(), 8);
    assert!(
        check(&health, "schema")["value"]
            .as_str()
            .unwrap()
            .contains("version")
    );
    daemon.signal("-TERM");
    assert_eq!(daemon.ended(), 0);
}

// F8 F9
#[test]
fn lag_and_a_destination_that_is_down_are_ill_with_a_remedy() {
    let scene = Scene::sqlite();
    let limits = "[admin.health]\nmax_lag = \"100ms\"\nmax_outage = \"100ms\"";
    // Nothing listens on the port of a socket that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    scene.configure(
        &format!("{TOKENS}\n{limits}"),
        "",
        &webhook(&format!("http://{gone}/")),
    );
    scene.enqueue("shop.order.placed.v1", "{}", 3);
    let daemon = scene.run();
    let mut health = Value::Null;
    eventually("it is ill", || {
        let told = daemon.get("/healthz");
        health = told.json();
        told.status == 503
            && ["lag", "destinations"]
                .iter()
                .all(|it| check(&health, it)["status"] == "ill")
    });
    fits(&daemon, "Health", &health);
    let down = check(&health, "destinations");
    assert!(
        down["value"].as_str().unwrap().contains("hook down for"),
        "{down}"
    );
    assert!(!down["remedy"].as_str().unwrap().is_empty());
    let destinations = daemon.get("destinations").done();
    fits(&daemon, "Destinations", &destinations);
    let down = &destinations["destinations"][0];
    assert!(down["down_seconds"].as_f64().unwrap() > 0.0, "{down}");
    assert_eq!(daemon.get("/api/v1/overview").done()["health"], "ill");
    // The same in a terminal, of what can be told without the daemon.
    let status = scene
        .command(&["status", "--check", "--json"])
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(5));
    let told: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(check(&told, "lag")["status"], "ill");
    assert_eq!(check(&told, "destinations")["status"], "unknown");
}

// F8
#[test]
fn a_daemon_without_its_database_is_live_and_not_ready() {
    let scene = Scene::sqlite();
    let text = std::fs::read_to_string(scene.file("posthaste.toml")).unwrap();
    let nowhere = text.replace("sqlite:shop.db", "postgres://nobody@127.0.0.1:9/nothing");
    std::fs::write(scene.file("posthaste.toml"), nowhere).unwrap();
    let daemon = scene.begin();
    assert_eq!(daemon.ask("GET", "/livez").send().status, 200);
    let told = daemon.ask("GET", "/readyz").send();
    assert_eq!(
        (told.status, told.json()),
        (503, json!({"status": "no database"}))
    );
    daemon.get("events").fails(503, "admin.not_connected");
    eventually("the check says so", || {
        let health = daemon.get("/healthz").json();
        health["status"] == "ill" && check(&health, "database")["value"] == "does not answer"
    });
}
