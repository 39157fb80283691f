//! `doctor`: what is well, and each kind of trouble with its remedy.

use serde_json::Value;
use uuid::Uuid;

use crate::place::{Place, every_place, postgres};

every_place! {
    all_is_well
    an_outbox_that_is_not_set_up_is_told_with_the_remedy
    an_outbox_of_a_newer_version_asks_for_an_upgrade
    dead_events_are_worth_a_look_and_no_failure
    it_answers_in_json
    a_doubtful_setting_is_a_finding
}

fn all_is_well(place: &Place) {
    let found = place.migrated().ask(&["doctor"]).done();
    assert!(found.starts_with("configuration\n"), "{found}");
    assert!(found.contains(&place.table), "{found}");
    assert!(
        !found.contains("bad") && !found.contains("doubtful"),
        "{found}"
    );
    let looked_at: &[&str] = match place.is_postgres() {
        true => &["clock", "rights", "durability", "connections", "vacuum"],
        false => &["library", "clock", "journal", "space"],
    };
    let always = ["settings", "database", "schema", "events", "sink log"];
    for check in [&always, looked_at].concat() {
        assert!(found.contains(check), "{check}: {found}");
    }
}

fn an_outbox_that_is_not_set_up_is_told_with_the_remedy(place: &Place) {
    let answer = place.ask(&["doctor"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.out.contains("not set up"), "{answer:?}");
    assert!(
        answer.out.contains("→ run `posthaste migrate`"),
        "{answer:?}"
    );
    assert!(answer.err.contains("1 thing does not work"), "{answer:?}");
}

fn an_outbox_of_a_newer_version_asks_for_an_upgrade(place: &Place) {
    place.migrated().sql(crate::refuse::OF_THE_FUTURE);
    let answer = place.ask(&["doctor"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.out.contains("at version 999"), "{answer:?}");
    assert!(answer.out.contains("→ upgrade posthaste"), "{answer:?}");
}

fn dead_events_are_worth_a_look_and_no_failure(place: &Place) {
    place.migrated();
    // Headers that are no object of texts: what a producer gets wrong with a plain insert.
    place.sql("insert into {outbox} (topic, payload, headers) values ('a', '{}', '[1]')");
    let daemon = place.run();
    daemon.says("a row is no event");
    daemon.until("it is dead", || place.count("dead") == 1);
    let found = place.ask(&["doctor"]).done();
    assert!(
        found.contains("doubtful") && found.contains("1 dead"),
        "{found}"
    );
    assert!(found.contains("posthaste dead"), "{found}");
}

fn grade<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    let found = findings.iter().find(|it| it["check"] == check);
    &found.unwrap_or_else(|| panic!("{check}: {findings:?}"))["grade"]
}

// F8
fn it_answers_in_json(place: &Place) {
    let findings = place.migrated().ask(&["doctor", "--json"]).json();
    for finding in &findings {
        assert_eq!(finding["grade"], "good", "{finding}");
        assert!(finding["about"].is_string() && finding["found"].is_string());
        assert_eq!(finding["remedy"], "");
    }
    assert_eq!(grade(&findings, "destination"), "good");
}

fn a_doubtful_setting_is_a_finding(place: &Place) {
    place.configure("", "[sink.spare]\ntype = \"stdout\"");
    let routed = "[[outbox.route]]\ntopic = \"*\"\nsink = \"log\"\n";
    place.configure(routed, "[sink.spare]\ntype = \"stdout\"");
    let findings = place.migrated().ask(&["doctor", "--json"]).json();
    let settings: Vec<_> = findings
        .iter()
        .filter(|it| it["check"] == "settings")
        .collect();
    assert_eq!(settings.len(), 1, "{findings:?}");
    assert_eq!(settings[0]["grade"], "doubtful", "{findings:?}");
    let found = settings[0]["found"].as_str().unwrap();
    assert!(found.contains("spare"), "{found}");
    assert_ne!(settings[0]["remedy"], "");
}

#[test]
fn a_clock_that_was_set_back_is_told() {
    let place = Place::sqlite();
    place.migrated().enqueue(1);
    place.sql("update {outbox} set created_at = created_at + 3600000000");
    let found = place.ask(&["doctor"]).done();
    assert!(found.contains("doubtful  clock"), "{found}");
    assert!(found.contains("NTP"), "{found}");
}

#[test]
fn a_database_that_is_not_reachable_is_told_beside_what_is_well() {
    let place = Place::sqlite();
    place.migrated();
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    let absent = "[[outbox]]\ntable = \"other_outbox\"\n\
                  database.url = \"postgres://shop:hunter2@127.0.0.1:1/shop\"\n";
    place.write(&(there + absent));
    let answer = place.ask(&["doctor"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.out.contains("not reachable"), "{answer:?}");
    assert!(answer.out.contains("database.url"), "{answer:?}");
    assert!(answer.out.contains("the file can be written"), "{answer:?}");
}

#[test]
fn rights_that_are_lacking_are_told_with_the_remedy() {
    let place = Place::postgres();
    place.migrated();
    let schema = place.table.split_once('.').unwrap().0;
    let role = format!("r{}", Uuid::new_v4().simple());
    postgres(
        &place.url,
        &format!(
            "create role {role} login password 'hunter2'; grant usage on schema {schema} to {role}; \
             grant select on all tables in schema {schema} to {role}"
        ),
    );
    let url = place
        .url
        .replacen("postgres:hunter2@", &format!("{role}:hunter2@"), 1);
    let lacking = place.ask(&["doctor", "--database", &url, "--table", &place.table]);
    assert_eq!(lacking.code, 5, "{lacking:?}");
    assert!(lacking.out.contains("this user may not"), "{lacking:?}");
    assert!(lacking.out.contains("--print --roles"), "{lacking:?}");
    let roles = place.ask(&["migrate", "--print", "--roles"]).done();
    let (_, roles) = roles.split_once("-- roles:").unwrap();
    postgres(
        &place.url,
        &format!("--{roles}; grant posthaste_relay to {role}"),
    );
    let granted = place.ask(&["doctor", "--database", &url, "--table", &place.table]);
    assert!(
        granted.out.contains("all that a relay needs"),
        "{granted:?}"
    );
    granted.done();
    postgres(
        &place.url,
        &format!("drop owned by {role}; drop role {role}"),
    );
}

#[test]
fn a_disk_file_that_is_damaged_is_told() {
    let place = Place::sqlite();
    std::fs::write(place.file("shop.db"), "no database".repeat(100)).unwrap();
    let answer = place.ask(&["doctor", "--json"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    let findings = crate::process::json_lines(&answer.out);
    assert_eq!(grade(&findings, "database"), "bad");
    let found = findings[0]["found"].as_str().unwrap();
    assert!(found.contains("damaged or is no database"), "{found}");
}
