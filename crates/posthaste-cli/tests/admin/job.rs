//! Redelivery jobs through what goes wrong: an answer that never came, and a daemon that is killed.

use std::collections::BTreeMap;

use posthaste_testkit::server;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::act::with_dead;
use crate::scene::{Daemon, STDOUT, Scene, eventually, every_database};
use crate::shape::fits;

every_database! {
    a_redelivery_that_is_asked_for_again_is_begun_once
    a_redelivery_goes_on_where_a_killed_daemon_left_it_and_redelivers_each_event_once
    delivered_events_are_sent_again_once_each_though_the_daemon_is_killed
}

fn acts(daemon: &Daemon, act: &str) -> usize {
    let log = daemon.get("audit?limit=1000").done();
    let entries = log["entries"].as_array().unwrap();
    entries.iter().filter(|entry| entry["act"] == act).count()
}

// K6 B18
fn a_redelivery_that_is_asked_for_again_is_begun_once(scene: &Scene) {
    let daemon = with_dead(scene, 6);
    let id = Uuid::new_v4().to_string();
    let asked = json!({"filter": {"topic": "shop.*"}, "why": "mended", "rate": 1000, "job": id});
    let first = daemon.post("redeliver", &asked);
    assert_eq!(first.status, 202, "{first:?}");
    let first = first.json();
    fits(&daemon, "Begun", &first);
    assert_eq!((&first["id"], &first["new"]), (&json!(id), &json!(true)));
    for _ in 0..2 {
        let again = daemon.post("redeliver", &asked);
        assert_eq!(again.status, 202, "{again:?}");
        let again = again.json();
        fits(&daemon, "Begun", &again);
        assert_eq!((&again["id"], &again["new"]), (&json!(id), &json!(false)));
        // Also when it is over.
        daemon.has(6, "delivered");
        eventually("it is done", || {
            daemon.get(&format!("jobs/{id}")).done()["state"] == "done"
        });
    }
    assert_eq!(
        (acts(&daemon, "start job"), acts(&daemon, "redeliver")),
        (1, 6)
    );
    // An id is for one redelivery.
    for (name, other) in [("rate", json!(7)), ("filter", json!({"topic": "hotel.*"}))] {
        let mut another = asked.clone();
        another[name] = other;
        daemon
            .post("redeliver", &another)
            .fails(409, "admin.conflict");
    }
    // Those that are named, too: sent again once, however often that is asked for.
    let page = daemon.get("events?status=delivered").done();
    let named = &page["events"][0]["id"];
    let asked = json!({"ids": [named], "why": "lost there", "job": Uuid::new_v4()});
    assert_eq!(daemon.post("redeliver", &asked).done()["new"], true);
    assert_eq!(daemon.post("redeliver", &asked).done()["new"], false);
    daemon.has(7, "delivered");
    assert_eq!(
        daemon.get("jobs").done()["jobs"].as_array().unwrap().len(),
        2
    );
}

// K6 B18
#[test]
fn a_redelivery_whose_answer_did_not_come_in_time_can_be_asked_for_again() {
    let scene = Scene::postgres();
    let daemon = with_dead(&scene, 4);
    let (id, why) = (Uuid::new_v4().to_string(), "mended");
    let asked = json!({"filter": {"topic": "shop.*"}, "why": why, "job": id});
    // Somebody else's transaction is in the way for longer than anybody waits.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = server::postgres_url();
    let connected = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls));
    let (client, connection) = connected.unwrap();
    runtime.spawn(connection);
    let (schema, table) = scene.table.split_once('.').unwrap();
    let lock =
        format!("begin; lock table \"{schema}\".\"{table}_jobs\" in share row exclusive mode");
    runtime.block_on(client.batch_execute(&lock)).unwrap();
    daemon.post("redeliver", &asked).fails(504, "admin.unsure");
    runtime.block_on(client.batch_execute("rollback")).unwrap();
    // It may have been begun since, or not: asked for again, it is there once.
    let again = daemon.post("redeliver", &asked).done();
    assert_eq!(again["id"], id.as_str());
    eventually("it is done", || {
        daemon.get(&format!("jobs/{id}")).done()["state"] == "done"
    });
    assert_eq!(daemon.post("redeliver", &asked).done()["new"], false);
    daemon.has(4, "delivered");
    assert_eq!(
        daemon.get("jobs").done()["jobs"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        (acts(&daemon, "start job"), acts(&daemon, "redeliver")),
        (1, 4)
    );
}

