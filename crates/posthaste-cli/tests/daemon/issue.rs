//! The configuration that the project was begun with works as it stands, on both databases.

use std::process::Command;

use posthaste_testkit::server::{Options, Postgres};

use crate::place::Place;
use crate::process::{Answer, Daemon};

/// As it was first written down, to the letter: every value is the default.
const CONFIGURATION: &str = include_str!("../config/good/issue.toml");

fn works(url: &str) {
    let place = Place::sqlite();
    place.write(CONFIGURATION);
    let at = |arguments: &[&str]| -> Command {
        let mut command = place.posthaste(arguments);
        command.env("POSTHASTE_DATABASE__URL", url);
        command
    };
    Answer::of(at(&["config", "check"])).done();
    Answer::of(at(&["migrate"])).done();
    let daemon = Daemon::start(at(&["run"]));
    let event = [
        "enqueue",
        "shop.order.placed.v1",
        r#"{"order": 42}"#,
        "--json",
    ];
    let enqueued = Answer::of(at(&event)).json();
    daemon.delivers(1);
    let delivered = daemon.delivered();
    assert_eq!(delivered[0]["id"], enqueued[0]["id"]);
    assert_eq!(delivered[0]["table"], "public.orders_outbox");
    assert_eq!(daemon.stop().code, 0);
    Answer::of(at(&["doctor"])).done();
}

// B15
#[test]
fn the_first_configuration_works_verbatim_on_postgres() {
    let server = Postgres::start(Options::new()).unwrap();
    works(&server.url());
}

// B15
#[test]
fn the_first_configuration_works_verbatim_on_sqlite() {
    works("sqlite:shop.db");
}
