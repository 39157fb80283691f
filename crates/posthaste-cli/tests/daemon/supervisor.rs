//! `run` under systemd: what it tells, and when.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use uuid::Uuid;

use crate::place::Place;
use crate::process::Daemon;

/// What is told next, or in a while.
fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("something to be told");
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

/// The next thing told that is no sign of life.
fn news(socket: &UnixDatagram) -> String {
    loop {
        let told = told(socket);
        if told != "WATCHDOG=1" {
            return told;
        }
    }
}

fn run(place: &Place, socket: &UnixDatagram, name: &str) -> Daemon {
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut command = place.posthaste(&["run"]);
    command.env("NOTIFY_SOCKET", name);
    command.env("WATCHDOG_USEC", "20000");
    Daemon::start(command)
}

#[test]
fn systemd_is_told_when_it_is_ready_alive_and_stopping() {
    let place = Place::sqlite();
    place.migrated();
    let path = place.file("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let daemon = run(&place, &socket, path.to_str().unwrap());
    assert!(news(&socket).starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(told(&socket), "WATCHDOG=1");
    }
    place.enqueue(1);
    daemon.delivers(1);
    daemon.signal(rustix::process::Signal::TERM);
    assert!(news(&socket).starts_with("STOPPING=1\n"));
    assert_eq!(daemon.ended().code, 0);
}

#[test]
fn a_socket_without_a_file_is_told_too_and_one_that_is_gone_harms_nothing() {
    let place = Place::sqlite();
    place.migrated();
    let name = format!("posthaste-{}", Uuid::new_v4());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    let daemon = run(&place, &socket, &format!("@{name}"));
    assert!(news(&socket).starts_with("READY=1\n"));
    drop(socket);
    place.enqueue(1);
    daemon.delivers(1);
    assert_eq!(daemon.stop().code, 0);
}

#[test]
fn a_daemon_that_waits_for_its_database_is_ready_all_the_same() {
    let place = Place::at("postgres://postgres@127.0.0.1:9/shop");
    let path = place.file("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let daemon = run(&place, &socket, path.to_str().unwrap());
    assert!(news(&socket).starts_with("READY=1\n"));
    daemon.says("Trying again");
    daemon.stop();
}
