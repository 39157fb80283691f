//! `run`: what is enqueued is delivered, whatever becomes of the daemon.

use posthaste_testkit::server;
use serde_json::json;
use uuid::Uuid;

use crate::place::{Place, every_place};
use crate::process::{Daemon, ids, json_lines};

every_place! {
    what_is_enqueued_is_delivered_as_json_lines
    a_daemon_that_is_killed_and_started_again_loses_nothing
    logs_are_json_if_asked_for
    logs_are_as_quiet_as_asked_for
}

fn what_is_enqueued_is_delivered_as_json_lines(place: &Place) {
    place.migrated();
    let before = ["enqueue", "shop.order.placed.v1", r#"{"order": 1}"#];
    place.ask(&before).done();
    let daemon = place.run();
    daemon.delivers(1);
    // Also what comes while it runs, with all that goes along.
    let mut after = vec!["enqueue", "shop.order.paid.v1", r#"{"order": 2}"#];
    after.extend([
        "--key",
        "2",
        "--aggregate",
        "Order/2",
        "--header",
        "source=till",
    ]);
    let enqueued = place.ask(&[&after[..], &["--json"]].concat()).json();
    daemon.delivers(2);
    let answer = daemon.stop();
    assert_eq!(answer.code, 0, "{answer:?}");
    let events = json_lines(&answer.out);
    assert_eq!(events[0]["payload"], json!({"order": 1}));
    assert_eq!(events[0]["table"], place.table.as_str());
    let (event, id) = (&events[1], &enqueued[0]["id"]);
    assert_eq!(&event["id"], id);
    assert_eq!(event["topic"], "shop.order.paid.v1");
    assert_eq!(event["ordering_key"], "2");
    assert_eq!(event["aggregate_id"], "2");
    assert_eq!(event["headers"], json!({"source": "till"}));
    assert_eq!(event["attempts"], 1);
    assert_eq!(place.count("delivered"), 2);
}

fn a_daemon_that_is_killed_and_started_again_loses_nothing(place: &Place) {
    place.migrated();
    place.enqueue(3000);
    let mut delivered = Vec::new();
    for sooner in [1, 300] {
        let daemon = place.run();
        daemon.delivers(sooner);
        delivered.extend(daemon.kill());
    }
    let daemon = place.run();
    daemon.until("nothing is left", || place.count("delivered") == 3000);
    delivered.extend(json_lines(&daemon.stop().out));
    assert_eq!(ids(&delivered), ids(&place.events()));
}

fn logs_are_json_if_asked_for(place: &Place) {
    place.configure("", "[log]\nformat = \"json\"");
    place.migrated().enqueue(1);
    let daemon = place.run();
    daemon.delivers(1);
    let lines = json_lines(&daemon.stop().err);
    let texts: Vec<_> = lines
        .iter()
        .filter_map(|it| it["message"].as_str())
        .collect();
    for said in ["serving an outbox", "stopping", "the relay has stopped"] {
        assert!(
            texts.iter().any(|it| it.contains(said)),
            "{said}: {lines:?}"
        );
    }
    for line in &lines {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
    let table = |it: &&serde_json::Value| it["table"] == place.table.as_str();
    assert!(lines.iter().any(|it| table(&it)), "{lines:?}");
}

fn logs_are_as_quiet_as_asked_for(place: &Place) {
    // Not that the usual address is taken, as it is while other tests run.
    place.configure("", "[log]\nlevel = \"warn\"\n[admin]\nenabled = false");
    place.migrated().enqueue(1);
    let daemon = place.run();
    daemon.delivers(1);
    assert_eq!(daemon.stop().err, "");
}

// B2
#[test]
fn one_daemon_serves_many_outboxes_in_both_databases() {
    let place = Place::sqlite();
    let schema = format!("t{}", Uuid::new_v4().simple());
    place.write(&format!(
        "[database]\nurl = \"{}\"\n\
         [[outbox]]\ntable = \"{schema}.orders_outbox\"\n\
         [[outbox]]\ntable = \"{schema}.invoices_outbox\"\n\
         [[outbox]]\ntable = \"till_outbox\"\ndatabase.url = \"sqlite:till.db\"\n\
         [[outbox]]\ntable = \"stock_outbox\"\ndatabase.url = \"sqlite:till.db\"\n\
         [sink.log]\ntype = \"stdout\"\n",
        server::postgres_url()
    ));
    let tables = [
        &format!("{schema}.orders_outbox"),
        &format!("{schema}.invoices_outbox"),
        "public.till_outbox",
        "public.stock_outbox",
    ];
    let done = place.ask(&["migrate", "--json"]).json();
    let made: Vec<_> = done
        .iter()
        .map(|it| it["table"].as_str().unwrap())
        .collect();
    assert_eq!(made, tables);
    let daemon = place.run();
    for table in tables {
        let event = ["enqueue", "shop.order.placed.v1", "--table", table];
        place.ask(&event).done();
    }
    daemon.delivers(4);
    let delivered = daemon.delivered();
    for table in tables {
        assert!(
            delivered.iter().any(|it| it["table"] == table),
            "{table}: {delivered:?}"
        );
    }
    assert_eq!(daemon.stop().code, 0);
}

#[test]
fn one_of_several_outboxes_can_be_served_alone() {
    let place = Place::sqlite();
    place.write(
        "[database]\nurl = \"sqlite:shop.db\"\n[[outbox]]\ntable = \"orders_outbox\"\n\
         [[outbox]]\ntable = \"invoices_outbox\"\n[sink.log]\ntype = \"stdout\"\n",
    );
    place.migrated();
    for table in ["orders_outbox", "invoices_outbox"] {
        let event = ["enqueue", "shop.order.placed.v1", "--table", table];
        place.ask(&event).done();
    }
    let daemon = Daemon::start(place.posthaste(&["run", "--table", "invoices_outbox"]));
    daemon.delivers(1);
    assert_eq!(daemon.stop().out.lines().count(), 1);
    let left = place
        .ask(&["list", "--table", "orders_outbox", "--json"])
        .json();
    assert_eq!(left.len(), 1);
}
