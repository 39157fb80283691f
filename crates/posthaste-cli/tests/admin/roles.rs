//! Every route with every role, and with none.

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
