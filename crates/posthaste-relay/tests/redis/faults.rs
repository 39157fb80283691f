//! Servers and networks that break under load: nothing is lost, and no event is blamed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_relay::sink::{Outcome, Redis, Sink};
use posthaste_testkit::scene::eventually;
use posthaste_testkit::server::Proxy;
use posthaste_testkit::sink_contract::load::{Load, until_delivered};
use posthaste_testkit::sink_contract::{self, events, message};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::stream::*;

const TIMEOUT: Duration = Duration::from_millis(500);

fn impatient(url: &str) -> Arc<Redis> {
    let builder = Redis::builder(url).timeout(TIMEOUT);
    Arc::new(builder.connect_timeout(TIMEOUT).build().unwrap())
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_loses_nothing_that_it_acknowledged() {
    let mut server = private(&[]);
    let load = Load::start(impatient(&server.url()));
    for _ in 0..3 {
        load.goes_on(500).await;
        server.kill().unwrap();
        tokio::time::sleep(MS(100)).await;
        server.start_again().unwrap();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), "*").await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_frozen_under_load_is_an_outage_that_ends_when_it_goes_on() {
    let server = private(&[]);
    let load = Load::start(impatient(&server.url()));
    for _ in 0..2 {
        load.goes_on(500).await;
        server.pause().unwrap();
        // Longer than all that wait for it.
        tokio::time::sleep(TIMEOUT * 3).await;
        server.resume().unwrap();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), "*").await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_is_an_outage_that_ends_with_it() {
    let server = private(&[]);
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(impatient(&format!("redis://127.0.0.1:{}", proxy.port())));
    for _ in 0..2 {
        load.goes_on(500).await;
        proxy.hole();
        tokio::time::sleep(TIMEOUT * 3).await;
        proxy.heal();
    }
    load.goes_on(500).await;
    load.end().await.balance(&read(&server.url(), "*").await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_in_the_middle_of_it_lose_nothing() {
    let server = private(&[]);
    let proxy = Proxy::start(server.port()).unwrap();
    let load = Load::start(impatient(&format!("redis://127.0.0.1:{}", proxy.port())));
    for round in 0..3 {
        load.goes_on(300).await;
        match round % 2 {
            0 => proxy.cut(),
            _ => proxy.lose_an_answer(),
        }
    }
    load.goes_on(300).await;
    load.end().await.balance(&read(&server.url(), "*").await);
}

// F9: all that wait on a silent connection get to know at once, in bounded time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_deliveries_to_a_silent_server_end_together() {
    let server = private(&[]);
    let sink = impatient(&server.url());
    until_delivered(&*sink, &event().await, &mut Vec::new()).await;
    server.pause().unwrap();
    let events = events(&vec![message(); 1000]).await;
    let started = Instant::now();
    let all = events.iter().map(|event| sink.deliver(event.clone()));
    let outcomes = futures_util::future::join_all(all).await;
    assert!(outcomes.iter().all(|one| is_unavailable(one, "")));
    // Far less than one after the other would take.
    assert!(started.elapsed() < TIMEOUT * 20);
    // Nor does connecting to it take for ever.
    let all = events.iter().map(|event| sink.deliver(event.clone()));
    let outcomes = futures_util::future::join_all(all).await;
    assert!(
        outcomes
            .iter()
            .all(|one| is_unavailable(one, "cannot connect"))
    );
    server.resume().unwrap();
    until_delivered(&*sink, &event().await, &mut Vec::new()).await;
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_breaks_every_connection_is_blamed_in_the_end() {
    let server = private(&[]);
    let proxy = Proxy::start(server.port()).unwrap();
    let sink = Redis::builder(format!("redis://127.0.0.1:{}", proxy.port()));
    let sink = sink.build().unwrap();
    let poison = event().await;
    for n in 1..=4 {
        until_delivered(&sink, &event().await, &mut Vec::new()).await;
        proxy.lose_an_answer();
        let outcome = sink_contract::deliver(&sink, &poison).await;
        match n {
            4 => assert!(is_retry(&outcome, "broke"), "{outcome:?}"),
            _ => assert!(is_unavailable(&outcome, "broke"), "{outcome:?}"),
        }
    }
}

// An idle connection that the server closes is noticed, and costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let stream = Stream::new();
    let proxy_target = stream.url.rsplit(':').next().unwrap().parse().unwrap();
    let proxy = Proxy::start(proxy_target).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let sink = Redis::builder(url).key(&stream.key).build().unwrap();
    for _ in 0..10 {
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
        proxy.cut();
        tokio::time::sleep(MS(500)).await;
    }
}

/// Leads connections to a server, all but the first, on which it says nothing.
async fn slow_at_first(server: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let _silent = listener.accept().await.unwrap();
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    port
}

// Nobody would make those that are missing before one of the others breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_slow_to_make_is_not_missing_for_good() {
    let server = private(&[]);
    let port = slow_at_first(server.port()).await;
    let sink = Redis::builder(format!("redis://127.0.0.1:{port}")).connections(4);
    let sink = sink.connect_timeout(MS(2000)).build().unwrap();
    let slow = outcome(&sink).await;
    assert!(is_unavailable(&slow, "no answer within"), "{slow:?}");
    until_delivered(&sink, &event().await, &mut Vec::new()).await;
    // Those of the sink, and who asks.
    eventually("all of its connections", async || {
        let clients = ask(&server.url(), &["CLIENT", "LIST"]).await.unwrap();
        let clients: String = redis::from_redis_value(clients).unwrap();
        clients.lines().count() == 5
    })
    .await;
}

// Events take turns on the connections, so that some rest; and what stands in between forgets those over which
// nothing goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_rest_are_kept_alive() {
    let server = private(&[]);
    let sink = Redis::builder(server.url()).connections(4);
    let sink = sink.build().unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    let timers = || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let timer = |line: &str| {
            // sl, local and remote address, state, queues, timer (2 is that of SO_KEEPALIVE) with hundredths.
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_ours = fields[2].ends_with(&format!(":{:04X}", server.port()));
            let (what, when) = fields[5].split_once(':').unwrap();
            let when = Duration::from_millis(u64::from_str_radix(when, 16).unwrap() * 10);
            (is_ours && fields[3] == "01").then(|| (what.to_owned(), when))
        };
        sockets
            .lines()
            .skip(1)
            .filter_map(timer)
            .collect::<Vec<_>>()
    };
    let deadline = Instant::now() + PATIENCE;
    // Right after something was sent, it is the timer of that.
    let is_kept = |(what, when): &(String, Duration)| what == "02" && *when <= MS(60_000);
    while timers().len() != 4 || !timers().iter().all(is_kept) {
        assert!(Instant::now() < deadline, "{:?}", timers());
        tokio::time::sleep(MS(20)).await;
    }
}
