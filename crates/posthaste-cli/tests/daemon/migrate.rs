//! `migrate`: applied, applied again, checked, printed; the NOTIFY trigger; many at once.

use std::io::Write;
use std::process::{Command, Stdio};

use posthaste_testkit::server::Postgres;
use serde_json::json;

use crate::place::{Place, every_place, number};

every_place! {
    it_makes_what_is_missing_and_then_has_nothing_to_do
    check_changes_nothing_and_says_what_there_is_to_do
    it_answers_in_json
    what_it_prints_can_be_run_by_others
    many_may_migrate_at_once
}

fn it_makes_what_is_missing_and_then_has_nothing_to_do(place: &Place) {
    let made = place.ask(&["migrate"]).done();
    assert!(
        made.contains(&place.table) && made.contains("set up"),
        "{made}"
    );
    let again = place.ask(&["migrate"]).done();
    assert!(again.contains("up to date"), "{again}");
    place.enqueue(1);
    assert_eq!(place.count("pending"), 1);
}

fn check_changes_nothing_and_says_what_there_is_to_do(place: &Place) {
    for _ in 0..2 {
        let why = place.ask(&["migrate", "--check"]).fails(4);
        assert!(
            why.contains(&place.table) && why.contains("posthaste migrate"),
            "{why}"
        );
    }
    assert!(!place.file("shop.db").exists());
    place.migrated();
    let found = place.ask(&["migrate", "--check"]).done();
    assert!(found.contains("up to date"), "{found}");
}

fn it_answers_in_json(place: &Place) {
    let line = |changed: bool| json!({"table": place.table, "version": 3, "changed": changed});
    assert_eq!(place.ask(&["migrate", "--json"]).json(), [line(true)]);
    assert_eq!(place.ask(&["migrate", "--json"]).json(), [line(false)]);
    assert_eq!(
        place.ask(&["migrate", "--check", "--json"]).json(),
        [line(false)]
    );
}

/// psql, reading SQL as it was printed.
fn psql(url: &str, sql: &str) {
    let mut psql = Command::new(Postgres::programs().unwrap().join("psql"))
        .args(["--no-psqlrc", "--quiet", "--single-transaction"])
        .args(["--set", "ON_ERROR_STOP=1", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    psql.stdin
        .take()
        .unwrap()
        .write_all(sql.as_bytes())
        .unwrap();
    assert!(psql.wait().unwrap().success());
}

fn what_it_prints_can_be_run_by_others(place: &Place) {
    let sql = place.ask(&["migrate", "--print"]).done();
    place.ask(&["migrate", "--check"]).fails(4);
    if place.is_postgres() {
        let schema = place.table.split_once('.').unwrap().0;
        psql(&place.url, &format!("create schema {schema};\n{sql}"));
    } else {
        let file = rusqlite::Connection::open(place.file("shop.db")).unwrap();
        file.execute_batch(&sql).unwrap();
    }
    place.ask(&["migrate", "--check"]).done();
    place.enqueue(1);
    place.run().delivers(1);
}

fn many_may_migrate_at_once(place: &Place) {
    let start = |_| {
        let mut command = place.posthaste(&["migrate"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..4).map(start).collect();
    for one in all {
        let output = one.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    place.ask(&["migrate", "--check"]).done();
}

#[test]
fn roles_are_printed_if_asked_for_and_can_be_run() {
    let place = Place::postgres();
    place.migrated();
    let sql = place.ask(&["migrate", "--print", "--roles"]).done();
    let plain = place.ask(&["migrate", "--print"]).done();
    let roles = sql.strip_prefix(plain.trim_end()).expect("roles come last");
    for role in ["producer", "relay", "reader", "operator"] {
        assert!(roles.contains(&format!("posthaste_{role}")), "{roles}");
    }
    psql(&place.url, roles);
    place.ask(&["migrate", "--roles"]).fails(2);
    let why = Place::sqlite()
        .ask(&["migrate", "--print", "--roles"])
        .fails(2);
    assert!(why.contains("SQLite has no roles"), "{why}");
}

#[test]
fn the_notify_trigger_comes_and_goes_with_its_setting() {
    let place = Place::postgres();
    let triggers = || {
        let sql = "select count(*) from pg_trigger where not tgisinternal and tgrelid = ";
        number(&place.url, &format!("{sql} '{}'::regclass", place.table))
    };
    place.migrated();
    assert_eq!(triggers(), 0);
    for _ in 0..2 {
        place.configure("[outbox.relay]\nnotify = true\n", "");
        place.migrated();
        assert_eq!(triggers(), 1);
    }
    place.configure("", "");
    place.migrated();
    assert_eq!(triggers(), 0);
}
