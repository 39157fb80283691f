//! The in-process bus: handlers of the same program, none of whom fails in silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::store::Claim;
use posthaste::{DeadReason, Status, Store};
use posthaste_relay::sink::{Bus, Outcome, Sink};
use posthaste_testkit::outbox::Fresh;

use crate::support::*;

/// Delivers one event of the topic through the bus with a single attempt. Gives back its error.
async fn error_of(bus: Bus, topic: &str) -> Option<(DeadReason, String)> {
    let mut fresh = Fresh::new().await;
    let id = fresh.enqueue(&[message(topic)]).await[0].id;
    let builder = brisk(&fresh).await.max_attempts(1);
    let relay = Running::start(builder.destination("bus", bus).build().unwrap());
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    let record = record(&store, id).await;
    match record.status {
        Status::Dead => Some((record.dead_reason.unwrap(), record.last_error.unwrap())),
        _ => None,
    }
}

fn fails(with: &'static str) -> impl Fn(Arc<posthaste::Event>) -> std::future::Ready<Outcome> {
    move |_| std::future::ready(Outcome::Retry(with.to_owned()))
}

// B11
#[tokio::test]
async fn every_handler_whose_pattern_matches_gets_the_event() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = |weight| {
        let calls = calls.clone();
        move |_| {
            calls.fetch_add(weight, Ordering::SeqCst);
            std::future::ready(Outcome::Delivered)
        }
    };
    let bus = Bus::new()
        .on(TOPIC, count(1))
        .on("shop.*", count(10))
        .on("bank.*", count(100));
    assert_eq!(error_of(bus, TOPIC).await, None);
    assert_eq!(calls.load(Ordering::SeqCst), 11);
}

// B11
#[tokio::test]
async fn an_event_without_a_subscriber_is_an_error() {
    let bus = Bus::new().on("bank.*", fails("never called"));
    let (reason, error) = error_of(bus, TOPIC).await.unwrap();
    assert_eq!(reason, DeadReason::Exhausted);
    assert!(
        error.starts_with("bus.no_subscribers: no handler is subscribed") && error.contains(TOPIC),
        "{error}"
    );
}

// B11
#[tokio::test]
async fn a_panic_is_an_error_and_the_other_handlers_run_all_the_same() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let bus = Bus::new()
        .on("*", |event| async move {
            match event.attempts {
                0 => Outcome::Delivered,
                _ => panic!("dropped the tray"),
            }
        })
        .on("*", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Outcome::Delivered)
        });
    let (_, error) = error_of(bus, TOPIC).await.unwrap();
    assert_eq!(error, "panicked: dropped the tray");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

// B11
#[tokio::test]
async fn the_errors_of_several_handlers_are_joined() {
    let bus = Bus::new()
        .on("*", fails("first"))
        .on("*", |_| async { Ok::<(), std::io::Error>(()) })
        .on("*", |_| async {
            Err::<(), _>(std::io::Error::other("third"))
        });
    let (_, error) = error_of(bus, TOPIC).await.unwrap();
    assert_eq!(error, "first; third");
}

// B11 F6
#[tokio::test]
async fn only_if_every_failed_handler_rejects_is_the_event_rejected() {
    let reject = |_| std::future::ready(Outcome::Reject("unreadable".to_owned()));
    let (reason, _) = error_of(Bus::new().on("*", reject), TOPIC).await.unwrap();
    assert_eq!(reason, DeadReason::Rejected);
    let bus = Bus::new().on("*", reject).on("*", fails("later"));
    let (reason, error) = error_of(bus, TOPIC).await.unwrap();
    assert_eq!(
        (reason, &*error),
        (DeadReason::Exhausted, "unreadable; later")
    );
}

#[derive(serde::Deserialize)]
struct Numbered {
    n: u64,
}

