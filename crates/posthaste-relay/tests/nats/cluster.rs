//! Three servers of one cluster, of which some go away: a stream without a leader is nobody's fault.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;
use posthaste_relay::sink::{Nats, Outcome};
use posthaste_testkit::server;
use posthaste_testkit::sink_contract::load::Load;

use crate::stream::*;

/// Longer than it takes until a leader without followers notices that it is none.
const TIMEOUT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster(Vec<server::Nats>);

impl Cluster {
    /// With a stream that has replicas on all servers.
    async fn new() -> Self {
        let cluster = Self(server::Nats::cluster(3).unwrap());
        let deadline = Instant::now() + PATIENCE;
        let config = || Config {
            num_replicas: 3,
            ..usual()
        };
        let jetstream = jetstream(&cluster.0[0].url()).await;
        while let Err(error) = jetstream.create_stream(config()).await {
            assert!(Instant::now() < deadline, "{error}");
            tokio::time::sleep(MS(100)).await;
        }
        cluster
    }

    fn sink(&self) -> Arc<Nats> {
        let (first, others) = self.0.split_first().unwrap();
        let builder = Nats::builder(first.url()).timeout(TIMEOUT);
        let builder = others
            .iter()
            .fold(builder, |builder, server| builder.server(server.url()));
        Arc::new(builder.build().unwrap())
    }

    /// The server whose stream leads.
    async fn leader(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for server in &self.0 {
                let Ok(client) = async_nats::connect(server.url()).await else {
                    continue;
                };
                let asked = async_nats::jetstream::new(client);
                let Ok(mut stream) = asked.get_stream(NAME).await else {
                    continue;
                };
                let Ok(info) = stream.info().await else {
                    continue;
                };
                let leader = info.cluster.as_ref().and_then(|known| known.leader.clone());
                let is_it =
                    |server: &server::Nats| leader.is_some() && leader.as_deref() == server.name();
                if let Some(place) = self.0.iter().position(is_it) {
                    return place;
                }
            }
            assert!(Instant::now() < deadline, "nobody leads");
            tokio::time::sleep(MS(100)).await;
        }
    }
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_goes_away_under_load_loses_nothing_and_costs_no_attempt() {
    let mut cluster = Cluster::new().await;
    let load = Load::start(cluster.sink());
    for in_order in [false, true] {
        load.goes_on(200).await;
        let leader = cluster.leader().await;
        match in_order {
            true => cluster.0[leader].stop().unwrap(),
            false => cluster.0[leader].kill().unwrap(),
        }
        load.goes_on(200).await;
        cluster.0[leader].start_again().unwrap();
    }
    load.goes_on(200).await;
    let books = load.end().await;
    books.balance(&read(&cluster.0[0].url(), NAME).await);
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_a_majority_is_an_outage_that_ends_with_it() {
    let mut cluster = Cluster::new().await;
    let load = Load::start(cluster.sink());
    load.goes_on(200).await;
    for server in &mut cluster.0[..2] {
        server.kill().unwrap();
    }
    tokio::time::sleep(TIMEOUT * 3).await;
    for server in &mut cluster.0[..2] {
        server.start_again().unwrap();
    }
    load.goes_on(200).await;
    let books = load.end().await;
    assert!(!books.failures.is_empty());
    books.balance(&read(&cluster.0[0].url(), NAME).await);
}

// F9: who may not ask JetStream about its streams can still not be held up for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_ask_for_streams_waits_three_times_for_one() {
    let permissions = "{ publish: [\"shop.>\"], subscribe: [\"_INBOX.>\"] }";
    let users = format!("{{ users: [ {{ user: a, password: b, permissions: {permissions} }} ] }}");
    let server = private(&[("authorization", &users)]);
    let sink = Nats::builder(server.url()).user("a", "b").build().unwrap();
    let event = event().await;
    for n in 1..=4 {
        let outcome = posthaste_testkit::sink_contract::deliver(&sink, &event).await;
        match n {
            4 => assert!(is_retry(&outcome, "no stream takes"), "{outcome:?}"),
            _ => assert!(is_unavailable(&outcome, "no stream takes"), "{outcome:?}"),
        }
    }
    assert_ne!(outcome(&sink).await, Outcome::Delivered);
}
