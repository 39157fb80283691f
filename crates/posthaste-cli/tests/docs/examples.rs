//! The configurations of `examples/`, on real servers: what is enqueued arrives.

use std::path::Path;
use std::process::Command;

use posthaste_testkit::server::{Kafka, Nats, Options, Redis, python};

use crate::repository;

const TOPIC: &str = "shop.order.placed.v1";

/// Runs an example as its README says, with its server at another port.
fn deliver(example: &str, port: (u16, u16)) {
    let folder = tempfile::tempdir().unwrap();
    let file = repository()
        .join("examples")
        .join(example)
        .join("posthaste.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let (usual, ours) = (format!(":{}", port.0), format!(":{}", port.1));
    assert!(text.contains(&usual), "{text}");
    std::fs::write(
        folder.path().join("posthaste.toml"),
        text.replace(&usual, &ours),
    )
    .unwrap();
    for arguments in [
        &["migrate"][..],
        &["doctor"],
        &["enqueue", TOPIC, "{\"order\": 42}"],
    ] {
        let output = posthaste(folder.path()).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
        if arguments == ["doctor"] {
            assert!(
                told.contains("acknowledg") || told.contains("2xx"),
                "{told}"
            );
        }
    }
    let mut relay = posthaste(folder.path()).arg("run").spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let listed = posthaste(folder.path())
            .args(["list", "--status", "delivered"])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&listed.stdout).contains(TOPIC) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "it is not delivered");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
}

fn posthaste(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    let ours = std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command
}

fn one_arrived(printed: Vec<u8>) {
    let text = String::from_utf8(printed).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(TOPIC), "{text}");
}

#[test]
fn the_example_for_redis_runs() {
    let server = Redis::start(Options::new()).unwrap();
    deliver("redis", (6379, server.port()));
    let read = include_str!("../../../posthaste-testkit/python/redis.py");
    let key = format!("events:{TOPIC}");
    one_arrived(python(read, &[&server.url(), &key]).unwrap());
}

const ADD_STREAM: &str = r#"
import asyncio, sys, nats

async def main():
    client = await nats.connect(sys.argv[1])
    await client.jetstream().add_stream(name="EVENTS", subjects=["events.>"])
    await client.close()

asyncio.run(main())
"#;

#[test]
fn the_example_for_nats_runs() {
    let server = Nats::start(Options::new()).unwrap();
    python(ADD_STREAM, &[&server.url()]).unwrap();
    deliver("nats", (4222, server.port()));
    let read = include_str!("../../../posthaste-testkit/python/nats.py");
    one_arrived(python(read, &[&server.url(), "EVENTS"]).unwrap());
}

const ADD_TOPIC: &str = r#"
import sys
from confluent_kafka.admin import AdminClient, NewTopic

admin = AdminClient({"bootstrap.servers": sys.argv[1]})
for made in admin.create_topics([NewTopic("shop.other", 1, 1)]).values():
    made.result()
"#;

#[test]
fn the_example_for_kafka_runs() {
    let server = Kafka::start(Options::new()).unwrap();
    python(ADD_TOPIC, &[&server.brokers()]).unwrap();
    let port = server
        .brokers()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    deliver("kafka", (9092, port));
    let read = include_str!("../../../posthaste-testkit/python/kafka.py");
    let arguments = ["cloud_events", &server.brokers(), "shop.other", "binary"];
    one_arrived(python(read, &arguments).unwrap());
}

/// The endpoint is the one of the README.
#[test]
fn the_example_for_webhooks_runs() {
    let readme = repository().join("examples/http/README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let script = readme.split("```python\n").nth(1).unwrap();
    let script = script.split("```").next().unwrap();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let mut endpoint = Command::new("python3")
        .args(["-c", &script.replace("8080", &port.to_string())])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(endpoint.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    deliver("http", (8080, port));
    endpoint.kill().unwrap();
    let output = endpoint.wait_with_output().unwrap();
    one_arrived(output.stdout);
}
