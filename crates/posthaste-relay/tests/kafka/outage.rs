//! Servers that die and halt, and networks that are cut and fall silent, under load. What every sink
//! does when its server is stopped is in the contract.

use std::sync::Arc;
use std::time::Duration;

use posthaste_relay::sink::{Kafka, Outcome, Sink};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::cluster::*;
use crate::load::Load;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Gives up early, so that a silence longer than that is short enough for a test.
fn impatient(brokers: &str, topic: &str) -> Arc<Kafka> {
    let sink = sink(brokers, topic).timeout(MS(2000));
    Arc::new(sink.build().unwrap())
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_that_it_acknowledged() {
    let mut server = mortal(1).await;
    let brokers = server.brokers();
    let topic = fresh_topic(&brokers).await;
    let sink = impatient(&brokers, &topic);
    let load = Load::start(&sink);
    sleep(MS(500)).await;
    block_in_place(|| server.kill()).unwrap();
    sleep(MS(1500)).await;
    block_in_place(|| server.start_again()).unwrap();
    until_delivered(&sink, &event_of(message()).await).await;
    sleep(MS(500)).await;
    assert!(
        load.end(&brokers, &topic).await > 0,
        "the outage was noticed"
    );
}

// F9 B8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_halts_is_down_and_is_used_again_when_it_goes_on() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let sink = impatient(&brokers, &topic);
    let load = Load::start(&sink);
    sleep(MS(500)).await;
    faulty.server.pause().unwrap();
    sleep(MS(5000)).await;
    faulty.server.resume().unwrap();
    until_delivered(&sink, &event_of(message()).await).await;
    sleep(MS(500)).await;
    assert!(
        load.end(&brokers, &topic).await > 0,
        "the silence was noticed"
    );
}

// F9 B8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_falls_silent_is_an_outage_and_the_stuck_connection_is_replaced() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let sink = impatient(&format!("127.0.0.1:{}", faulty.proxy.port()), &topic);
    let load = Load::start(&sink);
    sleep(MS(500)).await;
    faulty.proxy.hole();
    sleep(MS(5000)).await;
    // What was held back arrives late, as on a real network.
    faulty.proxy.heal();
    until_delivered(&sink, &event_of(message()).await).await;
    sleep(MS(500)).await;
    assert!(
        load.end(&brokers, &topic).await > 0,
        "the silence was noticed"
    );
}

// F9 K3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_in_the_middle_of_answers_loses_nothing() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let sink = impatient(&format!("127.0.0.1:{}", faulty.proxy.port()), &topic);
    let load = Load::start(&sink);
    for bytes in [0, 1, 50, 500, 5000] {
        sleep(MS(300)).await;
        faulty.proxy.cut_after(bytes);
    }
    sleep(MS(300)).await;
    faulty.proxy.cut();
    until_delivered(&sink, &event_of(message()).await).await;
    load.end(&brokers, &topic).await;
}

// K3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_gets_lost_makes_no_duplicate() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let address = format!("127.0.0.1:{}", faulty.proxy.port());
    let sink = sink(&address, &topic).build().unwrap();
    assert_eq!(deliver(&sink).await, Outcome::Delivered);
    faulty.proxy.cut_after(0);
    assert_eq!(deliver(&sink).await, Outcome::Delivered);
    assert_eq!(read(&brokers, &topic).await.len(), 2);
}

// F9: the server closes the connection on such a request, without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_every_connection_is_blamed_in_the_end() {
    let faulty = faulty().await;
    let brokers = faulty.server.brokers();
    let topic = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &topic).build().unwrap();
    let poison = large_event(REQUEST_LIMIT + 1).await;
    for _ in 0..3 {
        let outcome = sink.deliver(poison.clone()).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
        assert_eq!(deliver(&sink).await, Outcome::Delivered);
    }
    let outcome = sink.deliver(poison).await;
    assert!(matches!(outcome, Outcome::Retry(_)), "{outcome:?}");
    assert_eq!(read(&brokers, &topic).await.len(), 3);
}
