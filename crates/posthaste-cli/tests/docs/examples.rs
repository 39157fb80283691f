//! The configurations of `examples/`, on real servers: what is enqueued arrives.

use std::path::Path;
use std::process::Command;

use posthaste_testkit::server::{Kafka, Nats, Options, RabbitMq, Redis, python};

use crate::{repository, scripts};

const TOPIC: &str = "shop.order.placed.v1";

/// Runs the commands of an example's README, with its server at another port. Those that need Docker, or a client that
/// Debian does not have, are for the test to stand in for.
fn deliver(example: &str, port: (u16, u16)) {
    let folder = tempfile::tempdir().unwrap();
    let example = format!("examples/{example}");
    let file = repository().join(&example).join("posthaste.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let (usual, ours) = (format!(":{}", port.0), format!(":{}", port.1));
    assert!(text.contains(&usual), "{text}");
    std::fs::write(
        folder.path().join("posthaste.toml"),
        text.replace(&usual, &ours),
    )
    .unwrap();
    let compose = std::fs::read_to_string(repository().join("compose.yaml")).unwrap();
    let mut run = 0;
    for script in scripts::blocks(&format!("{example}/README.md"), "sh") {
        for line in script.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "posthaste" | "timeout" => {
                    run += 1;
                    shell(folder.path(), line);
                    if line.contains("posthaste run") {
                        until_delivered(folder.path());
                    }
                }
                "redis-cli" => {
                    let redis = format!("redis-cli -p {}", port.1);
                    let told = shell(folder.path(), &line.replace("redis-cli", &redis));
                    assert!(told.contains("payload"), "{told}");
                }
                "nats" => assert_eq!(words[1], "stream"),
                "docker" => {
                    let service = words
                        .iter()
                        .skip(2)
                        .find(|word| compose.contains(&format!("\n  {word}:\n")));
                    assert!(
                        service.is_some(),
                        "compose.yaml has no such service: {line}"
                    );
                }
                _ => panic!("nobody proves `{line}`"),
            }
        }
    }
    assert!(run > 0);
}

/// Five seconds are enough for a reader, and not for a machine that does a hundred other things.
fn until_delivered(folder: &Path) {
    for _ in 0..10 {
        if shell(folder, "posthaste list --status delivered").contains(TOPIC) {
            return;
        }
        shell(folder, "timeout 5 posthaste run");
    }
    panic!("it is not delivered");
}

/// Runs a line of a script, and gives back what it printed. `timeout` says that it was needed.
fn shell(folder: &Path, line: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_posthaste"));
    let here = program.parent().expect("a program is in a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_")) {
        bash.env_remove(name);
    }
    bash.args(["-e", "-c", line]).current_dir(folder);
    bash.env("PATH", format!("{}:{path}", here.display()));
    let output = bash.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    let stopped = line.contains("timeout ") && code == Some(124);
    assert!(code == Some(0) || stopped, "{line}: {told}");
    told
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
for made in admin.create_topics([NewTopic("shop.Order", 1, 1)]).values():
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
    let arguments = ["cloud_events", &server.brokers(), "shop.Order", "binary"];
    one_arrived(python(read, &arguments).unwrap());
}

#[test]
fn the_example_for_rabbitmq_runs() {
    let server = RabbitMq::start(Options::new()).unwrap();
    let look = include_str!("../../../posthaste-testkit/python/rabbitmq.py");
    let place = ["exchange", "orders", "-", "queue", "shop", "-"];
    let bind = ["bind", "shop", "orders", "shop.#"];
    let url = server.url();
    python(look, &[&[&*url][..], &place, &bind].concat()).unwrap();
    deliver("rabbitmq", (5672, server.port()));
    let found = python(look, &[&server.url(), "read", "shop"]).unwrap();
    one_arrived(found);
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
