//! What each refusal of a server means.

use posthaste_relay::sink::{Outcome, Redis};
use posthaste_testkit::server::Proxy;

use crate::stream::*;

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_takes_events_again_once_there_is_room() {
    let server = private(&[("maxmemory", "1"), ("maxmemory-policy", "noeviction")]);
    let sink = Redis::builder(server.url()).build().unwrap();
    let full = outcome(&sink).await;
    assert!(is_unavailable(&full, "out of memory"), "{full:?}");
    ask(&server.url(), &["CONFIG", "SET", "maxmemory", "0"])
        .await
        .unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

// F9: after a fail-over the same name leads to the new primary, so another connection is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_no_place_to_deliver_to_until_it_is_made_the_primary() {
    let primary = private(&[]);
    let replica = private(&[("replicaof", &format!("127.0.0.1 {}", primary.port()))]);
    let sink = Redis::builder(replica.url()).build().unwrap();
    let read_only = outcome(&sink).await;
    assert!(is_unavailable(&read_only, ""), "{read_only:?}");
    assert!(sink_says(&sink, "replica").await);
    ask(&replica.url(), &["REPLICAOF", "NO", "ONE"])
        .await
        .unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

// F9: the primary of before need not know yet that it is none any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_all_writes_is_left_for_the_one_that_its_name_leads_to_by_then() {
    let left_alone = private(&[("min-replicas-to-write", "1")]);
    let full = private(&[("maxmemory", "1"), ("maxmemory-policy", "noeviction")]);
    let primary = private(&[]);
    for (before, word) in [(&left_alone, "NOREPLICAS"), (&full, "OOM")] {
        let name = Proxy::start(before.port()).unwrap();
        let sink = Redis::builder(format!("redis://127.0.0.1:{}", name.port()));
        let sink = sink.build().unwrap();
        let refused = outcome(&sink).await;
        assert!(is_unavailable(&refused, word), "{refused:?}");
        name.lead_to(primary.port());
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
    }
}

async fn sink_says(sink: &Redis, word: &str) -> bool {
    use posthaste_relay::sink::Sink;
    matches!(sink.check().await, Err(why) if why.contains(word))
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_write_to_its_disk_is_unavailable() {
    // A snapshot that fails makes it refuse writes.
    let server = private(&[("save", "3600 100000"), ("dbfilename", "dump.rdb")]);
    let url = server.url();
    let sink = Redis::builder(&url).build().unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
    ask(&url, &["CONFIG", "SET", "rdb-key-save-delay", "10000000"])
        .await
        .unwrap();
    ask(&url, &["BGSAVE"]).await.unwrap();
    let info = ask(&url, &["INFO", "persistence"]).await.unwrap();
    assert!(format!("{info:?}").contains("rdb_bgsave_in_progress:1"));
    // The child that writes it is killed.
    let children = format!("/proc/{0}/task/{0}/children", pid(&url).await);
    let child = std::fs::read_to_string(children).unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", child.trim()])
        .status();
    assert!(killed.unwrap().success());
    let deadline = std::time::Instant::now() + PATIENCE;
    let refused = loop {
        let outcome = outcome(&sink).await;
        if outcome != Outcome::Delivered {
            break outcome;
        }
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(MS(50)).await;
    };
    assert!(is_unavailable(&refused, "MISCONF"), "{refused:?}");
}

async fn pid(url: &str) -> String {
    let info = ask(url, &["INFO", "server"]).await.unwrap();
    let info: String = redis::from_redis_value(info).unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    line.unwrap().to_owned()
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_replicas_and_has_none_is_unavailable() {
    let server = private(&[("min-replicas-to-write", "1")]);
    let sink = Redis::builder(server.url()).build().unwrap();
    let refused = outcome(&sink).await;
    assert!(is_unavailable(&refused, "too few replicas"), "{refused:?}");
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_still_loads_its_data_is_unavailable() {
    let mut server = private(&[
        ("appendonly", "no"),
        ("save", "3600 1"),
        ("enable-debug-command", "yes"),
        ("key-load-delay", "1000"),
        ("loading-process-events-interval-bytes", "1024"),
    ]);
    let sink = Redis::builder(server.url()).build().unwrap();
    ask(&server.url(), &["DEBUG", "POPULATE", "3000"])
        .await
        .unwrap();
    server.stop().unwrap();
    let start = move || server.start_again().map(|()| server).unwrap();
    let starting = tokio::task::spawn_blocking(start);
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let outcome = outcome(&sink).await;
        assert!(is_unavailable(&outcome, ""), "{outcome:?}");
        if is_unavailable(&outcome, "LOADING") {
            break;
        }
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(MS(20)).await;
    }
    assert!(sink_says(&sink, "loading").await);
    let _server = starting.await.unwrap();
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

// A key that holds something else is its own trouble; the others are delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_stream_costs_only_its_own_events_an_attempt() {
    let stream = Stream::new();
    let template = format!("{}:{{aggregate_id|}}", stream.key);
    let sink = Redis::builder(&stream.url).key(template).build().unwrap();
    let taken = format!("{}:taken", stream.key);
    ask(&stream.url, &["SET", &taken, "x"]).await.unwrap();
    let on_taken = posthaste_testkit::sink_contract::message().aggregate("Order", "taken");
    let (refused, fine) = tokio::join!(outcome_of(&sink, on_taken), outcome(&sink));
    assert!(
        is_retry(&refused, "is no stream") && is_retry(&refused, &taken),
        "{refused:?}"
    );
    assert_eq!(fine, Outcome::Delivered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_to_a_stream_costs_only_its_own_events_an_attempt() {
    let server = private(&[]);
    let url = server.url();
    let rules = [
        "ACL", "SETUSER", "relay", "on", ">canary", "~mine*", "+xadd",
    ];
    ask(&url, &rules).await.unwrap();
    let sink = |key: &str| {
        let builder = Redis::builder(&url)
            .key(key)
            .user("relay")
            .password("canary");
        builder.build().unwrap()
    };
    assert_eq!(outcome(&sink("mine")).await, Outcome::Delivered);
    let refused = outcome(&sink("other")).await;
    assert!(is_retry(&refused, "may not add"), "{refused:?}");
    // Rights that are granted later count.
    let later = sink("other");
    assert!(is_retry(&outcome(&later).await, "NOPERM"));
    ask(&url, &["ACL", "SETUSER", "relay", "~other"])
        .await
        .unwrap();
    assert_eq!(outcome(&later).await, Outcome::Delivered);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_refused_and_kills_no_event() {
    let server = private(&[("cluster-enabled", "yes")]);
    let sink = Redis::builder(server.url()).build().unwrap();
    let refused = outcome(&sink).await;
    assert!(is_unavailable(&refused, "Cluster"), "{refused:?}");
    assert!(sink_says(&sink, "Cluster").await);
}