const MANY: usize = 900;

/// Kills the daemon in the midst of a job again and again, until it is done.
fn through_kills(scene: &Scene, mut daemon: Daemon, asked: &Value) -> Daemon {
    let path = format!("jobs/{}", asked["job"].as_str().unwrap());
    daemon.post("redeliver", asked).done();
    let mut kills = 0;
    for part in 1..=3 {
        let mut job = Value::Null;
        eventually("it gets on", || {
            job = daemon.get(&path).done();
            job["redelivered"].as_u64().unwrap() >= part * MANY as u64 / 5
        });
        if job["state"] != "running" {
            break;
        }
        daemon.signal("-KILL");
        drop(daemon);
        daemon = scene.run();
        kills += 1;
    }
    assert!(kills > 0, "done too soon to prove anything");
    eventually("it is done", || daemon.get(&path).done()["state"] == "done");
    let job = daemon.get(&path).done();
    assert_eq!(job["redelivered"], MANY, "{job:#}");
    daemon
}

/// How often each event was redelivered, by the audit log.
fn redelivered(daemon: &Daemon) -> BTreeMap<String, usize> {
    let mut often = BTreeMap::new();
    let mut next = String::new();
    loop {
        let log = daemon.get(&format!("audit?limit=1000{next}")).done();
        for entry in log["entries"].as_array().unwrap() {
            if entry["act"] == "redeliver" {
                let event = entry["event_id"].as_str().unwrap().to_owned();
                *often.entry(event).or_default() += 1;
            }
        }
        match log["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return often,
        }
    }
}

/// All events of this status.
fn all(daemon: &Daemon, status: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut next = String::new();
    loop {
        let path = format!("events?status={status}&limit=500{next}");
        let page = daemon.get(&path).done();
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return events,
        }
    }
}

// K6 M13
fn a_redelivery_goes_on_where_a_killed_daemon_left_it_and_redelivers_each_event_once(
    scene: &Scene,
) {
    let daemon = with_dead(scene, MANY);
    let asked = json!({
        "filter": {"topic": "shop.*"}, "why": "mended", "rate": 200, "job": Uuid::new_v4(),
    });
    let daemon = through_kills(scene, daemon, &asked);
    eventually("all are delivered", || {
        all(&daemon, "delivered").len() == MANY
    });
    let often = redelivered(&daemon);
    assert_eq!(often.len(), MANY);
    let twice: Vec<_> = often.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "redelivered more than once: {twice:?}");
    assert!(all(&daemon, "dead").is_empty());
}

// K6 M13
fn delivered_events_are_sent_again_once_each_though_the_daemon_is_killed(scene: &Scene) {
    scene.configure("tokens_file = \"tokens\"\nrate_limit = 10000", "", STDOUT);
    scene.enqueue("shop.order.placed.v1", "{}", MANY);
    let daemon = scene.run();
    eventually("all are delivered", || {
        all(&daemon, "delivered").len() == MANY
    });
    let asked = json!({
        "filter": {"status": "delivered", "topic": "shop.*"}, "why": "lost there", "rate": 200,
        "job": Uuid::new_v4(),
    });
    let daemon = through_kills(scene, daemon, &asked);
    // Each has one copy, and no copy has one.
    eventually("all copies are delivered", || {
        all(&daemon, "delivered").len() == 2 * MANY
    });
    let often = redelivered(&daemon);
    assert_eq!(often.len(), MANY);
    assert!(often.values().all(|times| *times == 1));
}
