//! The program itself, as its README runs it.

use std::process::Output;

use crate::scene::*;

fn told(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).unwrap()
}

// logistics-1.3, logistics-1.4, logistics-3.7, N4: with a PostgreSQL and the broker, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_kills_workers_and_loses_nothing() {
    // Its queue gets the events of all services on its broker.
    let broker = broker_alone().await;
    let address = database().await;
    let run = async |time: &'static str| {
        let mut command = program();
        command
            .args(["--for", time])
            .env("DATABASE_URL", &address)
            .env("AMQP_URL", broker.url());
        blocking(move || command.output().unwrap()).await
    };
    let output = run("2s").await;
    let said = told(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("workers killed         3 of 8"), "{said}");
    assert!(said.contains("Nothing was lost"), "{said}");
    let client = connect(&address).await;
    let sql = "select count(*) from orders join shipments on order_id = orders.id";
    let shipped: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(
        said.contains(&format!("orders                 {shipped}\n")),
        "{said}"
    );

    // Also of another run, when the events of this one are cleaned away.
    let old = "update outbox_events set delivered_at = delivered_at - interval '8 days'";
    client.execute(old, &[]).await.unwrap();
    let output = run("1s").await;
    assert!(output.status.success(), "{}", told(&output));
    let sql = "select count(*) from outbox_events where delivered_at < now() - interval '7 days'";
    let kept: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(kept, 0, "{}", told(&output));
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
    let output = program().arg("wirker").output().unwrap();
    assert!(told(&output).contains("`worker`"), "{output:?}");
}
