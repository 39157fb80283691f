//! Probes and checks: well, ill with a remedy, and on the way out.

use serde_json::{Value, json};

use crate::look::{TOKENS, webhook};
use crate::scene::{Daemon, STDOUT, Scene, eventually, every_database};
use crate::shape::fits;

every_database! {
    a_daemon_that_serves_is_live_ready_and_well
    an_outbox_that_nobody_leads_is_ill_until_somebody_does
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
    // Who goes by metrics hears of it, too.
    let errors = format!(
        "outbox_store_errors_total{{table=\"{}\",result=\"store.unavailable\"}}",
        scene.table
    );
    eventually("the tries are counted", || {
        daemon.get("/metrics").body.contains(&errors)
    });
}

/// What the daemon and the command tell of the leader: status of the check, its value, and the code.
fn told(daemon: &Daemon) -> (String, String, u16) {
    let health = daemon.get("/healthz");
    let (json, code) = (health.json(), health.status);
    fits(daemon, "Health", &json);
    let leader = check(&json, "leader");
    assert!(
        leader["threshold"].as_str().unwrap().contains("one leads"),
        "{leader}"
    );
    let is_ill = leader["status"] == "ill";
    assert_eq!(is_ill, leader["remedy"] != "", "{leader}");
    let text = |name: &str| leader[name].as_str().unwrap().to_owned();
    (text("status"), text("value"), code)
}

fn status(scene: &Scene) -> (Option<i32>, Value) {
    let arguments = ["status", "--check", "--json"];
    let output = scene.command(&arguments).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), check(&json, "leader").clone())
}

// F8
fn an_outbox_that_nobody_leads_is_ill_until_somebody_does(scene: &Scene) {
    let alone = "mode = \"single-active\"";
    scene.configure(TOKENS, &format!("{alone}\nrelay.enabled = false"), STDOUT);
    let looks_on = scene.run();
    let (verdict, value, code) = told(&looks_on);
    assert_eq!((verdict.as_str(), value.as_str()), ("ill", "nobody leads"));
    // What others deliver, and where to, is not seen by who delivers nothing.
    let health = looks_on.get("/healthz").json();
    for unknown in ["destinations", "failures", "dead"] {
        assert_eq!(check(&health, unknown)["status"], "unknown", "{health:#}");
    }
    assert_eq!(code, 503);
    let (code, leader) = status(scene);
    assert_eq!((code, &leader["value"]), (Some(5), &json!("nobody leads")));
    assert!(
        leader["remedy"].as_str().unwrap().contains("posthaste run"),
        "{leader}"
    );
    // Another process, which may deliver.
    scene.configure(TOKENS, alone, STDOUT);
    let leads = scene.run();
    eventually("it leads", || {
        told(&leads) == ("ok".to_owned(), "this relay leads".to_owned(), 200)
    });
    let (verdict, value, code) = told(&looks_on);
    let name = format!("{} ", leads.pid());
    assert_eq!((verdict.as_str(), code), ("ok", 200), "{value}");
    assert!(
        value.ends_with(" leads") && value.replace(')', " ").contains(&name),
        "{value}, not {name}"
    );
    let (code, leader) = status(scene);
    assert_eq!((code, &leader["value"]), (Some(0), &json!(value)));
}

// F8 K8
#[test]
fn of_relays_that_stand_by_each_says_who_leads_and_one_takes_over() {
    let scene = Scene::postgres();
    scene.configure(TOKENS, "mode = \"single-active\"", STDOUT);
    let first = scene.run();
    eventually("the first leads", || told(&first).1 == "this relay leads");
    let second = scene.run();
    let (verdict, value, code) = told(&second);
    assert_eq!((verdict.as_str(), code), ("ok", 200), "{value}");
    let pid = format!("({}) leads", first.pid());
    assert!(value.ends_with(&pid), "{value}");
    first.signal("-KILL");
    eventually("the second leads", || told(&second).1 == "this relay leads");
    scene.enqueue("shop.order.placed.v1", "{}", 2);
    second.has(2, "delivered");
    let (code, leader) = status(&scene);
    assert_eq!((code, &leader["status"]), (Some(0), &json!("ok")));
}

// F8
#[test]
fn a_database_that_falls_silent_is_ill_until_it_speaks_again() {
    let mut scene = Scene::postgres();
    let (proxy, _) = scene.through_a_network();
    scene.configure(TOKENS, "", STDOUT);
    let daemon = scene.run();
    proxy.hole();
    eventually("it is seen", || {
        let health = daemon.get("/healthz").json();
        check(&health, "database")["status"] == "ill"
    });
    // What is not known is not made up, and the daemon itself works on.
    let health = daemon.get("/healthz").json();
    for unknown in ["schema", "stuck", "lag"] {
        assert_eq!(check(&health, unknown)["status"], "unknown", "{health:#}");
    }
    let word = |path: &str| daemon.ask("GET", path).send().json()["status"].clone();
    assert_eq!(
        (word("/livez"), word("/readyz")),
        (json!("ok"), json!("no database"))
    );
    assert_eq!(daemon.get("/api/v1/overview").done()["health"], "ill");
    proxy.heal();
    eventually("it is well again", || daemon.get("/healthz").status == 200);
    assert_eq!(word("/readyz"), json!("ok"));
}
