//! The private servers keep their promises: durable, restartable, and never left behind.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use posthaste_testkit::server::{Options, Postgres};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Asks with `psql` from the same version as the server.
fn ask(server: &Postgres, sql: &str) -> String {
    let output = Command::new(Postgres::programs().unwrap().join("psql"))
        .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql])
        .arg(server.url())
        .output()
        .expect("psql belongs to PostgreSQL's client programs");
    assert!(output.status.success(), "{sql}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|process| process.path())
        .filter(|process| {
            std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
        })
        .collect()
}

fn is_gone(dir: &Path, port: u16) -> bool {
    !dir.exists()
        && processes_in(dir).is_empty()
        && TcpStream::connect(("127.0.0.1", port)).is_err()
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 15 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_private_server_answers_and_is_as_durable_as_in_production() {
    let server = Postgres::start(Options::new().setting("work_mem", "7MB")).unwrap();
    assert_eq!(ask(&server, "select 1"), "1");
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(ask(&server, &format!("show {setting}")), "on", "{setting}");
    }
    assert_eq!(ask(&server, "show work_mem"), "7MB");
    assert_eq!(ask(&server, "show listen_addresses"), "127.0.0.1");
    assert!(server.url().contains(&format!(":{}/", server.port())));
}

#[test]
fn two_servers_do_not_meet() {
    let one = Postgres::start(Options::new()).unwrap();
    let two = Postgres::start(Options::new()).unwrap();
    assert_ne!(one.port(), two.port());
    ask(&one, "create table only_here ()");
    assert_eq!(ask(&two, "select to_regclass('only_here') is null"), "t");
}

#[test]
fn committed_rows_survive_a_kill_and_a_restart() {
    let mut server = Postgres::start(Options::new()).unwrap();
    let (url, port) = (server.url(), server.port());
    ask(
        &server,
        "create table kept (n int); insert into kept values (1)",
    );

    server.kill().unwrap();
    assert!(processes_in(server.dir()).is_empty());
    assert_eq!(server.pid(), None);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());

    server.start_again().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(ask(&server, "select n from kept"), "1");
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert!(log.contains("automatic recovery in progress"), "{log}");

    ask(&server, "insert into kept values (2)");
    let before = server.pid();
    server.set("work_mem", "9MB");
    server.restart().unwrap();
    assert_ne!(server.pid(), before);
    assert_eq!(ask(&server, "select count(*) from kept"), "2");
    assert_eq!(ask(&server, "show work_mem"), "9MB");
}

#[test]
fn a_running_server_is_not_started_twice_and_a_stopped_one_stops_again_quietly() {
    let mut server = Postgres::start(Options::new()).unwrap();
    assert!(server.start_again().is_err());
    server.stop().unwrap();
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
}

#[test]
fn a_setting_that_cannot_work_is_told_with_the_log() {
    let error = Postgres::start(Options::new().setting("no_such_setting", 1)).unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[test]
fn a_dropped_server_is_gone_at_once() {
    let server = Postgres::start(Options::new()).unwrap();
    let (dir, port) = (server.dir().to_owned(), server.port());
    assert!(dir.exists() && TcpStream::connect(("127.0.0.1", port)).is_ok());
    drop(server);
    assert!(is_gone(&dir, port));
}

#[test]
fn a_killed_and_dropped_server_leaves_no_shared_memory() {
    let mut server = Postgres::start(Options::new()).unwrap();
    let pid_file = std::fs::read_to_string(server.dir().join("data/postmaster.pid")).unwrap();
    let id = pid_file.lines().nth(6).unwrap().split_whitespace().nth(1);
    let segment = |id: &str| {
        let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
        segments
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(id))
    };
    assert!(segment(id.unwrap()));

    server.kill().unwrap();
    drop(server);
    assert!(!segment(id.unwrap()));
}

#[test]
fn a_panicking_owner_leaves_nothing() {
    let (send, receive) = std::sync::mpsc::channel();
    let owner = thread::spawn(move || {
        let server = Postgres::start(Options::new()).unwrap();
        send.send((server.dir().to_owned(), server.port())).unwrap();
        panic!("on purpose");
    });
    assert!(owner.join().is_err());
    let (dir, port) = receive.recv().unwrap();
    assert!(is_gone(&dir, port));
}

#[test]
fn an_owner_killed_by_any_signal_leaves_nothing() {
    for signal in ["KILL", "TERM", "INT"] {
        let (mut owner, dir, port) = owner_in_another_process();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", owner.id())])
            .status();
        assert!(sent.unwrap().success());
        owner.wait().unwrap();
        soon(&format!("gone after SIG{signal}"), || is_gone(&dir, port));
    }
}

/// This test program once more, running only `owner`, until it has a server.
fn owner_in_another_process() -> (Child, PathBuf, u16) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let line = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server: ").map(|(_, rest)| rest.to_owned()))
        .expect("the owner tells its server");
    let (port, dir) = line.split_once(' ').unwrap();
    let dir = PathBuf::from(dir);
    assert!(dir.exists());
    (owner, dir, port.parse().unwrap())
}

#[test]
#[ignore = "the other process of an_owner_killed_by_any_signal_leaves_nothing"]
fn owner() {
    let server = Postgres::start(Options::new()).unwrap();
    println!("server: {} {}", server.port(), server.dir().display());
    thread::sleep(Duration::from_secs(60));
}
