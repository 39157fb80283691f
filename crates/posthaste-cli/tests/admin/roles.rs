//! Every route with every role, and with none.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::scene::{ROLES, Scene, every_database};

every_database! { every_route_lets_in_those_with_its_role_and_nobody_else }

/// Every operation that the document tells: method, path and the role that it needs.
fn operations(document: &Value) -> Vec<(String, String, Option<String>)> {
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation["x-role"].as_str().map(str::to_owned);
            found.push((method.to_uppercase(), path.clone(), role));
        }
    }
    found
}

fn every_route_lets_in_those_with_its_role_and_nobody_else(scene: &Scene) {
    let daemon = scene.run();
    let document = daemon.get("/api/v1/openapi.json").done();
    let mut operations = operations(&document);
    assert!(operations.len() > 25, "{}", operations.len());
    operations.push(("GET".into(), "/".into(), Some(ROLES[0].into())));
    for (method, path, needed) in operations {
        let path = path
            .replace("{outbox}", &scene.table)
            .replace("{id}", &Uuid::new_v4().to_string());
        let ask = || {
            let ask = daemon.ask(&method, &path);
            match method.as_str() {
                "POST" => ask.json(&json!({})),
                _ => ask,
            }
        };
        let name = format!("{method} {path}");
        if path == "/api/v1/live" {
            // It goes on for ever: only whether it begins is of interest, see `live.rs`.
            assert_eq!(ask().send().status, 401);
            for token in &scene.tokens {
                let mut begun = BufReader::new(ask().by(token).begin());
                let mut line = String::new();
                begun.read_line(&mut line).unwrap();
                assert!(line.contains("200"), "{line}");
            }
            continue;
        }
        let Some(needed) = needed else {
            assert_ne!(ask().send().status, 401, "{name}");
            continue;
        };
        let nobody = ask().send();
        match path.as_str() {
            "/" => assert_eq!(
                (nobody.status, nobody.header("location")),
                (303, Some("/login"))
            ),
            _ => nobody.fails(401, "admin.unauthenticated"),
        }
        // After a few guesses the answer is to wait.
        let stranger = ask().by("phst_nobody").send();
        assert!(
            [401, 303, 429].contains(&stranger.status),
            "{name}: {stranger:?}"
        );
        for (place, role) in ROLES.iter().enumerate() {
            let told = ask().by(&scene.tokens[place]).send();
            let may = place >= ROLES.iter().position(|it| *it == needed).unwrap();
            match may {
                true => assert!(
                    ![401, 403].contains(&told.status),
                    "{name} as {role}: {told:?}"
                ),
                false => told.fails(403, "admin.forbidden"),
            }
        }
    }
    assert!(!daemon.log().contains("phst_"), "{}", daemon.log());
}

/// The outbox of a scene, as its database's user with these roles sees it.
fn only_as(scene: &mut Scene, roles: &[&str]) {
    let table = posthaste::Table::parse(&scene.table).unwrap();
    let named = |role: &str| format!("{role}_{}", table.schema());
    let all = posthaste::schema::Roles {
        producer: named("producer"),
        relay: named("relay"),
        reader: named("reader"),
        operator: named("operator"),
    };
    let user = named("daemon");
    let granted: Vec<String> = roles.iter().map(|role| named(role)).collect();
    let sql = format!(
        "{}; create role {user} login inherit; grant {} to {user}",
        posthaste::schema::roles_sql(&table, &all),
        granted.join(", ")
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = posthaste_testkit::outbox::connect(&scene.url).await;
        client.batch_execute(&sql).await.unwrap();
    });
    scene.url = format!("{}?options=-c%20role%3D{user}", scene.url);
    scene.configure(
        "tokens_file = \"tokens\"\nrate_limit = 10000",
        "",
        crate::scene::STDOUT,
    );
}

