//! `run`: databases that come late, go away and come back, and disks that are full.

use std::time::Duration;

use posthaste_testkit::disk::{SmallDisk, has_own_mounts};
use posthaste_testkit::server::{Options, Postgres};

use crate::place::{Place, number};
use crate::process::{Daemon, ids, json_lines};

#[test]
fn a_database_that_is_not_there_yet_is_waited_for() {
    let mut server = Postgres::start(Options::new()).unwrap();
    let place = Place::at(&server.url());
    place.migrated().enqueue(5);
    server.stop().unwrap();
    let daemon = place.run();
    // It says so each time, and waits longer from time to time.
    daemon.says("the database is not reachable");
    for pause in ["500ms", "1s", "2s"] {
        daemon.says(&format!("Trying again in {pause}"));
    }
    server.start_again().unwrap();
    daemon.delivers(5);
    assert_eq!(daemon.stop().code, 0);
}

#[test]
fn while_it_waits_for_a_database_it_can_be_stopped() {
    let place = Place::at("postgres://postgres@127.0.0.1:1/shop");
    let daemon = place.run();
    daemon.says("Trying again");
    assert_eq!(daemon.stop().code, 0);
}

// B17
#[test]
fn one_database_that_is_not_there_holds_up_no_other() {
    let place = Place::sqlite();
    place.migrated().enqueue(3);
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    let absent = "[[outbox]]\ntable = \"other_outbox\"\n\
                  database.url = \"postgres://postgres@127.0.0.1:1/shop\"\n";
    place.write(&(there + absent));
    let daemon = place.run();
    daemon.says("Trying again");
    daemon.delivers(3);
    assert_eq!(daemon.stop().code, 0);
}

/// Another outbox, in a database that is not there.
const ABSENT: &str = "[[outbox]]\ntable = \"other_outbox\"\n\
                      database.url = \"postgres://postgres:hunter2@127.0.0.1:1/shop\"\n";
const NAMED: &str = "public.other_outbox at postgres://postgres:***@127.0.0.1:1/shop: \
                     the database is not reachable";

// B22
#[test]
fn of_several_databases_the_one_that_is_away_is_named_and_the_others_stand_as_they_do() {
    let place = Place::sqlite();
    place.migrated().enqueue(3);
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    place.write(&(ABSENT.to_owned() + &there));
    for flags in [&["status"][..], &["status", "--check"]] {
        let told = place.ask(flags);
        let rows: Vec<Vec<&str>> = told
            .out
            .lines()
            .map(|it| it.split('\t').collect())
            .collect();
        assert_eq!(rows.len(), 3, "{told:?}");
        assert_eq!(rows[1][0], "public.other_outbox");
        assert!(rows[1][7].contains("does not answer"), "{told:?}");
        assert_eq!((rows[2][0], rows[2][1]), (place.table.as_str(), "3"));
        let why = told.fails(3);
        assert!(why.contains(NAMED), "{why}");
    }
    let told = place.ask(&["status", "--json"]);
    let lines = json_lines(&told.out);
    assert_eq!(
        (&lines[0]["healthy"], &lines[1]["pending"]),
        (&false.into(), &3.into())
    );
}

// B22
#[test]
fn an_outbox_that_cannot_be_looked_at_hides_no_other() {
    let place = Place::sqlite();
    place.migrated().enqueue(3);
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    std::fs::write(place.file("letter.db"), "Dear Sir or Madam, ".repeat(100)).unwrap();
    let ill = "[[outbox]]\ntable = \"letters\"\ndatabase.url = \"sqlite:letter.db\"\n\
               [[outbox]]\ntable = \"missing_outbox\"\n";
    place.write(&(ABSENT.to_owned() + ill + &there));
    for flags in [&["status"][..], &["status", "--check"]] {
        let told = place.ask(flags);
        let line = |begins: &str| told.out.lines().find(|it| it.starts_with(begins));
        assert!(line("public.other_outbox\t").is_some(), "{told:?}");
        let letters = line("public.letters\t").expect("a line");
        assert!(letters.contains("is damaged or is no database"), "{told:?}");
        let missing = line("public.missing_outbox\t").expect("a line");
        assert!(missing.contains("is not set up"), "{told:?}");
        let ours = line(&place.table).expect("a line");
        assert!(ours.contains("\t3\t"), "{told:?}");
        let why = told.fails(4);
        for said in [
            NAMED,
            "public.letters at sqlite:letter.db: ",
            "public.missing_outbox in ",
            "is not set up: run posthaste migrate",
        ] {
            assert!(why.contains(said), "{said}: {why}");
        }
    }
    let watch = place.posthaste(&["status", "--watch", "--every", "100ms", "--json"]);
    let watch = Daemon::start(watch);
    watch.prints("\"pending\":3");
    place.ask(&["migrate", "--table", "missing_outbox"]).done();
    watch.until("it is seen", || {
        let log = watch.delivered();
        let seen = |it: &serde_json::Value| {
            it["table"] == "public.missing_outbox" && it["healthy"] == true
        };
        log.iter().any(seen)
    });
}

