//! What operators look at: every answer fits its schema, and says what is so.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::scene::{Daemon, Scene, eventually, every_database};
use crate::shape::fits;

every_database! {
    the_overview_tells_how_everything_stands
    pages_tell_every_event_once_while_others_come
    pages_tell_all_that_had_ended_once_while_others_are_delivered
    an_event_tells_every_attempt_with_its_error_and_its_destination
    the_dead_are_told_by_the_kind_of_their_error
    relays_destinations_and_the_database_are_told
}

/// A sink that refuses: nothing listens there, or what does says no.
pub(crate) fn webhook(url: &str) -> String {
    format!("[sink.hook]\ntype = \"http\"\nurl = \"{url}\"\nallow_any_address = true\n")
}

pub(crate) const TOKENS: &str = "tokens_file = \"tokens\"\nrate_limit = 10000";

fn the_overview_tells_how_everything_stands(scene: &Scene) {
    scene.enqueue("shop.order.placed.v1", "{}", 7);
    let daemon = scene.run();
    daemon.has(7, "delivered");
    let mut overview = Value::Null;
    eventually("the relay is seen to have delivered", || {
        overview = daemon.get("/api/v1/overview").done();
        overview["outboxes"][0]["destinations"][0]["delivered"] == 7
            && overview["outboxes"][0]["pending"] == 0
    });
    fits(&daemon, "Overview", &overview);
    let outbox = &overview["outboxes"][0];
    assert_eq!(outbox["name"], scene.table.as_str());
    assert_eq!(outbox["connected"], true);
    assert_eq!(outbox["destinations"][0]["circuit"], "closed");
    assert!(
        outbox["latency"]["p50"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    assert_eq!(
        overview["health"],
        "ok",
        "{:#}",
        daemon.get("/healthz").json()
    );
    assert_eq!(overview["caller"]["role"], "operator");
    let one = daemon
        .get(&format!("/api/v1/outboxes/{}", scene.table))
        .done();
    fits(&daemon, "Outbox", &one);
    assert_eq!(
        one["routes"],
        json!([{"topic": "*", "namespace": null, "tenant": null,
        "aggregate_type": null, "destination": "log"}])
    );
    eventually("a series", || {
        let series = daemon.get("series").done();
        fits(&daemon, "Series", &series);
        series["points"].as_array().unwrap().len() >= 2
    });
    fits(&daemon, "Me", &daemon.get("/api/v1/me").done());
}

/// Every id, page by page.
fn read_all(daemon: &Daemon, query: &str, mut between: impl FnMut()) -> Vec<String> {
    let mut ids = Vec::new();
    let mut next = None::<String>;
    loop {
        let from = next.map_or(String::new(), |next| format!("&cursor={next}"));
        let page = daemon.get(&format!("events?limit=10&{query}{from}")).done();
        fits(daemon, "Events", &page);
        let events = page["events"].as_array().unwrap();
        ids.extend(
            events
                .iter()
                .map(|it| it["id"].as_str().unwrap().to_owned()),
        );
        next = page["next"].as_str().map(str::to_owned);
        if next.is_none() {
            return ids;
        }
        between();
    }
}

fn pages_tell_every_event_once_while_others_come(scene: &Scene) {
    scene.configure(TOKENS, "relay.enabled = false", "");
    scene.enqueue("shop.order.placed.v1", "{}", 45);
    scene.enqueue("shop.order.paid.v1", "{}", 5);
    let daemon = scene.run();
    let mut more = 3;
    let ids = read_all(&daemon, "order=oldest&topic=*.placed.*", || {
        if more > 0 {
            more -= 1;
            scene.enqueue("shop.order.placed.v1", "{}", 1);
        }
    });
    let different: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "none twice");
    assert!((45..=48).contains(&ids.len()), "{}", ids.len());
    let document = daemon.get("/api/v1/openapi.json").done();
    let parameters = &document["paths"]["/api/v1/outboxes/{outbox}/events"]["get"]["parameters"];
    let mut parameters = parameters.as_array().unwrap().iter();
    let cursor = parameters.find(|it| it["name"] == "cursor").unwrap();
    let page = daemon.get("events?limit=10").done();
    assert!(
        jsonschema::is_valid(&cursor["schema"], &page["next"]),
        "{} is no cursor by the document",
        page["next"]
    );
    let newest = read_all(&daemon, "order=newest", || {});
    assert_eq!(newest.len(), 53);
    assert_eq!(read_all(&daemon, "q=paid", || {}).len(), 5);
    let found = daemon.get(&format!("events?q={}", ids[7])).done();
    assert_eq!(found["events"][0]["id"], ids[7].as_str());
    assert_eq!(read_all(&daemon, "status=dead,delivered", || {}).len(), 0);
}

fn pages_tell_all_that_had_ended_once_while_others_are_delivered(scene: &Scene) {
    scene.configure(TOKENS, "", crate::scene::STDOUT);
    scene.enqueue("shop.order.placed.v1", "{}", 120);
    let daemon = scene.run();
    daemon.has(120, "delivered");
    let before: BTreeSet<String> = read_all(&daemon, "status=delivered", || {})
        .into_iter()
        .collect();
    assert_eq!(before.len(), 120);
    for order in ["newest", "oldest"] {
        let mut more = 5;
        let told = read_all(&daemon, &format!("order={order}"), || {
            if more > 0 {
                more -= 1;
                scene.enqueue("shop.order.paid.v1", "{}", 20);
            }
        });
        for id in &before {
            let times = told.iter().filter(|it| *it == id).count();
            assert_eq!(times, 1, "{id} is told {times} times");
        }
    }
}

fn an_event_tells_every_attempt_with_its_error_and_its_destination(scene: &Scene) {
    let endpoint = Refusing::start("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    let retry = "[outbox.retry]\npolicy = \"fixed\"\nbase = \"50ms\"\nmax_attempts = 3";
    scene.configure(TOKENS, retry, &webhook(&endpoint.url()));
    scene.enqueue("shop.order.placed.v1", "{}", 1);
    let daemon = scene.run();
    daemon.has(1, "dead");
    let page = daemon.get("events?status=dead").done();
    let id = page["events"][0]["id"].as_str().unwrap().to_owned();
    let story = daemon.get(&format!("events/{id}")).done();
    fits(&daemon, "EventStory", &story);
    assert_eq!(story["destination"], "hook");
    assert_eq!(story["event"]["dead_reason"], "exhausted");
    let attempts = story["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3, "{story:#}");
    for (place, attempt) in attempts.iter().enumerate() {
        assert_eq!(attempt["number"], place + 1);
        assert!(
            attempt["error"].as_str().unwrap().contains("500"),
            "{attempt}"
        );
        assert_eq!(attempt["destination"], "hook");
    }
    let content = daemon.get(&format!("events/{id}/content")).done();
    fits(&daemon, "Content", &content);
    let other = uuid::Uuid::new_v4();
    daemon
        .get(&format!("events/{other}"))
        .fails(404, "admin.no_event");
    daemon
        .get(&format!("events/{other}/content"))
        .fails(404, "admin.no_event");
}

fn the_dead_are_told_by_the_kind_of_their_error(scene: &Scene) {
    let endpoint = Refusing::start("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
    scene.configure(TOKENS, "", &webhook(&endpoint.url()));
    scene.enqueue("shop.order.placed.v1", "{}", 6);
    let daemon = scene.run();
    daemon.has(6, "dead");
    let groups = daemon.get("groups").done();
    fits(&daemon, "Groups", &groups);
    let groups = groups["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(
        (&groups[0]["count"], &groups[0]["reason"]),
        (&json!(6), &json!("rejected"))
    );
    let print = groups[0]["fingerprint"].as_str().unwrap();
    let page = daemon
        .get(&format!("events?status=dead&fingerprint={print}"))
        .done();
    assert_eq!(page["events"].as_array().unwrap().len(), 6);
    fits(&daemon, "Blocked", &daemon.get("blocked").done());
}

fn relays_destinations_and_the_database_are_told(scene: &Scene) {
    let daemon = scene.run();
    eventually("the relay is known", || {
        let relays = daemon.get("relays").done();
        fits(&daemon, "Relays", &relays);
        let relays = relays["relays"].as_array().unwrap().clone();
        relays
            .iter()
            .any(|relay| relay["this"] == true && relay["alive"] == true)
    });
    eventually("its destination is known", || {
        let told = daemon.get("destinations").done();
        fits(&daemon, "Destinations", &told);
        told["destinations"][0]["circuit"] == "closed"
    });
    let database = daemon.get("database").done();
    fits(&daemon, "Database", &database);
    assert!(!database["server"].as_str().unwrap().is_empty());
    assert!(!database["findings"].as_array().unwrap().is_empty());
}

/// Answers everything in the same way.
pub(crate) struct Refusing {
    port: u16,
}

impl Refusing {
    pub(crate) fn start(answer: &'static str) -> Self {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    // One request for each connection: the answer closes it.
                    if stream.read(&mut request).is_ok_and(|read| read > 0) {
                        let closing = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
                        let _ = stream.write_all(closing.as_bytes());
                    }
                });
            }
        });
        Self { port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}
