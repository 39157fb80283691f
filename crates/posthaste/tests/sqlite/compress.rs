//! Large payloads are smaller in the file, and come out as they went in.

use posthaste::store::{Claim, Store};
use posthaste::{Compression, Message, header};
use posthaste_testkit::file::FreshFile;

use crate::drivers::{Driver, Step, for_every_driver};

for_every_driver!(a_large_payload_is_stored_compressed_and_delivered_with_its_encoding);

// F10
async fn a_large_payload_is_stored_compressed_and_delivered_with_its_encoding<D: Driver>() {
    let file = FreshFile::new();
    let outbox = file.outbox.clone().compress(Compression {
        above: 1000,
        ..Compression::default()
    });
    let mut driver = D::connect(&file).await;
    // White space is what a producer chose, and is kept.
    let large = format!("[{}]", vec!["{\"line\":  1}"; 500].join(", "));
    let small = "\"small\"";
    let message = |text: &str| Message::json_text("shop.order.placed.v1", text).unwrap();
    let messages = [message(&large), message(small)];
    let steps = [
        Step::EnqueueAll(&outbox, &messages),
        Step::Enqueue(&outbox, &messages[0]),
    ];
    driver.play(&steps, true).await;
    let size = file.sql("select max(length(payload_bytes)) from {outbox}");
    let stored: u32 = file.open().query_row(&size, [], |row| row.get(0)).unwrap();
    assert!((stored as usize) < large.len() / 10, "{stored}");
    let store = file.store().await;
    let events = store.claim(&Claim::new(10)).await.unwrap().events;
    assert_eq!(events.len(), 3);
    for (event, text) in events.iter().zip([&*large, small, &*large]) {
        let encoding = event.headers.get(header::CONTENT_ENCODING);
        assert_eq!(encoding.is_some(), text == large);
        assert_eq!(event.content_type, "application/json");
        let encoding = encoding.map(String::as_str);
        let payload = posthaste::decompress(encoding, event.payload.clone(), 10_000).unwrap();
        assert_eq!(payload, text);
    }
}
