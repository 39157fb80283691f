//! JSON lines: one line for each event, whatever is in it, and valid JSON.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use posthaste::{Message, Status, TraceContext};
use posthaste_relay::sink::JsonLines;
use posthaste_testkit::outbox::Fresh;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::*;

/// A writer that others can read from.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn lines(messages: &[Message]) -> (Vec<Value>, Vec<posthaste::Receipt>, String) {
    let mut fresh = Fresh::new().await;
    let receipts = fresh.enqueue(messages).await;
    let page = Page::default();
    let relay = relay_to(&fresh, JsonLines::new(page.clone())).await;
    until_settled(&fresh.store().await).await;
    relay.stop().await;
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert!(text.ends_with('\n'));
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.sort_by_key(|line| line["sequence"].as_i64());
    (lines, receipts, fresh.table.to_string())
}

// B21
#[tokio::test]
async fn a_line_holds_the_event_with_its_payload_as_json() {
    let tenant = Uuid::new_v4();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let message = Message::json(TOPIC, &json!({"order": 42, "note": "a\nb\u{2028}"}))
        .unwrap()
        .tenant(tenant)
        .aggregate("Order", "42")
        .header("source", "a \"shop\"")
        .trace(TraceContext {
            traceparent: traceparent.to_owned(),
            tracestate: None,
        });
    let (lines, receipts, table) = lines(&[message]).await;
    let expected = json!({
        "id": receipts[0].id, "sequence": receipts[0].sequence, "table": table, "topic": TOPIC,
        "tenant_id": tenant, "aggregate_type": "Order", "aggregate_id": "42", "attempts": 1,
        "headers": {"source": "a \"shop\""}, "traceparent": traceparent,
        "content_type": "application/json", "payload": {"order": 42, "note": "a\nb\u{2028}"},
    });
    assert_eq!(lines, [expected]);
}

#[tokio::test]
async fn every_event_is_one_line_and_what_is_no_json_is_base64() {
    let payloads: [&[u8]; 5] = [b"\xff\x00\n\r", b"{\"a\":\n1}", b"plain text", b"", b"[1]"];
    let messages: Vec<Message> = payloads
        .iter()
        .map(|bytes| Message::bytes(TOPIC, "application/octet-stream", bytes.to_vec()))
        .collect();
    let (lines, receipts, _) = lines(&messages).await;
    assert_eq!(lines.len(), payloads.len());
    for ((line, payload), receipt) in lines.iter().zip(payloads).zip(&receipts) {
        assert_eq!(line["id"], json!(receipt.id));
        match payload {
            b"[1]" => assert_eq!(line["payload"], json!([1])),
            _ => {
                let text = line["payload_base64"].as_str().unwrap();
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .unwrap();
                assert_eq!(bytes, payload);
            }
        }
    }
}

// F9
#[tokio::test]
async fn a_writer_that_fails_is_a_destination_that_is_down() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space left"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(3)).await;
    let relay = relay_to(&fresh, JsonLines::new(Broken)).await;
    tokio::time::sleep(MS(300)).await;
    relay.stop().await;
    let pending = with_status(&fresh.store().await, Status::Pending).await;
    assert!(pending.len() == 3 && pending.iter().all(|record| record.attempts == 0));
}
