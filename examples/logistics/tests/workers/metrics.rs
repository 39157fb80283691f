//! Eight workers in parallel, and the four metrics of the document as a real Prometheus reads them.

use posthaste::{Message, TopicRule};
use posthaste_testkit::server::Prometheus;
use serde_json::Value;

use crate::scene::*;

const RULES: &str = include_str!("../../prometheus-rules.yaml");

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

// logistics-1.3, logistics-1.5, logistics-3.14, logistics-4.1, logistics-4.2, logistics-4.3, logistics-4.4, logistics-5.3,
// M13, N6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_workers_publish_each_event_once_and_prometheus_reads_the_four_metrics() {
    let broker = broker().await;
    let mut scene = Scene::new(&broker).await;
    let workers = scene.eight_workers(&broker).await;
    let targets: Vec<&str> = workers
        .iter()
        .map(|worker| worker.metrics.as_str())
        .collect();
    let rules = RULES.replace("interval: 30s", "interval: 1s");
    let prometheus =
        tokio::task::block_in_place(|| Prometheus::start_with(&targets, "none", &rules));
    let prometheus = prometheus.unwrap();
    let query = |query: &str| -> Option<f64> {
        let path = format!("/api/v1/query?query={}", encoded(query));
        let told: Value = serde_json::from_str(&prometheus.get(&path).unwrap()).unwrap();
        assert_eq!(told["status"], "success", "{query}: {told}");
        let value = told["data"]["result"][0]["value"][1].as_str()?;
        Some(value.parse().unwrap())
    };
    let reads = async |what: &str, expected: f64| {
        eventually(&format!("{what} is {expected}"), async || {
            query(what) == Some(expected)
        })
        .await;
    };
    reads("sum(up)", 8.0).await;

    scene.order(400).await;
    scene.has(400, "PUBLISHED").await;
    reads("outbox_pending_count", 0.0).await;
    reads("max(outbox_oldest_age_seconds)", 0.0).await;
    reads("outbox_process_latency_count", 400.0).await;
    let median = query("histogram_quantile(0.5, outbox_process_latency_bucket)").unwrap();
    let average = query("outbox_process_latency_sum / outbox_process_latency_count").unwrap();
    assert!(median > 0.0 && average > 0.0, "{median} {average}");
    let arrived = scene.arrived(&broker).await;
    assert_eq!(arrived.len(), 400);
    assert!(
        arrived.values().all(|bodies| bodies.len() == 1),
        "each of them once"
    );

    // No queue is bound for this one. Its last attempt is near: the ladder has a test of its own.
    let lost = Message::json("logistics.order.lost.v1", &1).unwrap();
    let lost = scene
        .store
        .enqueue(&[lost], TopicRule::Strict)
        .await
        .unwrap()[0]
        .id;
    eventually("it has failed once", async || {
        let event = scene.store.show(lost).await.unwrap().unwrap();
        event.last_error.is_some()
    })
    .await;
    reads("outbox_pending_count", 1.0).await;
    let skip = "update outbox_events set attempts = 5, next_attempt_at = clock_timestamp()
                where id = $1 and status = 'pending'";
    eventually("its last attempt is due", async || {
        scene.client.execute(skip, &[&lost]).await.unwrap() == 1
    })
    .await;
    scene.has(1, "FAILED").await;
    reads("outbox_failure_count", 1.0).await;
    let firing = r#"count(ALERTS{alertname="OutboxEventsFailed", alertstate="firing"})"#;
    reads(firing, 1.0).await;

    // It is told why, without its payload.
    let logs: Vec<String> = workers.iter().map(Worker::log).collect();
    assert!(
        logs.iter().any(|log| log.contains("a delivery failed")),
        "{logs:?}"
    );
    assert!(
        !logs.iter().any(|log| log.contains("Delivery {")),
        "{logs:?}"
    );

    // Several of them had work to do.
    let busy = workers.iter().filter(|worker| {
        let text = worker.scrape().unwrap();
        text.contains("outbox_dispatch_total{") && text.contains("result=\"success\"")
    });
    assert!(busy.count() > 1);
}
