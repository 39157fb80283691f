//! What operators do: seen before, told why, done once, and written down with who did it.

use serde_json::{Value, json};

use crate::look::{Refusing, TOKENS, webhook};
use crate::scene::{Daemon, STDOUT, Scene, eventually, every_database};
use crate::shape::fits;

every_database! {
    the_dead_are_redelivered_by_a_filter_from_preview_to_done
    a_preview_shows_those_that_are_meant_however_many_come_before_them
    events_that_are_named_are_redelivered_or_discarded_at_once
    what_is_paused_waits_and_what_is_resumed_flows
}

/// So many dead events, and a daemon that delivers again.
pub(crate) fn with_dead(scene: &Scene, count: usize) -> Daemon {
    let endpoint = Refusing::start("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
    scene.configure(TOKENS, "", &webhook(&endpoint.url()));
    scene.enqueue("shop.order.placed.v1", "{}", count);
    let daemon = scene.run();
    eventually(&format!("{count} are dead"), || {
        daemon.get("/api/v1/overview").done()["outboxes"][0]["dead"] == count
    });
    drop(daemon);
    scene.configure(TOKENS, "", STDOUT);
    scene.run()
}

fn audit(daemon: &Daemon) -> Vec<Value> {
    let log = daemon.get("audit").done();
    fits(daemon, "AuditLog", &log);
    log["entries"].as_array().unwrap().clone()
}

fn a_preview_shows_those_that_are_meant_however_many_come_before_them(scene: &Scene) {
    let daemon = with_dead(scene, 15);
    let page = daemon.get("events?status=dead&order=oldest").done();
    let ids: Vec<Value> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    let discard = json!({"ids": ids[..12], "why": "test orders"});
    daemon.post("discard", &discard).done();
    let meant = json!({"filter": {"topic": "shop.*"}});
    let preview = daemon.post("preview", &meant).done();
    assert_eq!(preview["found"], 3, "{preview:#}");
    assert_eq!(preview["at_least"], false);
    assert_eq!(preview["sample"].as_array().unwrap().len(), 3);
    assert_eq!(preview["destinations"], json!({"log": 3}));
}

// K6 B18 M15
fn the_dead_are_redelivered_by_a_filter_from_preview_to_done(scene: &Scene) {
    let daemon = with_dead(scene, 12);
    let by_topic = json!({"filter": {"topic": "shop.*"}});
    let preview = daemon.post("preview", &by_topic).done();
    fits(&daemon, "Preview", &preview);
    assert_eq!(preview["found"], 12);
    assert_eq!(preview["destinations"], json!({"log": 10}));
    daemon.has(12, "dead");
    let everything = json!({"filter": {}, "why": "the bug is fixed"});
    daemon
        .post("redeliver", &everything)
        .fails(422, "admin.unfiltered");
    let neither = json!({"why": "the bug is fixed"});
    daemon.post("redeliver", &neither).fails(400, "admin.body");
    let live = json!({"filter": {"status": "pending"}, "why": "x"});
    daemon.post("redeliver", &live).fails(400, "admin.body");
    let job = daemon.post(
        "redeliver",
        &json!({"filter": {"topic": "shop.*"}, "why": "the bug is fixed", "rate": 1000}),
    );
    assert_eq!(job.status, 202);
    let job = job.json();
    fits(&daemon, "Begun", &job);
    let path = format!("jobs/{}", job["id"].as_str().unwrap());
    eventually("the job is done", || {
        let job = daemon.get(&path).done();
        fits(&daemon, "Job", &job);
        job["state"] == "done" && job["redelivered"] == 12
    });
    daemon.has(12, "delivered");
    let late = daemon.post(&path, &json!({"state": "cancelled", "why": "x"}));
    late.fails(409, "admin.conflict");
    let jobs = daemon.get("jobs").done();
    fits(&daemon, "Jobs", &jobs);
    let entries = audit(&daemon);
    let ours = |entry: &&Value| entry["act"] == "redeliver" && entry["actor"] == "operator";
    assert_eq!(entries.iter().filter(ours).count(), 12, "{entries:?}");
}

fn events_that_are_named_are_redelivered_or_discarded_at_once(scene: &Scene) {
    let daemon = with_dead(scene, 2);
    let page = daemon.get("events?status=dead").done();
    let id = |place: usize| page["events"][place]["id"].clone();
    let done = daemon
        .post("redeliver", &json!({"ids": [id(0)], "why": "fixed"}))
        .done();
    fits(&daemon, "Done", &done);
    assert_eq!(
        done["ids"],
        json!([id(0)]),
        "the same event, under the same id"
    );
    daemon.has(1, "delivered");
    let done = daemon
        .post("discard", &json!({"ids": [id(1)], "why": "of no use"}))
        .done();
    assert_eq!(done["ids"], json!([id(1)]));
    let event = daemon
        .get(&format!("events/{}", id(1).as_str().unwrap()))
        .done();
    assert_eq!(event["event"]["dead_reason"], "discarded");
    assert_eq!(event["audit"][0]["why"], "of no use");
    assert_eq!(event["audit"][0]["actor"], "operator");
    daemon
        .post("discard", &json!({"ids": [], "why": "x"}))
        .fails(400, "admin.body");
}

fn what_is_paused_waits_and_what_is_resumed_flows(scene: &Scene) {
    let daemon = scene.run();
    let why = json!({"why": "the shop moves"});
    let obeyed = || daemon.log().matches("paused by an operator").count();
    for (target, name) in [(json!(null), "outbox"), (json!("log"), "destination")] {
        let mut said = why.clone();
        said["destination"] = target.clone();
        let before = obeyed();
        let changed = daemon.post("pause", &said).done();
        fits(&daemon, "Changed", &changed);
        assert_eq!(changed["changed"], true);
        assert_eq!(
            daemon.post("pause", &said).done()["changed"],
            false,
            "already"
        );
        let pauses = daemon.get("pauses").done();
        fits(&daemon, "Pauses", &pauses);
        assert_eq!(pauses["pauses"][0]["destination"], target);
        assert_eq!(pauses["pauses"][0]["actor"], "operator");
        eventually("it is seen to be paused", || {
            daemon.get("/api/v1/overview").done()["outboxes"][0]["paused"] == true
        });
        eventually("the relay obeys", || obeyed() > before);
        scene.enqueue(&format!("shop.{name}.paused.v1"), "{}", 1);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let waiting = daemon.get(&format!("events?topic=shop.{name}.*")).done();
        assert_eq!(waiting["events"][0]["status"], "pending", "{name}");
        assert_eq!(waiting["events"][0]["attempts"], 0);
        assert_eq!(daemon.post("resume", &said).done()["changed"], true);
        eventually("it flows again", || {
            let page = daemon.get(&format!("events?topic=shop.{name}.*")).done();
            page["events"][0]["status"] == "delivered"
        });
    }
    let odd = json!({"destination": "nowhere", "why": "x"});
    daemon
        .post("pause", &odd)
        .fails(404, "admin.no_destination");
    let entries = audit(&daemon);
    assert_eq!(entries.iter().filter(|it| it["act"] == "pause").count(), 2);
    assert_eq!(entries.iter().filter(|it| it["act"] == "resume").count(), 2);
}
