//! Servers that die, stop, fill up and are cut off, under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use posthaste_relay::sink::{Outcome, RabbitMq};
use posthaste_testkit::server::Proxy;
use posthaste_testkit::sink_contract;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::place::*;

/// Short, so that a silent server is given up soon.
const TIMEOUT: Duration = Duration::from_secs(2);

fn sink(place: &Place) -> Arc<RabbitMq> {
    let builder = place.builder().timeout(TIMEOUT).connect_timeout(TIMEOUT);
    Arc::new(builder.build().unwrap())
}

/// Many deliveries at once, until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    producers: JoinSet<(Vec<Uuid>, Vec<String>)>,
}

impl Load {
    fn start(sink: &Arc<RabbitMq>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..50 {
            let (sink, stop) = (sink.clone(), stop.clone());
            producers.spawn(async move {
                let (mut acknowledged, mut faults) = (Vec::new(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let event = event().await;
                    match deliver(&sink, event.clone()).await {
                        Outcome::Delivered => acknowledged.push(event.id),
                        // What would cost an event an attempt, or its life.
                        Outcome::Unavailable(_) => tokio::time::sleep(MS(50)).await,
                        other => faults.push(format!("{other:?}")),
                    }
                }
                (acknowledged, faults)
            });
        }
        Self { stop, producers }
    }

    /// What was acknowledged. Nothing was blamed on an event.
    async fn end(mut self) -> HashSet<Uuid> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = HashSet::new();
        while let Some(ended) = self.producers.join_next().await {
            let (acknowledged, faults) = ended.unwrap();
            all.extend(acknowledged);
            assert!(faults.is_empty(), "{faults:?}");
        }
        all
    }
}

async fn assert_all_there(place: &Place, acknowledged: &HashSet<Uuid>) {
    assert!(!acknowledged.is_empty());
    let there: HashSet<Uuid> = place.ids().await.into_iter().collect();
    let lost = acknowledged.difference(&there).count();
    assert_eq!(lost, 0, "of {} acknowledged", acknowledged.len());
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_loses_nothing_that_it_acknowledged() {
    let mut server = mortal().await;
    let place = Place::at(server.url()).await;
    let sink = sink(&place);
    let load = Load::start(&sink);
    tokio::time::sleep(MS(500)).await;
    server.kill().unwrap();
    let outcome = outcome(&sink).await;
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    server.start_again().unwrap();
    let back = until_delivered(&sink).await;
    assert!(back < Duration::from_secs(30), "{back:?}");
    tokio::time::sleep(MS(300)).await;
    assert_all_there(&place, &load.end().await).await;
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_in_order_under_load_loses_nothing() {
    let mut server = mortal().await;
    let place = Place::at(server.url()).await;
    let sink = sink(&place);
    let load = Load::start(&sink);
    tokio::time::sleep(MS(500)).await;
    server.stop().unwrap();
    server.start_again().unwrap();
    until_delivered(&sink).await;
    tokio::time::sleep(MS(300)).await;
    assert_all_there(&place, &load.end().await).await;
}

// F9 B8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_paused_is_unavailable_in_bounded_time_and_used_again_after() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let sink = sink(&place);
    let load = Load::start(&sink);
    tokio::time::sleep(MS(300)).await;
    server.pause().unwrap();
    let started = Instant::now();
    // The connection that is there is given up, and no other can be made.
    for _ in 0..3 {
        let outcome = outcome(&sink).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    server.resume().unwrap();
    until_delivered(&sink).await;
    tokio::time::sleep(MS(300)).await;
    assert_all_there(&place, &load.end().await).await;
}

// F9 B8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_is_unavailable_in_bounded_time_and_used_again_after() {
    let place = Place::new().await;
    let proxy = Proxy::start(place.port()).unwrap();
    let sink = sink(&place.through(proxy.port()));
    let load = Load::start(&sink);
    tokio::time::sleep(MS(300)).await;
    proxy.hole();
    let started = Instant::now();
    for _ in 0..3 {
        let outcome = outcome(&sink).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    proxy.heal();
    until_delivered(&sink).await;
    tokio::time::sleep(MS(300)).await;
    assert_all_there(&place, &load.end().await).await;
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_in_the_middle_of_things_lose_nothing() {
    let place = Place::new().await;
    let proxy = Proxy::start(place.port()).unwrap();
    let sink = sink(&place.through(proxy.port()));
    let load = Load::start(&sink);
    for n in 0..10 {
        tokio::time::sleep(MS(150 + n * 7)).await;
        match n % 2 {
            0 => proxy.cut(),
            // The server has it, and nobody is told.
            _ => proxy.lose_an_answer(),
        }
    }
    until_delivered(&sink).await;
    assert_all_there(&place, &load.end().await).await;
}

// F9: an event during whose delivery the connection breaks every time is blamed in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_answer_gets_lost_every_time_is_blamed_in_the_end() {
    let place = Place::new().await;
    let proxy = Proxy::start(place.port()).unwrap();
    let sink = sink(&place.through(proxy.port()));
    let poison = event().await;
    for _ in 0..3 {
        until_delivered(&sink).await;
        proxy.lose_an_answer();
        let outcome = deliver(&sink, poison.clone()).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
    until_delivered(&sink).await;
    proxy.lose_an_answer();
    let outcome = deliver(&sink, poison).await;
    assert!(matches!(outcome, Outcome::Retry(_)), "{outcome:?}");
}

// F9: an alarm for memory or disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_an_alarm_is_unavailable_at_once_and_used_again_after() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let sink = sink(&place);
    until_delivered(&sink).await;
    let load = Load::start(&sink);
    let watermark = |share: &str| {
        let arguments = ["set_vm_memory_high_watermark", share];
        server.control(&arguments).unwrap();
    };
    watermark("0.000001");
    let deadline = Instant::now() + PATIENCE;
    let why = loop {
        match outcome(&sink).await {
            Outcome::Unavailable(why) => break why,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    };
    assert!(why.contains("takes nothing at the moment"), "{why}");
    let started = Instant::now();
    for event in sink_contract::events(&vec![message(); 20]).await {
        let outcome = deliver(&sink, event).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
    // Far less than one after the other would take.
    assert!(started.elapsed() < TIMEOUT * 10);
    watermark("0.4");
    until_delivered(&sink).await;
    assert_all_there(&place, &load.end().await).await;
}

// A sink that is dropped lets its connection go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_dropped_closes_its_connection() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let connections = || {
        let listed = server.control(&["list_connections", "pid"]).unwrap();
        listed.lines().filter(|line| line.contains('<')).count()
    };
    let until_none = async || {
        let deadline = Instant::now() + PATIENCE;
        while connections() > 0 {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(MS(50)).await;
        }
    };
    // Those of the test before may end late.
    until_none().await;
    let sink = place.sink();
    until_delivered(&sink).await;
    assert_eq!(connections(), 1);
    drop(sink);
    until_none().await;
}
