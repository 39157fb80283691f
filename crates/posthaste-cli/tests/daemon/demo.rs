//! `demo`: runs to its end, adds up, in a terminal and without one.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::place::Place;
use crate::process::Daemon;
use crate::pty::Terminal;

fn add_up(totals: &Value) {
    let n = |name: &str| {
        totals[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {totals}"))
    };
    assert!(n("committed") > 20, "{totals}");
    assert_eq!(
        n("committed"),
        n("delivered") + n("dead") + n("pending"),
        "{totals}"
    );
    assert_eq!(
        (n("lost"), n("made_up"), n("pending")),
        (0, 0, 0),
        "{totals}"
    );
}

#[test]
fn it_ends_by_itself_and_its_totals_add_up() {
    let place = Place::sqlite();
    let totals = place.ask(&["demo", "--for", "8s", "--json"]).json();
    assert_eq!(totals.len(), 1);
    add_up(&totals[0]);
    assert!(
        !place.file("shop.db").exists(),
        "it keeps to a file of its own"
    );
}

#[test]
fn without_a_terminal_it_prints_lines() {
    let told = Place::sqlite().ask(&["demo", "--for", "8s"]).done();
    assert!(!told.contains('\u{1b}'), "{told}");
    let lines = told
        .lines()
        .filter(|line| line.contains("orders committed"));
    assert!(lines.count() >= 3, "{told}");
    assert!(
        told.contains("Nothing was lost and nothing was made up"),
        "{told}"
    );
}

#[test]
fn in_a_terminal_it_shows_what_happens_and_gives_the_terminal_back() {
    let place = Place::sqlite();
    let mut terminal = Terminal::open(&place.posthaste(&["demo", "--for", "8s"]));
    for shown in [
        "Posthaste demo",
        "shop",
        "outbox",
        "courier",
        "Nothing was lost",
    ] {
        terminal.until(shown);
    }
    let (code, rest) = terminal.end();
    assert!(!rest.contains('\u{1b}'), "no colour is left on: {rest:?}");
    assert_eq!(code, 0);
}

#[test]
fn in_a_terminal_that_draws_nothing_it_prints_lines() {
    let place = Place::sqlite();
    let mut demo = place.posthaste(&["demo", "--for", "8s"]);
    let mut terminal = Terminal::open(demo.env("TERM", "dumb"));
    for shown in ["Posthaste demo", "orders committed", "Nothing was lost"] {
        let before = terminal.until(shown);
        assert!(!before.contains('\u{1b}'), "{before:?}");
    }
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn ctrl_c_ends_it_well() {
    let place = Place::sqlite();
    let daemon = Daemon::start(place.posthaste(&["demo", "--file", "busy.db", "--json"]));
    daemon.says("the dashboard");
    let shop = ["--database", "sqlite:busy.db", "--table", "orders_outbox"];
    let all = ["list", "--status", "any", "--limit", "0", "--json"];
    daemon.until("orders are taken", || {
        let listed = place.ask(&[&all[..], &shop].concat());
        listed.json().len() > 30
    });
    daemon.signal(Signal::INT);
    let answer = daemon.ended();
    assert_eq!(answer.code, 0, "{answer:?}");
    add_up(&serde_json::from_str(&answer.out).unwrap());
}

#[test]
fn ctrl_c_in_a_terminal_ends_it_well() {
    let place = Place::sqlite();
    let mut terminal = Terminal::open(&place.posthaste(&["demo"]));
    terminal.until("delivered");
    std::thread::sleep(Duration::from_secs(2));
    terminal.control('c');
    terminal.until("the shop closes");
    terminal.until("Nothing was lost");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn ctrl_c_once_more_ends_it_at_once() {
    let place = Place::sqlite();
    let demo = Daemon::start(place.posthaste(&["demo", "--file", "busy.db", "--rate", "100"]));
    let shop = ["--database", "sqlite:busy.db", "--table", "orders_outbox"];
    demo.until("the file is there", || place.file("busy.db").exists());
    demo.until("it is paused", || {
        let paused = place.ask(&[&["pause"][..], &shop].concat());
        paused.code == 0
    });
    // What is paused is not delivered, and the shop waits for it. More than a courier who is away leaves.
    let status = [&["status", "--json"][..], &shop].concat();
    demo.until("the pause is obeyed", || {
        place.ask(&status).json()[0]["pending"].as_u64() > Some(400)
    });
    demo.signal(Signal::INT);
    demo.prints("the shop closes");
    demo.signal(Signal::INT);
    assert_eq!(demo.ended().code, 130);
}

#[test]
fn a_file_that_was_given_is_kept_and_the_hint_works() {
    let place = Place::sqlite();
    let told = place
        .ask(&[
            "demo",
            "--for",
            "8s",
            "--rate",
            "100",
            "--file",
            "my shop.db",
        ])
        .done();
    assert!(place.file("my shop.db").exists());
    let hint = told
        .lines()
        .find_map(|line| line.strip_prefix("Look at it with: "))
        .unwrap();
    let program = env!("CARGO_BIN_EXE_posthaste");
    let mut shell = std::process::Command::new("sh");
    let typed = hint.replacen("posthaste", program, 1);
    shell.args(["-c", &typed]).current_dir(place.folder());
    let dead = crate::process::Answer::of(shell).done();
    assert!(dead.contains("too heavy for any courier"), "{dead}");
    // Once more on the same file: orders go on where they were.
    place
        .ask(&["demo", "--for", "2s", "--file", "my shop.db"])
        .done();
}

#[test]
fn what_an_operator_adds_to_it_is_not_made_up() {
    let place = Place::sqlite();
    let shop = ["--database", "sqlite:busy.db", "--table", "orders_outbox"];
    place.ask(&[&["migrate"][..], &shop].concat()).done();
    // As an earlier demo would leave it that was killed.
    let left = ["enqueue", "shop.order.placed.v1", "--count", "5"];
    place.ask(&[&left[..], &shop].concat()).done();
    let demo = ["demo", "--file", "busy.db", "--json", "--rate", "100"];
    let demo = Daemon::start(place.posthaste(&demo));
    let delivered = || {
        let list = ["list", "--status", "delivered", "--limit", "0", "--json"];
        place.ask(&[&list[..], &shop].concat()).json()
    };
    demo.until("some are delivered", || delivered().len() > 40);
    let id = delivered()[0]["id"].as_str().unwrap().to_owned();
    place
        .ask(&[&["redeliver", &id, "--yes"][..], &shop].concat())
        .done();
    place
        .ask(&[&["enqueue", "shop.order.placed.v1"][..], &shop].concat())
        .done();
    demo.signal(Signal::INT);
    let answer = demo.ended();
    assert_eq!(answer.code, 0, "{answer:?}");
    add_up(&serde_json::from_str(&answer.out).unwrap());
}

#[test]
fn a_file_that_another_process_relays_is_refused_before_an_order_is_taken() {
    let place = Place::sqlite();
    let demo = ["demo", "--file", "busy.db", "--json"];
    let first = Daemon::start(place.posthaste(&demo));
    first.says("the dashboard");
    let why = place.ask(&demo).fails(1);
    let process = format!("process {}", first.pid());
    assert!(why.contains(&process) && why.contains("busy.db"), "{why}");
    // Also while relays are killed and others take over.
    std::thread::sleep(Duration::from_secs(6));
    place.ask(&demo).fails(1);
    first.signal(Signal::INT);
    let answer = first.ended();
    assert_eq!(answer.code, 0, "{answer:?}");
    add_up(&serde_json::from_str(&answer.out).unwrap());
}

#[test]
fn whoever_stops_reading_does_not_break_it() {
    let place = Place::sqlite();
    let mut command = place.posthaste(&["demo", "--for", "2s"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
