//! An endpoint in a process of its own, and networks that break under load: nothing is lost, and no event is
//! blamed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::{DeadReason, Message, Status};
use posthaste_relay::Envelope;
use posthaste_relay::sink::Http;
use posthaste_testkit::outbox::Fresh;
use posthaste_testkit::server::{Proxy, Webhook};
use posthaste_testkit::sink_contract::Arrived;
use posthaste_testkit::sink_contract::load::Load;

use crate::flow::{MS, builder, messages, start, until_settled, with_status};

/// A machine that stalls for less than this blames no event.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For how long nobody answers: longer than all that wait for it, a call and the question after it, also if they
/// begin late. And too short for ten such questions in vain.
const SILENCE: Duration = Duration::from_secs(9);

fn impatient(port: u16) -> Http {
    within(TIMEOUT, port)
}

/// A sink that waits for so long at most.
pub(crate) fn within(timeout: Duration, port: u16) -> Http {
    Http::builder(format!("http://127.0.0.1:{port}/hook"))
        .allow("127.0.0.0/8")
        .envelope(Envelope::raw())
        .timeout(timeout)
        .connect_timeout(MS(500))
        .build()
        .unwrap()
}

pub(crate) fn arrived(server: &Webhook) -> Vec<Arrived> {
    let call = |line: &str| {
        let mut call: serde_json::Value = serde_json::from_str(line).unwrap();
        let headers: BTreeMap<String, String> =
            serde_json::from_value(call["headers"].take()).unwrap();
        let body = STANDARD.decode(call["body"].as_str().unwrap()).unwrap();
        Arrived { headers, body }
    };
    // A line is not whole if its writer was killed.
    let calls = server.calls();
    let lines = calls
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines.map(call).collect()
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_killed_under_load_loses_nothing_that_it_acknowledged() {
    let mut server = Webhook::start().unwrap();
    let load = Load::start(Arc::new(impatient(server.port())));
    for _ in 0..3 {
        load.goes_on(300).await;
        server.kill().unwrap();
        tokio::time::sleep(MS(100)).await;
        server.start_again().unwrap();
    }
    load.goes_on(300).await;
    load.end().await.balance(&arrived(&server));
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_frozen_under_load_is_an_outage_that_ends_when_it_goes_on() {
    let server = Webhook::start().unwrap();
    let load = Load::start(Arc::new(impatient(server.port())));
    for _ in 0..2 {
        load.goes_on(300).await;
        server.pause().unwrap();
        tokio::time::sleep(SILENCE).await;
        server.resume().unwrap();
    }
    load.goes_on(300).await;
    let books = load.end().await;
    assert!(!books.failures.is_empty());
    books.balance(&arrived(&server));
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_an_outage_that_ends_with_it() {
    let server = Webhook::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(Arc::new(impatient(proxy.port())));
    for _ in 0..2 {
        load.goes_on(300).await;
        proxy.hole();
        tokio::time::sleep(SILENCE).await;
        proxy.heal();
    }
    load.goes_on(300).await;
    let books = load.end().await;
    assert!(!books.failures.is_empty());
    books.balance(&arrived(&server));
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_in_the_middle_of_it_lose_nothing() {
    let server = Webhook::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(Arc::new(impatient(proxy.port())));
    for round in 0..4 {
        load.goes_on(300).await;
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.lose_an_answer(),
        }
    }
    load.goes_on(300).await;
    load.end().await.balance(&arrived(&server));
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_endpoint_costs_no_attempt() {
    let mut fresh = Fresh::new().await;
    let server = Webhook::start().unwrap();
    // With one attempt in all, an outage that cost one would show at once.
    let relay = builder(&fresh, impatient(server.port()))
        .await
        .max_attempts(1);
    let (stop, task) = start(relay.build().unwrap());
    let mut ids = HashSet::new();
    for _ in 0..2 {
        let receipts = fresh.enqueue(&messages(300)).await;
        ids.extend(receipts.iter().map(|receipt| receipt.id));
        tokio::time::sleep(MS(100)).await;
        server.pause().unwrap();
        let receipts = fresh.enqueue(&messages(300)).await;
        ids.extend(receipts.iter().map(|receipt| receipt.id));
        tokio::time::sleep(SILENCE).await;
        server.resume().unwrap();
    }
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();
    let delivered = with_status(&store, Status::Delivered).await;
    assert_eq!(delivered.len(), ids.len());
    assert!(delivered.iter().all(|record| record.attempts == 1));
    let arrived: HashSet<_> = arrived(&server).iter().filter_map(Arrived::id).collect();
    assert_eq!(arrived, ids);
}

// F9: repeated disconnects caused by one message isolate that message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_every_connection_dies_alone() {
    let mut fresh = Fresh::new().await;
    let server = Webhook::start().unwrap();
    let mut all = messages(100);
    all[50] = Message::json_text("shop.order.placed.v1", "\"poison\"").unwrap();
    let receipts = fresh.enqueue(&all).await;
    let relay = builder(&fresh, impatient(server.port()))
        .await
        .max_attempts(1);
    let (stop, task) = start(relay.build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    let _ = stop.send(());
    task.await.unwrap();
    let dead = with_status(&store, Status::Dead).await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].id, receipts[50].id);
    assert_eq!(dead[0].dead_reason, Some(DeadReason::Exhausted));
    let delivered = with_status(&store, Status::Delivered).await;
    assert_eq!(delivered.len(), 99);
    assert!(delivered.iter().all(|record| record.attempts == 1));
}
