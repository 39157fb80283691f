//! `sink check`: destinations are looked at for real, and one by one.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::place::Place;

/// With a webhook at this port.
fn with_webhook(port: u16) -> Place {
    let place = Place::sqlite();
    let hook = format!(
        "[sink.hook]\ntype = \"http\"\nurl = \"http://127.0.0.1:{port}/in\"\nallow = [\"127.0.0.1\"]"
    );
    let routes = "[[outbox.route]]\ntopic = \"hook.*\"\nsink = \"hook\"\n\
                  [[outbox.route]]\ntopic = \"*\"\nsink = \"log\"\n";
    place.configure(routes, &hook);
    place
}

#[test]
fn a_destination_that_answers_is_well_and_gets_no_event() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = with_webhook(listener.local_addr().unwrap().port());
    let endpoint = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let mut call = [0; 4096];
        let size = caller.read(&mut call).unwrap();
        caller
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
        String::from_utf8_lossy(&call[..size]).into_owned()
    });
    let found = place.ask(&["sink", "check", "hook"]).done();
    assert!(
        found.contains("sink hook") && found.contains("good"),
        "{found}"
    );
    assert!(!found.contains("sink log"), "{found}");
    assert!(endpoint.join().unwrap().starts_with("HEAD / HTTP/1.1"));
}

#[test]
fn a_destination_that_is_down_is_told_with_the_remedy() {
    let port = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap().port()
    };
    let place = with_webhook(port);
    let answer = place.ask(&["sink", "check"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    for text in ["sink hook", "does not answer", "→ start it", "sink log"] {
        assert!(answer.out.contains(text), "{text}: {answer:?}");
    }
    let found = place.ask(&["sink", "check", "hook", "log", "--json"]);
    assert_eq!(found.code, 5);
    let grades: Vec<_> = found
        .out
        .lines()
        .map(|line| {
            let found: serde_json::Value = serde_json::from_str(line).unwrap();
            found["grade"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(grades, ["bad", "good"]);
}

#[test]
fn a_sink_that_has_left_the_configuration_can_still_be_resumed() {
    let place = with_webhook(1);
    place.migrated();
    place.ask(&["pause", "--sink", "hook"]).done();
    place.configure("", "");
    let told = place.ask(&["resume", "--sink", "hook"]).done();
    assert!(told.contains("resumed sink hook"), "{told}");
    // It is a slip again.
    for command in ["pause", "resume"] {
        let why = place.ask(&[command, "--sink", "hook"]).fails(2);
        assert!(why.contains("there is no sink \"hook\""), "{why}");
    }
}

#[test]
fn a_sink_that_is_not_there_is_told_with_those_that_are() {
    let answer = Place::sqlite().ask(&["sink", "check", "lgo"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(
        answer.err.contains("there is no sink \"lgo\""),
        "{answer:?}"
    );
    assert!(answer.err.contains("has log"), "{answer:?}");
}
