//! How commands end: exit codes, messages, and what needs no database.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use posthaste_testkit::bed::{Bed, OnPostgres};
use posthaste_testkit::server::postgres_url;

use crate::support::{Answer, HOUR, PLACED, Shop, at, message, program, run, snapshot};

fn plain(arguments: &[&str]) -> Answer {
    Answer::of(program(arguments).output().unwrap())
}

#[test]
fn alone_it_says_what_it_can_do() {
    let told = plain(&[]);
    assert!(told.err.contains("Usage: posthaste"), "{told:?}");
    let help = plain(&["--help"]).ok();
    assert!(help.contains("Exit codes:"));
    assert!(plain(&["redeliver", "--help"]).ok().contains("Examples:"));
}

// B22
#[test]
fn a_database_that_is_away_has_its_exit_code_and_no_secret_is_told() {
    let address = "postgres://ann:s3cret@127.0.0.1:1/shop";
    for command in [
        ["list"].as_slice(),
        &["tail"],
        &["redeliver", "--all", "--yes"],
        &["enqueue", PLACED],
    ] {
        let away = plain(&[command, &["--database", address, "--table", "orders"]].concat());
        assert_eq!((away.code, away.out.as_str()), (3, ""), "{command:?}");
        assert!(!away.err.contains("s3cret"), "{away:?}");
    }
    // How it stands is that it is away.
    let status = plain(&["status", "--database", address, "--table", "orders"]);
    assert_eq!(status.code, 3);
    assert!(status.out.contains("does not answer"), "{status:?}");
    assert!(!status.whole().contains("s3cret"), "{status:?}");
    let away = plain(&["list", "--database", address, "--table", "orders"]);
    snapshot("unreachable", &away.whole());
}

// B22
#[test]
fn an_outbox_that_is_not_set_up_has_its_exit_code() {
    let missing = plain(&[
        "list",
        "--database",
        &postgres_url(),
        "--table",
        "nowhere.orders",
    ]);
    assert_eq!(missing.code, 4);
    let told = missing.whole();
    let told = told.replace(&postgres_url(), "postgres://localhost/shop");
    snapshot("not_set_up", &told);
}

// B22
#[test]
fn a_database_that_does_not_exist_is_told_with_what_to_do() {
    let url = postgres_url();
    let (server, _) = url.rsplit_once('/').unwrap();
    let nowhere = format!("{server}/nowhere");
    let told = plain(&["list", "--database", &nowhere, "--table", "orders"]);
    assert_eq!(told.code, 1, "{told:?}");
    let expected = "database \"nowhere\" does not exist (SQLSTATE 3D000). Create it first";
    assert!(told.err.contains(expected), "{told:?}");
}

#[test]
fn whoever_names_an_event_by_anything_else_is_told_what_an_id_looks_like() {
    for arguments in [
        &["show", "1"][..],
        &["redeliver", "1"],
        &["list", "--id", "1"],
    ] {
        let told = plain(arguments);
        assert_eq!(told.code, 2, "{told:?}");
        assert!(told.err.contains("an id looks like 01a1eca3-"), "{told:?}");
    }
}

// B2
#[test]
fn of_outboxes_with_one_name_it_has_to_be_said_which_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[database]\nurl = \"sqlite:a.db\"\n\
                [[outbox]]\ntable = \"orders\"\nclean.retention = \"1h\"\n\
                [[outbox]]\ntable = \"orders\"\ndatabase.url = \"sqlite:b.db\"\nclean.retention = \"30d\"\n\
                [sink.log]\ntype = \"stdout\"\n";
    std::fs::write(folder.path().join("posthaste.toml"), file).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = program(arguments);
        Answer::of(command.current_dir(folder.path()).output().unwrap())
    };
    ask(&["migrate"]).ok();
    let there = ["--table", "orders", "--database", "sqlite:b.db"];
    ask(&[&["enqueue", PLACED], &there[..]].concat()).ok();
    for command in [
        &["discard", "--all", "--yes"][..],
        &["clean", "--yes"],
        &["pause"],
        &["list"],
        &["run"],
    ] {
        let refused = ask(&[command, &["--table", "orders"]].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        let which = "with --database (sqlite:a.db, sqlite:b.db)";
        assert!(refused.err.contains(which), "{refused:?}");
    }
    let clean = ask(&[&["clean", "--dry-run"], &there[..]].concat()).ok();
    assert!(clean.contains("delivered more than 30d ago"), "{clean}");
    let discard = ask(&[&["discard", "--all", "--yes"], &there[..]].concat()).ok();
    assert!(discard.starts_with("discarded 1 event of"), "{discard}");
}

