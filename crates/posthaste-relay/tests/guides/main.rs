//! The Rust of the guides, run as it stands, on real databases and servers: each file here holds the blocks of one
//! guide, or of a few, and what is done with them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "it is what a reader sees, and a test that fails may panic"
)]

mod consumer;
mod library;
mod sinks;
mod tracing;

use posthaste::{Message, Status, Store, TopicRule};
use posthaste_relay::Relay;
use posthaste_testkit::file::FreshFile;
use posthaste_testkit::scene::eventually;

const TOPIC: &str = "shop.order.placed.v1";

/// Which file holds the blocks of which guide.
const GUIDES: &[(&str, &str)] = &[
    ("docs/consumer.md", include_str!("consumer.rs")),
    ("docs/library.md", include_str!("library.rs")),
    ("docs/tracing.md", include_str!("tracing.rs")),
    ("docs/sinks/http.md", include_str!("sinks.rs")),
    ("docs/sinks/kafka.md", include_str!("sinks.rs")),
    ("docs/sinks/nats.md", include_str!("sinks.rs")),
    ("docs/sinks/rabbitmq.md", include_str!("sinks.rs")),
    ("docs/sinks/redis.md", include_str!("sinks.rs")),
];

/// However it is indented, and broken into lines.
fn dense(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    text.replace(",)", ")")
}

#[test]
fn every_block_of_rust_in_the_guides_is_run() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for folder in ["docs", "docs/sinks"] {
        for entry in std::fs::read_dir(format!("{root}{folder}")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let guide = format!("{folder}/{name}");
            if !guide.ends_with(".md") {
                continue;
            }
            let text = std::fs::read_to_string(format!("{root}{guide}")).unwrap();
            let run = GUIDES.iter().find(|(known, _)| *known == guide);
            let run = run.map(|(_, file)| dense(file)).unwrap_or_default();
            for rest in text.split("```rust").skip(1) {
                let (_, rest) = rest.split_once('\n').unwrap();
                let block = rest.split("```").next().unwrap();
                assert!(run.contains(&dense(block)), "not run, in {guide}:\n{block}");
            }
        }
    }
}

/// Relays what is enqueued here until it has arrived.
async fn arrives<E: std::fmt::Debug>(
    relay: impl FnOnce(posthaste::store::sqlite::Sqlite) -> Result<Relay, E>,
) {
    let file = FreshFile::new();
    let store = file.store().await;
    let message = Message::json(TOPIC, &serde_json::json!({"order": 42})).unwrap();
    let enqueued = store.enqueue(&[message], TopicRule::Strict).await.unwrap();
    let relay = relay(file.store().await).unwrap();
    let arrived = eventually("it has arrived", async || {
        let record = store.show(enqueued[0].id).await.unwrap().unwrap();
        assert_ne!(record.status, Status::Dead, "{record:?}");
        record.status == Status::Delivered
    });
    relay.run(arrived).await;
}