#[test]
fn a_daemon_that_may_only_relay_shows_what_it_can_and_says_what_it_lacks() {
    let mut scene = Scene::postgres();
    scene.enqueue("shop.order.placed.v1", "{}", 1);
    only_as(&mut scene, &["relay"]);
    let daemon = scene.run();
    daemon.has(1, "delivered");
    let page = daemon.get("events").done();
    let id = page["events"][0]["id"].as_str().unwrap();
    for path in [
        "/api/v1/overview",
        "/healthz",
        "/metrics",
        "events",
        &format!("events/{id}"),
        &format!("events/{id}/content"),
        "groups",
        "blocked",
        "relays",
        "destinations",
        "database",
        "pauses",
        "jobs",
        "series",
    ] {
        let told = daemon.get(path);
        assert_eq!(told.status, 200, "{path}: {told:?}");
    }
    let why = json!({"why": "to try it"});
    let all = json!({"filter": {"status": "delivered"}, "all": true, "why": "to try it"});
    for told in [
        daemon.get("audit"),
        daemon.post("pause", &why),
        daemon.post("resume", &why),
        daemon.post("redeliver", &all),
    ] {
        assert!(told.body.contains("operator role"), "{told:?}");
        told.fails(403, "store.denied");
    }
    // What is not seen of others is not said to be none.
    let database = daemon.get("database").done();
    let findings = database["findings"].as_array().unwrap();
    let told = findings.iter().find(|it| it["check"] == "transactions");
    assert_eq!(told.unwrap()["grade"], "doubtful", "{database:#}");
    assert!(
        !daemon
            .get("/metrics")
            .body
            .contains("\noutbox_oldest_transaction_seconds")
    );
    assert!(database["connections"].as_u64().unwrap() >= 4);
}

#[test]
fn a_daemon_with_the_roles_of_relay_and_operator_lacks_nothing() {
    let mut scene = Scene::postgres();
    scene.enqueue("shop.order.placed.v1", "{}", 1);
    only_as(&mut scene, &["relay", "operator"]);
    let daemon = scene.run();
    daemon.has(1, "delivered");
    let why = json!({"why": "to try it"});
    let all = json!({"filter": {"status": "delivered"}, "all": true, "why": "to try it"});
    for (path, body) in [("pause", &why), ("resume", &why), ("redeliver", &all)] {
        daemon.post(path, body).done();
    }
    daemon.has(2, "delivered");
    let audit = daemon.get("audit").done();
    assert!(audit["entries"].as_array().unwrap().len() >= 4, "{audit:#}");
}

// B13
#[test]
fn what_a_destination_repeats_of_an_event_is_not_told_to_those_who_may_not_read_it() {
    let scene = Scene::sqlite();
    let refusing = crate::look::Refusing::start(
        "HTTP/1.1 400 No\r\nContent-Length: 45\r\n\r\nunknown customer Ada Lovelace, card 4111-1111",
    );
    scene.configure(
        crate::look::TOKENS,
        "",
        &crate::look::webhook(&refusing.url()),
    );
    scene.posthaste(&[
        "enqueue",
        "shop.order.placed.v1",
        r#"{"name": "Ada Lovelace", "card": "4111-1111"}"#,
    ]);
    let daemon = scene.run();
    daemon.has(1, "dead");
    let page = daemon.get("events").done();
    let id = page["events"][0]["id"].as_str().unwrap();
    let error = page["events"][0]["last_error"].as_str().unwrap();
    assert!(error.contains("unknown customer [payload]"), "{error}");
    for path in [
        "events",
        &format!("events/{id}"),
        "groups",
        "blocked",
        "audit",
        "jobs",
        "series",
        "destinations",
        "/api/v1/overview",
        "/healthz",
        "/metrics",
    ] {
        let told = daemon
            .ask("GET", &daemon.path(path))
            .by(&scene.tokens[0])
            .send();
        for secret in ["Lovelace", "4111-1111"] {
            assert!(!told.body.contains(secret), "{path}: {told:?}");
        }
    }
    for secret in ["Lovelace", "4111-1111"] {
        assert!(!daemon.log().contains(secret));
    }
}

#[test]
fn payloads_and_headers_are_for_those_who_may_read_them() {
    let scene = Scene::sqlite();
    let secret = "4111-1111";
    let payload = format!(r#"{{"card": "{secret}"}}"#);
    scene.posthaste(&[
        "enqueue",
        "shop.order.placed.v1",
        &payload,
        "--header",
        &format!("card={secret}"),
    ]);
    let daemon = scene.run();
    daemon.has(1, "delivered");
    let page = daemon.get("events").done();
    let id = page["events"][0]["id"].as_str().unwrap();
    let content = daemon.path(&format!("events/{id}/content"));
    let least = &scene.tokens[0];
    daemon
        .ask("GET", &content)
        .by(least)
        .send()
        .fails(403, "admin.forbidden");
    let told = daemon
        .ask("GET", &content)
        .by(&scene.tokens[1])
        .send()
        .done();
    assert_eq!(told["payload"].as_str().unwrap(), payload);
    assert_eq!(told["encoding"], "utf-8");
    for path in [
        "events",
        &format!("events/{id}"),
        "groups",
        "audit",
        "/api/v1/overview",
        "/metrics",
    ] {
        let told = daemon.ask("GET", &daemon.path(path)).by(least).send();
        assert_eq!(told.status, 200, "{path}");
        assert!(!told.body.contains(secret), "{path}: {told:?}");
    }
}