// B2, B22
#[test]
fn what_cannot_be_meant_is_refused() {
    for (name, arguments) in [
        ("no_database", vec!["list"]),
        (
            "no_table",
            vec!["list", "--database", "postgres://localhost/shop"],
        ),
        (
            "bad_table",
            vec![
                "list",
                "--database",
                "postgres://localhost/shop",
                "--table",
                "a; drop table b",
            ],
        ),
        (
            "bad_address",
            vec![
                "list",
                "--database",
                "postgres://ann:s3cret@:x/",
                "--table",
                "orders",
            ],
        ),
        ("bad_age", vec!["list", "--older-than", "yesterday"]),
        ("bad_status", vec!["list", "--status", "lost"]),
        ("bad_reason", vec!["dead", "--reason", "tired"]),
        ("bad_deed", vec!["redeliver", "--status", "pending"]),
    ] {
        let refused = plain(&arguments);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(!refused.err.contains("s3cret"), "{refused:?}");
        snapshot(&format!("refused_{name}"), &refused.whole());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_is_not_an_error() {
    let place = OnPostgres::new().await;
    place.enqueue(&vec![message(PLACED); 5000]).await.unwrap();
    let mut command = at(&place, &["list", "--limit", "0", "--json"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ended = Answer::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

/// The program with an answer that nobody reads.
fn unread(mut command: std::process::Command) -> Answer {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Answer::of(command.stdout(writer).output().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_stops_no_work_and_changes_no_verdict() {
    let place = OnPostgres::new().await;
    let enqueue = ["enqueue", PLACED, "--count", "2500", "--json"];
    assert_eq!(unread(at(&place, &enqueue)).code, 0);
    let status = run(&place, &["status", "--json"]).json();
    assert_eq!(status[0]["pending"], 2500);
    place.pass(HOUR).await;
    assert_eq!(unread(at(&place, &["status", "--check"])).code, 5);
    let nowhere = [
        "doctor",
        "--database",
        &postgres_url(),
        "--table",
        "nowhere.orders",
    ];
    assert_eq!(unread(program(&nowhere)).code, 5);
}

// B22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_enqueued_before_the_database_went_away_is_told() {
    let place = OnPostgres::new().await;
    let fresh = place.fresh();
    let (schema, table) = (fresh.table.schema(), &fresh.table);
    let cut = format!(
        "create function {schema}.cut() returns trigger language plpgsql as $$ begin
           if (select count(*) from {table}) >= 2000 then perform pg_terminate_backend(pg_backend_pid()); end if;
           return null;
         end $$;
         create trigger cut before insert on {table} for each statement execute function {schema}.cut()"
    );
    fresh.client.batch_execute(&cut).await.unwrap();
    let told = run(&place, &["enqueue", PLACED, "--count", "5000"]);
    assert_eq!(told.code, 3, "{}", told.err);
    let said = "enqueued 2000 events, then it failed\n";
    assert!(told.err.starts_with(said), "{}", told.err);
    assert!(told.err.contains("is not reachable"), "{}", told.err);
    // With a line of heads.
    assert_eq!(told.out.lines().count(), 2001);
    let status = run(&place, &["status", "--json"]).json();
    assert_eq!(status[0]["pending"], 2000);
}

// B22: whoever may look, but not read, is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_how_things_stand_but_no_content() {
    let place = OnPostgres::new().await;
    let shop = Shop::open(&place).await;
    let fresh = place.fresh();
    let name = |role: &str| format!("{role}_{}", fresh.table.schema());
    let roles = posthaste::schema::Roles {
        producer: name("producer"),
        relay: name("relay"),
        reader: name("reader"),
        operator: name("operator"),
    };
    let sql = posthaste::schema::roles_sql(&fresh.table, &roles);
    fresh.client.batch_execute(&sql).await.unwrap();
    let address = format!("{}?options=-c%20role%3D{}", fresh.url, roles.reader);
    let as_reader = |arguments: &[&str]| {
        let table = fresh.table.to_string();
        plain(&[arguments, &["--database", &address, "--table", &table]].concat())
    };
    as_reader(&["status"]).ok();
    as_reader(&["list", "--error", "odd", "--topic", "*"]).ok();
    as_reader(&["tail", "--for", "10ms"]).ok();
    let shown = as_reader(&["show", &shop.id(1)]).ok();
    assert!(shown.contains("not to be seen by this user"), "{shown}");
    assert_eq!(
        as_reader(&["show", &shop.id(1), "--json"]).json()[0]["headers"],
        serde_json::Value::Null
    );
    for refused in [
        as_reader(&["show", &shop.id(1), "--payload"]),
        as_reader(&["redeliver", &shop.id(1), "--yes"]),
    ] {
        assert_eq!(refused.code, 1);
        assert!(refused.err.contains("permission denied"), "{refused:?}");
    }
    // As superuser all of it works.
    assert!(
        run(&place, &["show", &shop.id(1), "--payload"])
            .ok()
            .contains("\"order\"")
    );
}

#[test]
fn shells_and_readers_get_what_they_need() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = plain(&["completions", shell]).ok();
        assert!(script.contains("redeliver"), "{shell}");
    }
    assert!(plain(&["man"]).ok().contains(".TH posthaste 1"));
    let directory = std::env::temp_dir().join(format!("posthaste-man-{}", std::process::id()));
    plain(&["man", directory.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(directory.join("posthaste-redeliver.1")).unwrap();
    assert!(page.contains("audit log"));
    std::fs::remove_dir_all(directory).unwrap();
    let refused = plain(&["man", "/proc/nowhere"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("cannot write to /proc/nowhere"),
        "{refused:?}"
    );
}

#[test]
fn a_completion_script_is_one() {
    let script = plain(&["completions", "bash"]).ok();
    let mut check = std::process::Command::new("bash");
    let mut child = check.arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
