//! `run` and `doctor` with RabbitMQ: the example, and what the log must not tell.

use std::io::{Read, Write};
use std::net::TcpListener;

use posthaste_testkit::server::{self, RabbitMq};
use uuid::Uuid;

use crate::place::{Place, SECRET};

const EXAMPLE: &str = include_str!("../../../../examples/rabbitmq/posthaste.toml");
const CANARY: &str = "canary-of-a-payload";

fn act(arguments: &[&str]) -> String {
    let script = include_str!("../../../posthaste-testkit/python/rabbitmq.py");
    let address = RabbitMq::shared();
    let printed = server::python(script, &[&[&*address], arguments].concat()).unwrap();
    String::from_utf8(printed).unwrap()
}

/// The example, on the server of the tests and with an exchange of its own.
fn example(place: &Place) -> String {
    let exchange = format!("t-{}", Uuid::new_v4().simple());
    let shared = RabbitMq::shared();
    let address = shared.rsplit('@').next().unwrap();
    let configuration = EXAMPLE.replace("127.0.0.1:5672", address).replace(
        "exchange = \"orders\"",
        &format!("exchange = \"{exchange}\""),
    );
    assert!(configuration.contains(&exchange) && configuration.contains(address));
    place.write(&configuration);
    exchange
}

// F5
#[test]
fn the_example_delivers() {
    let place = Place::sqlite();
    let exchange = example(&place);
    act(&["place", &exchange]);
    place.migrated().enqueue(100);
    let found = place.ask(&["doctor"]).done();
    assert!(
        found.contains(&exchange) && found.contains("is there"),
        "{found}"
    );
    let daemon = place.run();
    daemon.until("all is delivered", || place.count("delivered") == 100);
    assert_eq!(daemon.stop().code, 0);
    assert_eq!(act(&["read", &exchange]).lines().count(), 100);
}

// B13: lapin logs messages that come back, payload and all.
#[test]
fn a_message_that_comes_back_is_logged_without_its_payload() {
    let place = Place::sqlite();
    let exchange = example(&place);
    let configured = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    place.write(&format!("[log]\nlevel = \"trace\"\n{configured}"));
    let payload = format!("{{\"secret\":\"{CANARY}\"}}");
    let enqueue = ["enqueue", "shop.order.placed.v1", &payload];
    place.migrated().ask(&enqueue).done();
    let daemon = place.run();
    daemon.says("no queue is bound");
    let answer = daemon.stop();
    assert!(answer.err.contains(&exchange), "{}", answer.err);
    assert!(!answer.err.contains(CANARY), "{}", answer.err);
    let listed = place.ask(&["list", "--status", "any", "--json"]).done();
    assert!(listed.contains("312 NO_ROUTE"), "{listed}");
}

// B13 F9
#[test]
fn a_wrong_password_is_told_without_it() {
    let place = Place::sqlite();
    example(&place);
    let configured = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    let login = format!("user = \"guest\"\npassword = \"{SECRET}\"\n");
    place.write(&(configured + &login));
    place.migrated().enqueue(1);
    // Every answer is searched for the password.
    let answer = place.ask(&["doctor"]);
    assert!(answer.out.contains("ACCESS_REFUSED"), "{answer:?}");
    let daemon = place.run();
    daemon.says("ACCESS_REFUSED");
    daemon.stop();
    assert_eq!(place.count("pending"), 1);
}

/// A webhook that wants no more calls.
fn gone() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let (mut caller, mut call) = (caller.unwrap(), [0; 4096]);
            let _ = caller.read(&mut call);
            let _ = caller.write_all(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n");
        }
    });
    port
}

// F10
#[test]
fn a_dead_letter_arrives_where_letters_go_with_what_went_wrong() {
    let place = Place::sqlite();
    let exchange = example(&place);
    act(&["place", &exchange]);
    let configured = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    let outbox = "table = \"orders_outbox\"";
    assert!(configured.contains(outbox), "{configured}");
    let letters = "[outbox.dead_letter]\ntopic = \"dead.letters.v1\"\n\
                   [[outbox.route]]\ntopic = \"shop.*\"\nsink = \"hook\"\n\
                   [[outbox.route]]\ntopic = \"*\"\nsink = \"orders\"\n";
    let configured = configured.replace(outbox, &format!("{outbox}\n{letters}"));
    let port = gone();
    let hook = format!("url = \"http://127.0.0.1:{port}/\"\nallow = [\"127.0.0.1\"]");
    place.write(&format!(
        "{configured}\n[sink.hook]\ntype = \"http\"\n{hook}\n"
    ));
    place.migrated().enqueue(1);
    let daemon = place.run();
    daemon.until("its letter is delivered", || place.count("delivered") == 1);
    assert_eq!(daemon.stop().code, 0);
    let read = act(&["read", &exchange]);
    let letter: serde_json::Value = serde_json::from_str(read.trim()).unwrap();
    let told = &letter["properties"]["headers"];
    let dead = place.ask(&["dead", "--json"]).json().remove(0);
    assert_eq!(told["posthaste-dead-letter-of"], dead["id"]);
    assert_eq!(told["posthaste-dead-reason"], "rejected");
    assert_eq!(told["posthaste-dead-topic"], "shop.order.placed.v1");
    let error = told["posthaste-dead-error"].as_str().unwrap();
    assert!(error.contains("410"), "{error}");
}
