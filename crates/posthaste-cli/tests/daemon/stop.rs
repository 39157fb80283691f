//! `run`: how it ends, and what signals do to it.

use std::process::Command;
use std::time::Duration;

use posthaste_testkit::server::{Options, Postgres};
use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Place, every_place};
use crate::process::{Answer, Daemon};

every_place! {
    both_signals_end_it_well
    what_was_not_started_is_handed_back_without_spending_attempts
    a_second_signal_ends_it_at_once
    a_reader_that_has_stopped_reading_does_not_keep_it_from_ending
    hanging_up_changes_nothing_and_it_says_so
}

fn both_signals_end_it_well(place: &Place) {
    place.migrated();
    for signal in [Signal::TERM, Signal::INT] {
        place.enqueue(10);
        let daemon = place.run();
        daemon.delivers(10);
        daemon.signal(signal);
        let answer = daemon.ended();
        assert_eq!(answer.code, 0, "{answer:?}");
        let name = if signal == Signal::TERM {
            "SIGTERM"
        } else {
            "SIGINT"
        };
        assert!(answer.err.contains(name), "{answer:?}");
        assert!(answer.err.contains("the relay has stopped"), "{answer:?}");
    }
}

/// A daemon in the midst of its first delivery, which nobody reads, with 19 claimed behind it.
fn held_up(place: &Place, relay: &str) -> Daemon {
    place.configure(&format!("[outbox.relay]\n{relay}\n"), "concurrency = 1");
    place.migrated();
    in_its_midst(place, place.posthaste(&["run"]))
}

/// The same, by this command.
fn in_its_midst(place: &Place, run: Command) -> Daemon {
    // More than a pipe holds.
    let payload = format!("\"{}\"", "x".repeat(200_000));
    std::fs::write(place.file("payload"), payload).unwrap();
    let mut enqueue = place.posthaste(&["enqueue", "shop.photo.taken.v1", "-"]);
    enqueue.args(["--count", "20"]);
    enqueue.stdin(std::fs::File::open(place.file("payload")).unwrap());
    Answer::of(enqueue).done();
    let daemon = Daemon::start_unread(run);
    daemon.until("all is claimed", || {
        place.count("processing") == 20 && daemon.has_begun()
    });
    daemon
}

fn attempts(event: &Value) -> u64 {
    event["attempts"].as_u64().unwrap()
}

// M16
fn what_was_not_started_is_handed_back_without_spending_attempts(place: &Place) {
    let mut daemon = held_up(place, "");
    daemon.signal(Signal::TERM);
    daemon.says("stopping");
    daemon.until("the rest is handed back", || place.count("pending") == 19);
    daemon.read();
    let answer = daemon.ended();
    assert_eq!((answer.code, answer.out.lines().count()), (0, 1));
    let events = place.events();
    let delivered: Vec<_> = events
        .iter()
        .filter(|it| it["status"] == "delivered")
        .collect();
    assert_eq!(delivered.len(), 1);
    assert_eq!(attempts(delivered[0]), 1);
    for event in events.iter().filter(|it| it["status"] == "pending") {
        assert_eq!(attempts(event), 0, "{event}");
    }
    let daemon = place.run();
    daemon.delivers(19);
    assert!(daemon.delivered().iter().all(|it| attempts(it) == 1));
    assert_eq!(daemon.stop().code, 0);
}

fn a_second_signal_ends_it_at_once(place: &Place) {
    let daemon = held_up(place, "");
    daemon.signal(Signal::TERM);
    daemon.says("stopping");
    daemon.signal(Signal::INT);
    let answer = daemon.ended();
    assert_eq!(answer.code, 130, "{}", answer.err);
    assert!(answer.err.contains("stopping at once"), "{}", answer.err);
    // What it had in hand is not lost.
    let daemon = place.run();
    daemon.until("all is delivered", || place.count("delivered") == 20);
}

// B17
#[test]
fn the_first_signal_ends_it_well_also_after_an_outbox_has_failed() {
    let place = Place::sqlite();
    place.configure("", "concurrency = 1");
    place.migrated();
    // Of a database that cannot be reached until the other outbox is in the midst of its work.
    let mut server = Postgres::start(Options::new()).unwrap();
    server.stop().unwrap();
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    let missing = format!(
        "[[outbox]]\ntable = \"nowhere.missing_outbox\"\n\
         database.url = \"{}\"\n",
        server.url()
    );
    std::fs::write(place.file("both.toml"), there + &missing).unwrap();
    let run = place.posthaste(&["run", "--config", "both.toml"]);
    let mut daemon = in_its_midst(&place, run);
    server.start_again().unwrap();
    let why = format!("nowhere.missing_outbox at {} is not set up", server.url());
    daemon.says(&format!("stopping all outboxes, because of one: {why}"));
    daemon.signal(Signal::TERM);
    daemon.says("once more to stop at once");
    daemon.read();
    let answer = daemon.ended();
    assert_eq!(answer.code, 4, "{answer:?}");
    assert_eq!(place.count("delivered"), 1);
    assert_eq!(place.count("pending"), 19);
}

// B8, M16
fn a_reader_that_has_stopped_reading_does_not_keep_it_from_ending(place: &Place) {
    let mut daemon = held_up(place, "dispatch_timeout = \"5s\"");
    daemon.signal(Signal::TERM);
    daemon.says("the relay has stopped");
    std::thread::sleep(Duration::from_millis(300));
    daemon.read();
    let answer = daemon.ended();
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(place.count("pending"), 20);
}

/// Stops while its database is frozen, and gives back what a daemon has still to deliver afterwards.
fn frozen(prepare: impl FnOnce(&Place) -> Daemon) -> usize {
    let server = Postgres::start(Options::new()).unwrap();
    let place = Place::at(&server.url());
    let daemon = prepare(&place);
    server.freeze().unwrap();
    daemon.signal(Signal::TERM);
    let answer = daemon.ended();
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(
        answer
            .err
            .contains("the store does not answer: leaving without a word"),
        "{}",
        answer.err
    );
    server.thaw().unwrap();
    let left = place.events().len() - place.count("delivered");
    let daemon = place.run();
    daemon.until("all is delivered", || {
        place.count("delivered") == place.events().len()
    });
    assert_eq!(daemon.stop().code, 0);
    left
}

// M16
#[test]
fn a_frozen_database_does_not_keep_it_from_ending() {
    let left = frozen(|place| {
        place.migrated().enqueue(10);
        let daemon = place.run();
        daemon.until("all is settled", || place.count("delivered") == 10);
        daemon
    });
    assert_eq!(left, 0);
}

// M16, B8
#[test]
fn a_frozen_database_does_not_keep_it_from_ending_with_events_in_hand() {
    let left = frozen(|place| held_up(place, "dispatch_timeout = \"5s\""));
    assert_eq!(left, 20, "what could not be settled is delivered again");
}

fn hanging_up_changes_nothing_and_it_says_so(place: &Place) {
    place.migrated();
    let daemon = place.run();
    daemon.says("serving an outbox");
    place.configure("[outbox.relay]\nenabled = false\n", "");
    daemon.signal(Signal::HUP);
    daemon.says("SIGHUP does nothing");
    place.enqueue(1);
    daemon.delivers(1);
    assert_eq!(daemon.stop().code, 0);
}