// B11 B5
#[tokio::test]
async fn a_typed_handler_gets_the_payload_as_a_value_beside_its_event() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = seen.clone();
    let bus = Bus::new().on_json("shop.*", move |event, numbered: Numbered| {
        keep.lock().unwrap().push((event.topic.clone(), numbered.n));
        std::future::ready(Outcome::Delivered)
    });
    assert_eq!(error_of(bus, TOPIC).await, None);
    assert_eq!(*seen.lock().unwrap(), [(TOPIC.to_owned(), 1)]);
}

// B11 F10
#[cfg(feature = "zstd")]
#[tokio::test]
async fn a_typed_handler_gets_a_compressed_payload_as_its_producer_wrote_it() {
    let mut fresh = Fresh::new().await;
    fresh.outbox = fresh.outbox.compress(posthaste::Compression {
        above: 100,
        ..posthaste::Compression::default()
    });
    let ids: Vec<u64> = (0..1000).collect();
    let large = posthaste::Message::json(TOPIC, &ids).unwrap();
    fresh.enqueue(&[large]).await;
    let store = fresh.store().await;
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    assert!(
        event.payload.len() < 3000,
        "it is compressed: {}",
        event.payload.len()
    );
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = seen.clone();
    let bus = Bus::new().on_json("*", move |_, got: Vec<u64>| {
        *keep.lock().unwrap() = got;
        std::future::ready(Outcome::Delivered)
    });
    assert_eq!(
        bus.deliver(Arc::new(event.clone())).await,
        Outcome::Delivered
    );
    assert_eq!(*seen.lock().unwrap(), ids);

    let rejected = async |event| match bus.deliver(Arc::new(event)).await {
        Outcome::Reject(why) => why,
        other => panic!("it cannot be read: {other:?}"),
    };
    let mut bomb = event.clone();
    // The head of a frame that holds one byte more than 64 MiB.
    bomb.payload = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0, 1, 0, 0, 4].into();
    let why = rejected(bomb).await;
    assert!(
        why.starts_with(
            "bus.undecodable: the payload has more than 67108864 bytes when decompressed: "
        ) && why.ends_with("take it with `Bus::on` and `posthaste::decompress`"),
        "{why}"
    );
    let mut unknown = event;
    let encoding = posthaste::header::CONTENT_ENCODING.to_owned();
    unknown.headers.insert(encoding, "br".to_owned());
    let why = rejected(unknown).await;
    assert!(
        why.starts_with("bus.undecodable: the payload is encoded as \"br\""),
        "{why}"
    );
}

// B11 F6 B13
#[tokio::test]
async fn a_payload_that_a_typed_handler_cannot_read_is_rejected_and_not_told() {
    #[derive(serde::Deserialize)]
    struct Named {
        #[serde(rename = "n")]
        _name: String,
    }
    let bus = Bus::new().on_json("*", |_, _: Named| async { Outcome::Delivered });
    let (reason, error) = error_of(bus, TOPIC).await.unwrap();
    assert_eq!(reason, DeadReason::Rejected);
    assert!(error.starts_with("bus.undecodable: "), "{error}");
    assert!(error.contains("at line 1 column 7"), "{error}");
    assert!(!error.contains("integer"), "{error}");
}

// B11 F9
#[tokio::test]
async fn what_handlers_say_of_their_own_destinations_is_heard() {
    let down = |_| std::future::ready(Outcome::Unavailable("no mail today".to_owned()));
    let later = |_| {
        let wait = std::time::Duration::from_secs(9);
        std::future::ready(Outcome::RetryAfter("busy".to_owned(), wait))
    };
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&[message(TOPIC)]).await;
    let store = fresh.store().await;
    let event = Arc::new(store.claim(&Claim::new(1)).await.unwrap().events.remove(0));
    let said = |bus: Bus| {
        let event = event.clone();
        async move { bus.deliver(event).await }
    };
    let outage = said(Bus::new().on("*", down).on("*", down)).await;
    assert!(matches!(outage, Outcome::Unavailable(_)), "{outage:?}");
    let mixed = said(Bus::new().on("*", down).on("*", later)).await;
    let wait = std::time::Duration::from_secs(9);
    assert_eq!(
        mixed,
        Outcome::RetryAfter("no mail today; busy".to_owned(), wait)
    );
}