// B22
#[test]
fn migrate_check_tells_of_every_outbox_whichever_is_away() {
    let place = Place::sqlite();
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    place.write(&(ABSENT.to_owned() + &there));
    let why = place.ask(&["migrate", "--check"]).fails(4);
    assert!(why.contains(NAMED), "{why}");
    let missing = format!(
        "{} in shop.db, which does not exist, is not set up",
        place.table
    );
    assert!(why.contains(&missing), "{why}");
    place.ask(&["migrate", "--table", &place.table]).done();
    let told = place.ask(&["migrate", "--check"]);
    assert!(told.out.contains("up to date"), "{told:?}");
    assert!(told.fails(3).contains(NAMED));
}

// B22
#[test]
fn who_watches_sees_a_database_that_was_not_there_come() {
    let mut server = Postgres::start(Options::new()).unwrap();
    let place = Place::at(&server.url());
    place.migrated().enqueue(3);
    server.stop().unwrap();
    let watch = place.posthaste(&["status", "--watch", "--every", "100ms", "--json"]);
    let watch = Daemon::start(watch);
    watch.prints("does not answer");
    server.start_again().unwrap();
    watch.prints("\"pending\":3");
}

// B22
#[test]
fn migrate_tells_what_it_has_done_before_a_database_was_away() {
    let place = Place::sqlite();
    let there = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    place.write(&(there + ABSENT));
    let told = place.ask(&["migrate"]);
    assert!(told.out.contains(&place.table), "{told:?}");
    assert!(told.out.contains("set up"), "{told:?}");
    let why = told.fails(3);
    assert!(why.contains(NAMED), "{why}");
    let told = place.ask(&["migrate", "--check"]);
    assert!(told.out.contains("up to date"), "{told:?}");
    assert!(told.fails(3).contains(NAMED));
}

// B17 B22
#[test]
fn a_connection_that_is_lost_while_the_schema_is_looked_at_is_no_word_about_the_schema() {
    let place = Place::postgres();
    place.migrated().enqueue(1);
    let schema = place.table.split_once('.').unwrap().0;
    // Who looks waits here, and its session ends meanwhile, as when the server is restarted.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connected = runtime.block_on(tokio_postgres::connect(&place.url, tokio_postgres::NoTls));
    let (client, connection) = connected.unwrap();
    runtime.spawn(connection);
    let run = |sql: &str| runtime.block_on(client.batch_execute(sql)).unwrap();
    run(&format!("begin; lock table {schema}.posthaste_migrations"));
    let cut = format!(
        "select count(pg_terminate_backend(pid)) from pg_locks \
         where not granted and relation = '{schema}.posthaste_migrations'::regclass"
    );
    let through_cuts = |arguments: &[&str], says: &str| {
        let asked = Daemon::start(place.posthaste(arguments));
        asked.until("it says so", || {
            number(&place.url, &cut);
            asked.log().contains(says)
        });
        asked
    };
    for command in [&["migrate"][..], &["migrate", "--check"], &["status"]] {
        through_cuts(command, "error").ended().fails(3);
    }
    let daemon = through_cuts(&["run"], "Trying again");
    run("rollback");
    daemon.delivers(1);
    assert_eq!(daemon.stop().code, 0);
}

fn goes_away_and_comes_back(away: impl FnOnce(&mut Postgres)) {
    let mut server = Postgres::start(Options::new()).unwrap();
    let place = Place::at(&server.url());
    place.migrated().enqueue(2000);
    let daemon = place.run();
    daemon.delivers(1);
    away(&mut server);
    daemon.says("the database is not reachable");
    std::thread::sleep(Duration::from_secs(1));
    server.start_again().unwrap();
    place.enqueue(100);
    daemon.until("all is delivered", || place.count("delivered") == 2100);
    let answer = daemon.stop();
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(ids(&json_lines(&answer.out)), ids(&place.events()));
}

#[test]
fn a_database_that_is_restarted_in_flight_costs_nothing() {
    goes_away_and_comes_back(|server| server.stop().unwrap());
}

#[test]
fn a_database_that_crashes_in_flight_costs_nothing() {
    goes_away_and_comes_back(|server| server.kill().unwrap());
}

#[test]
fn a_full_disk_is_told_and_work_goes_on_once_there_is_space() {
    if !has_own_mounts("outage::a_full_disk_is_told_and_work_goes_on_once_there_is_space") {
        return;
    }
    let mut place = Place::sqlite();
    let folder = place.file("disk");
    std::fs::create_dir(&folder).unwrap();
    let disk = SmallDisk::on(&folder, 2);
    place.url = "sqlite:disk/shop.db".to_owned();
    place.configure("", "");
    place.migrated();
    let daemon = place.run();
    place.enqueue(1);
    daemon.delivers(1);
    // Enqueued in time, and due once the disk is full.
    let late = [
        "enqueue",
        "shop.order.placed.v1",
        "--count",
        "50",
        "--delay",
        "15s",
    ];
    place.ask(&late).done();
    disk.fill();
    let full = place.ask(&["enqueue", "shop.order.placed.v1", "--count", "500"]);
    let why = full.fails(1);
    assert!(why.contains("there is no space left"), "{why}");
    daemon.says("there is no space left");
    disk.free();
    daemon.delivers(51);
    place.enqueue(1);
    daemon.delivers(52);
    let answer = daemon.stop();
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(place.count("delivered"), 52);
    let file = rusqlite::Connection::open(folder.join("shop.db")).unwrap();
    let whole: String = file
        .query_row("pragma integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(whole, "ok");
}
