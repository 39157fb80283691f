//! The database goes away under load, or cuts connections: the relays get over it by themselves.

use std::time::{Duration, Instant};

use posthaste_testkit::outbox::connect;
use posthaste_testkit::server::{Options, Postgres};

use crate::proxy::Proxy;
use crate::scene::Scene;

/// Both relays run throughout, and every outage is a fault of both.
async fn restarted(ordered: bool) {
    let mut server = Postgres::start(Options::new()).unwrap();
    let mut scene = Scene::at(&server.url(), ordered).await;
    let mut faults = scene.faults();
    let producers = scene.producers(3);
    let options = [("takes", 10)];
    let relays = vec![scene.relay(&options).await, scene.relay(&options).await];
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(1000)).await;
        for relay in &relays {
            faults.hit(relay.pid());
        }
        server = tokio::task::spawn_blocking(move || {
            match round % 2 {
                0 => server.stop().unwrap(),
                _ => server.kill().unwrap(),
            }
            std::thread::sleep(Duration::from_millis(300));
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let produced = producers.stop().await;
    scene.fresh.client = connect(&server.url()).await;
    assert!(
        produced.committed.len() > 200,
        "the producers got over it as well"
    );
    scene.close(&produced, relays, &faults).await;
}

#[tokio::test]
async fn a_database_restarted_and_killed_under_load_loses_nothing() {
    restarted(false).await;
}

#[tokio::test]
async fn a_database_restarted_and_killed_under_load_keeps_every_key_in_sequence() {
    restarted(true).await;
}

async fn cut(ordered: bool, sessions: &str) {
    let scene = Scene::new(ordered).await;
    let mut faults = scene.faults();
    let producers = scene.producers(3);
    let options = [("takes", 10), ("lease", 3000)];
    let relays = vec![scene.relay(&options).await, scene.relay(&options).await];
    let sql = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 {sessions}"
    );
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        for relay in &relays {
            faults.hit(relay.pid());
        }
        // After some cuts they wait for a while before they connect again.
        scene
            .eventually("there is something to cut", async |scene| {
                let cut = scene.fresh.client.query(&sql, &[&scene.name()]).await;
                !cut.unwrap().is_empty()
            })
            .await;
    }
    let produced = producers.stop().await;
    scene.close(&produced, relays, &faults).await;
}

#[tokio::test]
async fn relays_whose_connections_are_all_cut_lose_nothing() {
    cut(false, "").await;
}

#[tokio::test]
async fn relays_of_whom_any_connection_is_cut_keep_every_key_in_sequence() {
    cut(true, "order by random() limit 2").await;
}

/// Claims and settlements that the database made, and that no relay knows of.
async fn answers_lost(ordered: bool) {
    let mut scene = Scene::new(ordered).await;
    let proxy = Proxy::start(&scene.fresh.url).await;
    scene.relays_url = Some(proxy.url.clone());
    let mut faults = scene.faults();
    let producers = scene.producers(3);
    // With leases of 60 s: what a lost answer was about must not wait for them.
    let options = [("takes", 10)];
    let relays = vec![scene.relay(&options).await, scene.relay(&options).await];
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        for relay in &relays {
            faults.hit(relay.pid());
        }
        proxy.lose_answers();
    }
    let produced = producers.stop().await;
    let began = Instant::now();
    scene.close(&produced, relays, &faults).await;
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(30),
        "it took {took:?}: half of a lease"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_the_database_that_get_lost_strand_no_event() {
    answers_lost(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_the_database_that_get_lost_leave_every_key_in_sequence() {
    answers_lost(true).await;
}
