//! Large payloads are smaller in the table, and come out as they went in.

use posthaste::store::{Claim, Store};
use posthaste::{Compression, Message, Outbox, header};
use posthaste_testkit::outbox::Fresh;

use crate::drivers::{Driver, Script, for_every_driver};

for_every_driver!(a_large_payload_is_stored_compressed_and_delivered_with_its_encoding);

const ABOVE: usize = 1000;
const LIMIT: usize = 1 << 20;

fn compressing(outbox: &Outbox) -> Outbox {
    outbox.clone().compress(Compression {
        above: ABOVE,
        ..Compression::default()
    })
}

/// What a large JSON text says, with white space that must be kept.
fn large() -> String {
    let lines: Vec<String> = (0..500).map(|n| format!("{{\"line\":  {n}}}")).collect();
    format!("[{}]", lines.join(", "))
}

fn messages() -> Vec<Message> {
    let topic = "shop.order.placed.v1";
    let at = |size: usize| Message::bytes(topic, "text/plain", "x".repeat(size));
    vec![
        Message::json_text(topic, large()).unwrap(),
        at(ABOVE + 1).header("source", "checkout"),
        at(ABOVE),
    ]
}

// farm-12.4, F10
async fn a_large_payload_is_stored_compressed_and_delivered_with_its_encoding<D: Driver>() {
    let fresh = Fresh::new().await;
    let outbox = compressing(&fresh.outbox);
    let mut driver = D::connect(&fresh.url).await;
    driver
        .play(Script::new().enqueue_all(&outbox, messages()))
        .await;
    let one = Script::new().enqueue(&outbox, messages().remove(0));
    driver.play(one).await;
    let store = fresh.store().await;
    let events = store.claim(&Claim::new(10)).await.unwrap().events;
    let payloads = [large(), "x".repeat(1001), "x".repeat(1000), large()];
    assert_eq!(events.len(), payloads.len());
    for (event, payload) in events.iter().zip(payloads) {
        let encoding = event.headers.get(header::CONTENT_ENCODING);
        let is_large = payload.len() > ABOVE;
        assert_eq!(encoding.map(String::as_str), is_large.then_some("zstd"));
        assert_eq!(is_large, event.payload.len() < payload.len());
        let encoding = encoding.map(String::as_str);
        let out = posthaste::decompress(encoding, event.payload.clone(), LIMIT).unwrap();
        assert_eq!(out, payload);
    }
    assert_eq!(events[0].content_type, "application/json");
    assert_eq!(events[1].headers["source"], "checkout");
}

// F10: fewer than with the compression that PostgreSQL has by itself.
#[tokio::test]
async fn compressed_payloads_take_fewer_bytes_in_the_table() {
    let mut bytes = Vec::new();
    for compresses in [false, true] {
        let mut fresh = Fresh::new().await;
        if compresses {
            fresh.outbox = compressing(&fresh.outbox);
        }
        let message = Message::json_text("shop.order.placed.v1", large()).unwrap();
        fresh.enqueue(&vec![message; 50]).await;
        let size = fresh.sql(
            "select sum(coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(payload_bytes), 0))
             from {outbox}",
        );
        let row = fresh.client.query_one(&size, &[]).await.unwrap();
        bytes.push(row.get::<_, i64>(0));
    }
    assert!(bytes[1] < bytes[0], "{bytes:?}");
}

// F10, M1
#[tokio::test]
async fn the_limit_counts_a_payload_before_it_is_compressed() {
    let mut fresh = Fresh::new().await;
    let outbox = compressing(&fresh.outbox).payload_limit(5000);
    let transaction = fresh.client.transaction().await.unwrap();
    let at = |size: usize| Message::bytes("shop.order.placed.v1", "text/plain", "x".repeat(size));
    assert!(outbox.enqueue(&transaction, &at(5000)).await.is_ok());
    let error = outbox.enqueue(&transaction, &at(5001)).await.unwrap_err();
    assert_eq!(error.code(), "outbox.payload_too_large");
    let encoded = at(1).header("Content-Encoding", "zstd");
    let error = outbox.enqueue(&transaction, &encoded).await.unwrap_err();
    assert_eq!(error.code(), "outbox.header_invalid");
}
