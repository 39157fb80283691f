use posthaste::{Table, schema, store};
use posthaste_relay::{Relay, sink};

// At "postgres://localhost/shop" or "sqlite:shop.db".
async fn relay(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let table = Table::parse("orders_outbox")?;
    schema::apply_at(address, &table).await?; // at every start, from many processes at once
    let store = store::connect(address, table).await?;
    let relay = Relay::builder_on(store.clone())
        .destination("log", sink::stdout())
        .build()?;
    relay.run(std::future::pending()).await; // or until some future of yours is ready
    println!("{:?}", store.stats().await?);
    Ok(())
}

// So much for the README.

use std::time::{Duration, Instant};

use posthaste::store::Filter;
use posthaste::{Message, Status, TopicRule};
use posthaste_testkit::file::FreshFile;
use posthaste_testkit::server::postgres_url;

/// Relays until an event that is enqueued meanwhile is delivered.
async fn delivers(address: &str) {
    let table = Table::parse("orders_outbox").unwrap();
    let delivered = async {
        let started = Instant::now();
        let store = loop {
            match store::connect(address, table.clone()).await {
                Ok(store) => break store,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(30), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let message = Message::json("shop.order.placed.v1", &42).unwrap();
        let receipts = store.enqueue(&[message], TopicRule::Strict).await.unwrap();
        let filter = Filter {
            ids: vec![receipts[0].id],
            ..Filter::default()
        };
        while store.list(&filter, 1).await.unwrap()[0].status != Status::Delivered {
            assert!(started.elapsed() < Duration::from_secs(60), "not delivered");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        ended = relay(address) => panic!("it ended: {ended:?}"),
        () = delivered => {}
    }
}

#[tokio::test]
async fn what_is_enqueued_is_relayed_on_sqlite() {
    let file = FreshFile::new();
    delivers(&file.address()).await;
}

#[tokio::test]
async fn what_is_enqueued_is_relayed_on_postgres() {
    let server = postgres_url();
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let name = format!("readme{}", std::process::id());
    client
        .batch_execute(&format!("create database {name}"))
        .await
        .unwrap();
    let (server, _) = server.rsplit_once('/').unwrap();
    delivers(&format!("{server}/{name}")).await;
    client
        .batch_execute(&format!("drop database {name} with (force)"))
        .await
        .unwrap();
}
