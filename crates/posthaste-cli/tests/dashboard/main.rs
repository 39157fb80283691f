//! The dashboard as people use it: a real daemon, and a real Chromium that clicks and types.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

#[allow(dead_code, reason = "shared with the tests of the API")]
#[path = "../admin/client.rs"]
mod client;
mod endpoint;
#[allow(dead_code, unused_imports, unused_macros, reason = "the same")]
#[path = "../admin/scene.rs"]
mod scene;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use posthaste_testkit::server;

use crate::endpoint::Endpoint;
use crate::scene::{Daemon, STDOUT, Scene, eventually};

const BROWSER: &str = include_str!("browser.py");
const TOKENS: &str = "tokens_file = \"tokens\"\nrate_limit = 10000";

/// Lets a browser do what a script says, with the address of the daemon and more.
fn browse(script: &str, daemon: &Daemon, more: &[&str]) {
    let told = browse_at(script, &format!("http://{}", daemon.address), more);
    // What went wrong comes last: of a long text, that is what people are shown.
    told.unwrap_or_else(|error| panic!("{}\n{error}", daemon.log()));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

fn browse_at(script: &str, origin: &str, more: &[&str]) -> Result<Vec<u8>, server::Error> {
    server::chromium().unwrap();
    let arguments = [&[origin], more].concat();
    server::python(&format!("{BROWSER}\n{script}"), &arguments)
}

#[test]
fn the_demo_prints_an_address_where_a_living_dashboard_is() {
    let scene = Scene::sqlite();
    let mut demo = scene
        .command(&["demo", "--for", "5m"])
        // It is killed, and leaves its file behind.
        .env("TMPDIR", scene.file(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("Look at it in a browser: ")
            .map(str::to_owned)
    });
    // It goes on to say what happens.
    std::thread::spawn(move || lines.for_each(drop));
    // Those of the guide are taken anew if asked for.
    let guide = match std::env::var_os("POSTHASTE_TEST_UPDATE") {
        Some(_) => concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"),
        None => "",
    };
    let told = browse_at(include_str!("demo.py"), &address.unwrap(), &[guide]);
    demo.kill().unwrap();
    demo.wait().unwrap();
    told.unwrap();
}

fn hook(endpoint: &Endpoint) -> String {
    let url = endpoint.url();
    format!("[sink.hook]\ntype = \"http\"\nurl = \"{url}\"\nallow_any_address = true\n")
}

/// Where pictures go, if somebody wants to look at them.
fn pictures() -> String {
    let folder = std::env::var("DASHBOARD_PICTURES").unwrap_or_default();
    if !folder.is_empty() {
        std::fs::create_dir_all(&folder).unwrap();
    }
    folder
}

// B18
#[test]
fn an_operator_finds_why_events_are_dead_and_redelivers_them() {
    let scene = Scene::postgres();
    let endpoint = Endpoint::refusing();
    scene.configure(TOKENS, "", &hook(&endpoint));
    scene.enqueue("shop.order.placed.v1", r#"{"order": 4711}"#, 30);
    scene.enqueue("shop.order.paid.v1", r#"{"order": 4712}"#, 3);
    let daemon = scene.run();
    daemon.has(33, "dead");
    let (mend, pictures) = (endpoint.mend(), pictures());
    let more = [scene.tokens[2].as_str(), &scene.table, &mend, &pictures];
    browse(include_str!("operate.py"), &daemon, &more);
}

#[test]
fn an_operator_leafs_through_events_reads_bytes_and_gives_a_redelivery_up() {
    let scene = Scene::sqlite();
    let endpoint = Endpoint::refusing();
    scene.configure(TOKENS, "", &hook(&endpoint));
    scene.enqueue("shop.order.placed.v1", r#"{"order": 4711}"#, 120);
    let mut enqueue = scene
        .command(&[
            "enqueue",
            "shop.photo.taken.v1",
            "-",
            "--content-type",
            "image/png",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = enqueue.stdin.take().unwrap();
    input
        .write_all(b"\x89PNG\r\n\x1a\n\x00\xff\xfe\x80\xc3(<b>")
        .unwrap();
    drop(input);
    assert!(enqueue.wait().unwrap().success());
    let daemon = scene.run();
    daemon.has(121, "dead");
    // Something to leaf through in the audit log: they die again at once.
    scene.posthaste(&[
        "redeliver",
        "--all",
        "--limit",
        "105",
        "--yes",
        "--why",
        "the first of all",
    ]);
    daemon.has(121, "dead");
    browse(include_str!("leaf.py"), &daemon, &[&scene.tokens[2]]);
}

#[test]
fn what_is_far_back_in_a_large_outbox_is_found() {
    let scene = Scene::sqlite();
    scene.configure(TOKENS, "", STDOUT);
    scene.enqueue("shop.needle.lost.v1", r#"{"order": 4711}"#, 1);
    let daemon = scene.run();
    daemon.has(1, "delivered");
    // More than two pages look at.
    scene.enqueue("shop.order.placed.v1", "{}", 21_000);
    eventually("all are delivered", || {
        let told = daemon.get("/api/v1/overview").done();
        told["outboxes"][0]["destinations"][0]["delivered"] == 21_001
    });
    browse(include_str!("far.py"), &daemon, &[&scene.tokens[2]]);
}

#[test]
fn everybody_sees_and_may_do_what_their_role_allows() {
    let scene = Scene::sqlite();
    let endpoint = Endpoint::refusing();
    scene.configure(TOKENS, "", &hook(&endpoint));
    scene.enqueue("shop.order.placed.v1", r#"{"card": "4111-1111"}"#, 1);
    let daemon = scene.run();
    daemon.has(1, "dead");
    let tokens: Vec<&str> = scene.tokens.iter().map(String::as_str).collect();
    browse(include_str!("roles.py"), &daemon, &tokens);
}

#[test]
fn hostile_topics_and_payloads_are_shown_and_do_nothing() {
    let scene = Scene::sqlite();
    let endpoint = Endpoint::refusing();
    scene.configure(TOKENS, "", &hook(&endpoint));
    let script = "<script>window.canary=1;alert(1)</script>";
    let image = "<img src=x onerror=\"window.canary=1;alert(2)\">";
    let turned = "shop.\u{202e}gnp.exe\u{202c}";
    let link = "javascript:window.canary=1;alert(3)";
    let all = format!(
        r#"{{"a": "{script}", "b": "{link}", "{script}": 12345678901234567890, "c": "\u001b[31m\u202e"}}"#
    );
    for topic in [script, image, turned, link] {
        scene.posthaste(&[
            "enqueue",
            topic,
            &all,
            "--relaxed-topic",
            "--aggregate",
            &format!("{script}/{link}"),
            "--event-type",
            image,
            "--header",
            &format!("why={script}"),
        ]);
    }
    scene.posthaste(&[
        "enqueue",
        "shop.raw.v1",
        "\u{1b}[2J\u{7}<b>bold</b>",
        "--content-type",
        "text/html",
        "--relaxed-topic",
    ]);
    let numbers: Vec<String> = (0..70_000).map(|n| format!("{{\"n\":{n}}}")).collect();
    let large = format!("[{},\"{}\"]", numbers.join(","), "x".repeat(100_000));
    assert!(
        large.len() < 1 << 20 && large.len() > 900_000,
        "{}",
        large.len()
    );
    let mut enqueue = scene
        .command(&["enqueue", "shop.large.v1", "-", "--relaxed-topic"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = enqueue.stdin.take().unwrap();
    input.write_all(large.as_bytes()).unwrap();
    drop(input);
    assert!(enqueue.wait().unwrap().success());
    let daemon = scene.run();
    daemon.has(6, "dead");
    browse(include_str!("hostile.py"), &daemon, &[&scene.tokens[2]]);
}

#[test]
fn a_server_or_a_database_that_is_gone_is_told_of() {
    let scene = Scene::sqlite();
    let text = std::fs::read_to_string(scene.file("posthaste.toml")).unwrap();
    // Nobody listens there.
    let lost = text.replace("sqlite:shop.db", "postgres://nobody@127.0.0.1:1/none");
    std::fs::write(scene.file("posthaste.toml"), lost).unwrap();
    let daemon = scene.begin();
    let pid = daemon.pid().to_string();
    browse(include_str!("lost.py"), &daemon, &[&scene.tokens[2], &pid]);
}

#[test]
fn a_database_that_goes_and_comes_back_is_told_of_and_nothing_is_taken_away() {
    let mut scene = Scene::postgres();
    let (proxy, port) = scene.through_a_network();
    scene.configure(TOKENS, "", STDOUT);
    scene.enqueue("shop.order.placed.v1", r#"{"order": 4711}"#, 3);
    let daemon = scene.run();
    daemon.has(3, "delivered");
    // The browser says when.
    let said = |name: &str| scene.file(name).exists();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it is to go", || said("go"));
            proxy.lead_to(1);
            proxy.cut();
            eventually("it is to come back", || said("come"));
            proxy.lead_to(port);
        });
        let folder = scene.folder.path().to_str().unwrap();
        let more = [scene.tokens[2].as_str(), folder];
        browse(include_str!("outage.py"), &daemon, &more);
    });
}
