//! The program itself, as its README runs it, and what Prometheus can read from it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use posthaste_testkit::server;

use crate::scene::*;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farm"));
    for name in ["DATABASE_URL", "AMQP_URL", "METRICS_LISTEN"] {
        command.env_remove(name);
    }
    command
}

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}

fn scrape(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: farm\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

// farm-0.3, farm-6.1, farm-8.1, farm-8.2, farm-8.3, farm-8.4, farm-12.5, F7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_loses_nothing_and_exports_the_metrics_of_the_document() {
    // Its queue gets the events of every farm on its broker.
    let broker = broker_alone().await;
    let address = database().await;
    let listen = format!("127.0.0.1:{}", server::free_port().unwrap());
    let farm = program()
        .args(["--for", "6s"])
        .env("DATABASE_URL", &address)
        .env("AMQP_URL", broker.url())
        .env("METRICS_LISTEN", &listen)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = [
        "outbox_pending{",
        "outbox_dead{",
        // The average is the sum divided by the count.
        "outbox_process_latency_seconds_sum{",
        "outbox_process_latency_seconds_count{",
        "outbox_attempts_bucket{",
    ];
    eventually("all metrics are there", async || {
        let text = scrape(&listen).unwrap_or_default();
        metrics.iter().all(|name| text.contains(name))
    })
    .await;
    let output = blocking(move || farm.wait_with_output().unwrap()).await;
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        told(&output).contains("Nothing was lost"),
        "{}",
        told(&output)
    );
    let client = connect(&address).await;
    let sql = "select count(*) from outbox_messages where status = 'delivered'";
    let delivered: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(delivered > 10, "{delivered}");

    // Also of another run, when the events of this one are in the archive.
    let old = "update outbox_messages set delivered_at = delivered_at - interval '8 days'";
    client.execute(old, &[]).await.unwrap();
    let mut again = program();
    again
        .args(["--for", "1s"])
        .env("DATABASE_URL", &address)
        .env("AMQP_URL", broker.url());
    let output = blocking(move || again.output().unwrap()).await;
    assert!(output.status.success(), "{}", told(&output));
    let archived = format!("events Processed, archived {delivered}\n");
    assert!(told(&output).contains(&archived), "{}", told(&output));
}

#[test]
fn without_its_servers_it_says_what_is_missing() {
    let output = program().output().unwrap();
    assert!(!output.status.success());
    assert!(told(&output).contains("set DATABASE_URL"), "{output:?}");
    let output = program()
        .env("DATABASE_URL", "postgres://nowhere")
        .output()
        .unwrap();
    assert!(told(&output).contains("set AMQP_URL"), "{output:?}");
}
