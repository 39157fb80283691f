//! The stream of looks: at once, then every second, alike for everybody, until the daemon ends.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::scene::{Daemon, Scene};
use crate::shape::fits;

/// Reads frames off a stream.
struct Frames(std::io::Lines<BufReader<std::net::TcpStream>>);

impl Frames {
    fn of(daemon: &Daemon, token: &str) -> Self {
        let ask = daemon.ask("GET", "/api/v1/live").by(token);
        let mut lines = BufReader::new(ask.begin()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("200"), "{first}");
        Self(lines)
    }

    fn next(&mut self) -> Option<Value> {
        let line = self
            .0
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.starts_with("data: "))?;
        Some(serde_json::from_str(&line["data: ".len()..]).unwrap())
    }
}

#[test]
fn every_second_is_told_to_everybody_who_watches() {
    let scene = Scene::sqlite();
    let mut daemon = scene.run();
    let mut watching: Vec<Frames> = (0..3)
        .map(|_| Frames::of(&daemon, &scene.tokens[0]))
        .collect();
    scene.enqueue("shop.order.placed.v1", "{}", 5);
    let mut seen = Vec::new();
    for frames in &mut watching {
        let mut delivered = 0.0;
        let mut times = Vec::new();
        while delivered < 5.0 || times.len() < 3 {
            let frame = frames.next().expect("one more");
            times.push(frame["at"].as_str().unwrap().to_owned());
            if let Some(outbox) = frame["outboxes"].get(0) {
                fits(&daemon, "OutboxNow", outbox);
                delivered = outbox["destinations"][0]["delivered"].as_f64().unwrap();
            }
        }
        times.dedup();
        seen.push(times);
    }
    assert!(
        seen.iter()
            .all(|times| times.contains(seen[0].last().unwrap()) || times.len() >= 3)
    );
    // Nobody who watches keeps the daemon from ending.
    daemon.signal("-TERM");
    assert_eq!(daemon.ended(), 0);
    while watching[0].next().is_some() {}
}

#[test]
fn a_stream_ends_with_the_session_that_began_it() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let login = daemon.ask("POST", "/login");
    let told = login.form(&format!("token={}", scene.tokens[0])).send();
    let cookie = told
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let watch = daemon.ask("GET", "/api/v1/live").with("Cookie", cookie);
    let mut frames = Frames(BufReader::new(watch.begin()).lines());
    assert!(frames.next().is_some());
    let out = daemon.ask("POST", "/logout").with("Cookie", cookie);
    assert_eq!(out.with("Sec-Fetch-Site", "same-origin").send().status, 303);
    while frames.next().is_some() {}
}

#[test]
fn one_caller_watches_so_often_and_no_more() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let watching: Vec<Frames> = (0..32)
        .map(|_| Frames::of(&daemon, &scene.tokens[0]))
        .collect();
    let more = |place: usize| {
        let ask = daemon.ask("GET", "/api/v1/live").by(&scene.tokens[place]);
        let mut lines = BufReader::new(ask.begin()).lines();
        lines.next().unwrap().unwrap()
    };
    assert!(more(0).contains("429"));
    assert!(more(2).contains("200"), "others watch all the same");
    drop(watching);
    let mut tries = (0..200).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        more(0)
    });
    assert!(tries.any(|line| line.contains("200")), "places come back");
}

#[test]
fn however_many_begin_to_watch_the_database_is_asked_once_a_second() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(4) {
        let mut frames = Frames::of(&daemon, &scene.tokens[0]);
        assert!(frames.next().is_some());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let points = daemon.get("series").done()["points"].clone();
    let points = points.as_array().unwrap();
    let at = |place: usize| points[place]["at"].as_u64().unwrap();
    let seconds = at(points.len() - 1).saturating_sub(at(0)) / 1000;
    assert!(
        points.len() as u64 <= seconds + 3,
        "{} looks in {seconds} s",
        points.len()
    );
}
