//! `run`: what it refuses to start with, with the exit code and what to do.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use posthaste_testkit::disk::is_root;

use crate::place::{Place, every_place};
use crate::process::{Answer, Daemon};

every_place! {
    an_outbox_that_is_not_set_up_is_refused_with_the_remedy
    an_outbox_of_a_newer_version_is_refused
    one_outbox_that_cannot_be_served_ends_all
    a_broken_configuration_is_refused_with_all_its_mistakes
}

/// As a later version would leave the outbox.
pub(crate) const OF_THE_FUTURE: &str = "insert into {schema}.posthaste_migrations (object, version, name, checksum) \
     select object, 999, 'of the future', 'x' from {schema}.posthaste_migrations limit 1";

fn an_outbox_that_is_not_set_up_is_refused_with_the_remedy(place: &Place) {
    let why = place.ask(&["run"]).fails(4);
    assert!(
        why.contains(&place.table) && why.contains("posthaste migrate"),
        "{why}"
    );
    assert!(
        !place.file("shop.db").exists(),
        "nothing is made in passing"
    );
}

fn an_outbox_of_a_newer_version_is_refused(place: &Place) {
    place.migrated().sql(OF_THE_FUTURE);
    let commands: [&[&str]; 4] = [&["run"], &["migrate"], &["migrate", "--check"], &["status"]];
    for command in commands {
        let why = place.ask(command).fails(4);
        assert!(
            why.contains("999") && why.contains("upgrade posthaste"),
            "{why}"
        );
    }
}

fn one_outbox_that_cannot_be_served_ends_all(place: &Place) {
    place.migrated();
    let schema = place.table.split_once('.').unwrap().0;
    let one = std::fs::read_to_string(place.file("posthaste.toml")).unwrap();
    place.write(&format!(
        "{one}\n[[outbox]]\ntable = \"{schema}.missing_outbox\"\n"
    ));
    let why = place.ask(&["run"]).fails(4);
    assert!(why.contains("missing_outbox"), "{why}");
}

// B15
fn a_broken_configuration_is_refused_with_all_its_mistakes(place: &Place) {
    let relay = "[outbox.relay]\nbatch_sise = 5\nlease = \"soon\"\n";
    place.configure(relay, "[log]\nlevel = \"loud\"");
    let why = place.ask(&["run"]).fails(2);
    for mistake in ["batch_sise", "soon", "loud", "posthaste.toml"] {
        assert!(why.contains(mistake), "{mistake}: {why}");
    }
}

#[test]
fn nothing_to_relay_is_refused() {
    let place = Place::sqlite();
    std::fs::remove_file(place.file("posthaste.toml")).unwrap();
    let why = place.ask(&["run"]).fails(2);
    assert!(why.contains("there is no posthaste.toml"), "{why}");
    let where_to = [
        "run",
        "--database",
        "sqlite:shop.db",
        "--table",
        "orders_outbox",
    ];
    let why = place.ask(&where_to).fails(2);
    assert!(why.contains("nothing says where the events"), "{why}");
}

#[test]
fn a_second_daemon_on_one_file_is_refused_and_told_which_process_has_it() {
    let place = Place::sqlite();
    place.migrated();
    let daemon = place.run();
    daemon.says("serving an outbox");
    let why = place.ask(&["run"]).fails(1);
    let process = format!("process {}", daemon.pid());
    assert!(why.contains(&process) && why.contains("shop.db"), "{why}");
    // The first one goes on, and when it is gone the next may start.
    place.enqueue(1);
    daemon.delivers(1);
    assert_eq!(daemon.stop().code, 0);
    place.enqueue(1);
    place.run().delivers(1);
}

#[test]
fn a_folder_that_is_missing_is_told_at_once() {
    let mut place = Place::sqlite();
    place.url = "sqlite:nowhere/shop.db".to_owned();
    place.configure("", "");
    let why = place.ask(&["run"]).fails(4);
    assert!(
        why.contains("nowhere/shop.db, which does not exist"),
        "{why}"
    );
    let why = place.ask(&["migrate"]).fails(1);
    assert!(why.contains("nowhere") && why.contains("folder"), "{why}");
}

#[test]
fn a_file_that_is_no_database_is_told_and_left_as_it_is() {
    let place = Place::sqlite();
    let letter = "Dear Sir or Madam, ".repeat(100);
    std::fs::write(place.file("shop.db"), &letter).unwrap();
    for command in ["run", "migrate", "status"] {
        let why = place.ask(&[command]).fails(1);
        assert!(why.contains("is damaged or is no database"), "{why}");
    }
    let left = std::fs::read_to_string(place.file("shop.db")).unwrap();
    assert_eq!(left, letter);
}

const NOBODY: u32 = 65_534;

/// The program as somebody who may do no more than permissions allow. As root we could write to any file.
fn as_nobody(place: &Place, command: &str) -> Answer {
    let copy = place.file("posthaste");
    if !copy.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_posthaste"), &copy).unwrap();
    }
    let mut program = std::process::Command::new(copy);
    program.arg(command).current_dir(place.folder());
    if is_root() {
        program.uid(NOBODY).gid(NOBODY);
    }
    Daemon::start(program).ended()
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_may_not_be_read_or_written_is_told_at_once() {
    let place = Place::sqlite();
    place.migrated().enqueue(1);
    allow(place.folder(), 0o755);
    allow(&place.file("shop.db"), 0o000);
    let why = as_nobody(&place, "run").fails(1);
    assert!(
        why.contains("cannot be opened") && why.contains("may read and write"),
        "{why}"
    );
    allow(&place.file("shop.db"), 0o444);
    allow(place.folder(), 0o555);
    let why = as_nobody(&place, "run").fails(1);
    assert!(
        why.contains("its folder") && why.contains("shop.db"),
        "{why}"
    );
    let found = as_nobody(&place, "doctor");
    assert_eq!(found.code, 5, "{found:?}");
    assert!(found.out.contains("its folder"), "{found:?}");
    for of_a_server in ["grant", "server"] {
        assert!(!found.out.contains(of_a_server), "{found:?}");
    }
    allow(place.folder(), 0o755);
    allow(&place.file("shop.db"), 0o644);
    assert_eq!(place.count("pending"), 1);
}
