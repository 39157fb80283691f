//! The program itself, as its README runs it, while Kafka is stopped and started under it.

use std::process::{Command, Output, Stdio};

use posthaste_testkit::server::{Kafka, Options};
use uuid::Uuid;

use crate::scene::*;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_order-service"));
    command
        .env_remove("DATABASE_URL")
        .env_remove("KAFKA_BROKERS");
    command
}

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}

// order-service-1.1, order-service-3.1, F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_goes_on_while_kafka_is_stopped_and_loses_nothing() {
    let mut server = blocking(|| Kafka::start(Options::new()).unwrap()).await;
    let brokers = server.brokers();
    let address = database().await;
    let service = program()
        .args(["--for", "10s"])
        .env("DATABASE_URL", &address)
        .env("KAFKA_BROKERS", &brokers)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let client = connect(&address).await;
    let is_set_up = "select to_regclass('order_events') is not null";
    eventually("the service has its tables", async || {
        client.query_one(is_set_up, &[]).await.unwrap().get(0)
    })
    .await;
    let some = async |status: &str, least: i64| {
        eventually(&format!("{least} {status}"), async || {
            statuses(&client).await.get(status) >= Some(&least)
        })
        .await;
    };
    some("SENT", 1).await;
    tokio::task::block_in_place(|| server.stop()).unwrap();
    // Orders are taken as before. Their events wait, and none of them fails.
    some("NEW", 10).await;
    tokio::task::block_in_place(|| server.start_again()).unwrap();

    let output = blocking(move || service.wait_with_output().unwrap()).await;
    assert!(output.status.success(), "{}", told(&output));
    let said = told(&output);
    assert!(said.contains("Nothing was lost"), "{said}");
    assert_eq!(statuses(&client).await.keys().collect::<Vec<_>>(), ["SENT"]);

    // What the service says of itself is what others see.
    let rows = client
        .query("select id from order_events order by id", &[])
        .await
        .unwrap();
    let mut arrived: Vec<_> = read(&brokers, "order-service.Order")
        .await
        .iter()
        .map(Record::id)
        .collect();
    arrived.sort();
    arrived.dedup();
    let sent: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(arrived, sent);
    let refused = said.lines().find(|line| line.contains("refused")).unwrap();
    assert!(!refused.contains(" 0 ("), "{refused}");

    // The totals of another run agree as well, when the events of this one are cleaned away.
    let old = "update outbox set delivered_at = delivered_at - interval '31 days'";
    client.execute(old, &[]).await.unwrap();
    let mut again = program();
    again
        .args(["--for", "1s"])
        .env("DATABASE_URL", &address)
        .env("KAFKA_BROKERS", &brokers);
    let output = blocking(move || again.output().unwrap()).await;
    assert!(output.status.success(), "{}", told(&output));
    let rows = "select id from order_events where id = any($1)";
    let kept = client.query(rows, &[&sent]).await.unwrap();
    assert!(kept.is_empty(), "{}", told(&output));
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
    assert!(told(&output).contains("set KAFKA_BROKERS"), "{output:?}");
    let output = program().arg("--fast").output().unwrap();
    assert!(told(&output).contains("--for 30s"), "{output:?}");
}
