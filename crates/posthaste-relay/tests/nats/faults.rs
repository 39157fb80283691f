//! Servers and networks that break under load: nothing is lost, and no event is blamed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_relay::sink::nats::NatsBuilder;
use posthaste_relay::sink::{Nats, Outcome, Sink};
use posthaste_testkit::server::Proxy;
use posthaste_testkit::sink_contract::load::{Load, until_delivered};
use posthaste_testkit::sink_contract::{self, events, message};

use crate::stream::*;

const TIMEOUT: Duration = Duration::from_millis(1000);

fn builder(port: u16) -> NatsBuilder {
    Nats::builder(format!("nats://127.0.0.1:{port}"))
}

fn impatient(port: u16) -> Arc<Nats> {
    let builder = builder(port).timeout(TIMEOUT);
    Arc::new(builder.connect_timeout(TIMEOUT).build().unwrap())
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_loses_nothing_that_it_acknowledged() {
    let mut server = private_stream().await;
    let load = Load::start(impatient(server.port()));
    for _ in 0..3 {
        load.goes_on(500).await;
        server.kill().unwrap();
        tokio::time::sleep(MS(100)).await;
        server.start_again().unwrap();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), NAME).await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_frozen_under_load_is_an_outage_that_ends_when_it_goes_on() {
    let server = private_stream().await;
    let load = Load::start(impatient(server.port()));
    for _ in 0..2 {
        load.goes_on(500).await;
        server.pause().unwrap();
        // Longer than all that wait for it.
        tokio::time::sleep(TIMEOUT * 3).await;
        server.resume().unwrap();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), NAME).await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_an_outage_that_ends_with_it() {
    let server = private_stream().await;
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(impatient(proxy.port()));
    for _ in 0..2 {
        load.goes_on(500).await;
        proxy.hole();
        tokio::time::sleep(TIMEOUT * 3).await;
        proxy.heal();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), NAME).await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_in_the_middle_of_it_lose_nothing() {
    let server = private_stream().await;
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(impatient(proxy.port()));
    for round in 0..3 {
        load.goes_on(300).await;
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.lose_an_answer(),
        }
    }
    load.goes_on(300).await;
    load.end().await.balance(&read(&server.url(), NAME).await);
}

// F9: all that wait on a silent connection get to know at once, in bounded time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_deliveries_to_a_silent_server_end_together() {
    let server = private_stream().await;
    let sink = impatient(server.port());
    until_delivered(&*sink, &event().await, &mut Vec::new()).await;
    server.pause().unwrap();
    let events = events(&vec![message(); 1000]).await;
    let started = Instant::now();
    for _ in 0..2 {
        let all = events.iter().map(|event| sink.deliver(event.clone()));
        let outcomes = futures_util::future::join_all(all).await;
        assert!(
            outcomes.iter().all(|one| is_unavailable(one, "")),
            "{:?}",
            outcomes[0]
        );
    }
    // Far less than one after the other would take.
    assert!(started.elapsed() < TIMEOUT * 20);
    server.resume().unwrap();
    until_delivered(&*sink, &event().await, &mut Vec::new()).await;
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_every_connection_is_blamed_in_the_end() {
    let server = private_stream().await;
    let proxy = Proxy::start(server.port()).unwrap();
    let sink = builder(proxy.port()).build().unwrap();
    let poison = event().await;
    let mut broken = 0;
    while broken < 4 {
        until_delivered(&sink, &event().await, &mut Vec::new()).await;
        proxy.lose_an_answer();
        let outcome = sink_contract::deliver(&sink, &poison).await;
        broken += 1;
        match broken {
            // What was lost was the answer to a ping: then it is not to blame, and all begins anew.
            _ if outcome == Outcome::Delivered => broken = 0,
            4 => assert!(is_retry(&outcome, "broke"), "{outcome:?}"),
            _ => assert!(is_unavailable(&outcome, "broke"), "{outcome:?}"),
        }
    }
}

// An idle connection that is closed is noticed, and costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let server = private_stream().await;
    let proxy = Proxy::start(server.port()).unwrap();
    let sink = builder(proxy.port()).build().unwrap();
    for _ in 0..10 {
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
        proxy.cut();
        tokio::time::sleep(MS(500)).await;
    }
}

// F9: the address of another server of the cluster is used when the first is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_is_used_if_the_first_is_down() {
    let server = private_stream().await;
    let sink = Nats::builder("nats://127.0.0.1:1").server(server.url());
    assert_eq!(outcome(&sink.build().unwrap()).await, Outcome::Delivered);
}
