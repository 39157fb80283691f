//! Rows that somebody wrote by hand: each is refused, delivered or set aside, and none costs
//! its neighbours.

use posthaste::store::{Claim, Filter, OnFailure, Ordering, Settlement, Store, Verdict};
use posthaste::{DeadReason, Event, Lease, Message, Status, header};
use posthaste_testkit::file::FreshFile;

fn orderings() -> [Ordering; 2] {
    [Ordering::None, Ordering::Key(OnFailure::Block)]
}

/// An outbox with ten good events around the odd rows.
fn among_good_events(odd: &[&str]) -> FreshFile {
    let file = FreshFile::new();
    let good = vec![Message::json("shop.order.placed.v1", &1).unwrap(); 5];
    file.enqueue(&good);
    for columns in odd {
        let insert = file.sql(&format!("insert into {{outbox}} {columns}"));
        let inserted = file.open().execute_batch(&insert);
        inserted.unwrap_or_else(|error| panic!("{insert}: {error}"));
    }
    file.enqueue(&good);
    file
}

// M7
#[tokio::test]
async fn odd_rows_that_can_be_delivered_are() {
    let long = "(topic, payload, namespace) values ('t', '1', printf('%.100000c', 'n'))";
    let odd = [
        "(topic, payload) values ('line' || char(10) || 'break', '1')",
        "(topic, payload) values ('Upper Case', 'null')",
        "(topic, payload) values (42, 42)",
        "(topic, payload_bytes, content_type) values ('t', x'', '')",
        "(topic, payload, traceparent) values ('t', '1', 'nonsense')",
        "(topic, payload, tracestate) values ('t', '1', 'without a parent')",
        long,
        "(topic, payload, event_type) values ('t', '1', 'a' || char(0) || 'b')",
        "(topic, payload, created_at) values ('t', '1', -9223372036854775808)",
        "(topic, payload, created_at) values ('t', '1', 9223372036854775807)",
        "(topic, payload, updated_at) values ('t', '1', 9223372036854775807)",
        "(topic, payload, next_attempt_at) values ('t', '1', -9223372036854775807)",
        "(topic, payload, lease_epoch) values ('t', '1', 9223372036854775807)",
        "(topic, payload, attempts) values ('t', '1', 24)",
        "(topic, payload, last_error) values ('t', '1', cast(x'ff' as text))",
        "(topic, payload) values ('t', cast(x'22ff22' as text))",
        "(sequence, topic, payload) values (-5, 't', '1')",
        "(topic, payload, status, lease_owner, lease_until) values ('t', '1', 'processing', '0197f3a0-5f6e-7c5c-b0a5-3d4c2f1e0d9b', 1)",
    ];
    for ordering in orderings() {
        let file = among_good_events(&odd);
        let store = file.store().await;
        assert!(store.stats().await.unwrap().pending >= 10);
        let claim = Claim {
            ordering,
            ..Claim::new(100)
        };
        let claimed = store.claim(&claim).await.unwrap();
        assert!(
            claimed.malformed.is_empty() && claimed.died.is_empty(),
            "{claimed:?}"
        );
        assert_eq!(claimed.events.len(), 10 + odd.len());
        let settlements: Vec<Settlement> = claimed
            .events
            .iter()
            .map(|event| Settlement {
                lease: event.lease,
                tried: None,
                verdict: Verdict::Delivered { keep: true },
            })
            .collect();
        let settled = store.settle(&settlements).await.unwrap();
        assert_eq!(
            (settled.applied, settled.lost),
            (settlements.len(), Vec::new())
        );
        let listed = store.list(&Filter::default(), 100).await.unwrap();
        assert_eq!(listed.len(), settlements.len());
        for record in listed {
            assert!(store.content(record.id).await.unwrap().is_some());
        }
    }
}

// F6
#[tokio::test]
async fn rows_that_are_no_events_are_set_aside() {
    let odd = [
        "(topic, payload, headers) values ('t', '1', '[]')",
        "(topic, payload, headers) values ('t', '1', 'null')",
        "(topic, payload, headers) values ('t', '1', '\"text\"')",
        "(topic, payload, headers) values ('t', '1', '{\"a\": 1}')",
        "(topic, payload, headers) values ('t', '1', '{\"a\": {\"b\": \"c\"}}')",
        // Text that is not UTF-8.
        "(topic, payload) values (cast(x'74ff' as text), '1')",
        "(topic, payload, namespace) values ('t', '1', cast(x'ff' as text))",
        "(topic, payload, ordering_key) values ('t', '1', cast(x'c328' as text))",
        "(topic, payload, dedupe_key) values ('t', '1', cast(x'ff' as text))",
        "(topic, payload, content_type) values ('t', '1', cast(x'ff' as text))",
        "(topic, payload, headers) values ('t', '1', cast(x'7b2261223a22ff227d' as text))",
    ];
    for ordering in orderings() {
        let file = among_good_events(&odd);
        let store = file.store().await;
        let claim = Claim {
            ordering,
            ..Claim::new(100)
        };
        let claimed = store.claim(&claim).await.unwrap();
        assert_eq!(
            (claimed.events.len(), claimed.malformed.len()),
            (10, odd.len())
        );
        let set_aside = async |malformed: Vec<(Lease, String)>| {
            let settlement = |(lease, error)| Settlement {
                lease,
                tried: None,
                verdict: Verdict::Dead {
                    reason: DeadReason::Malformed,
                    error,
                    letter: Some("shop.dead-letters.v1".to_owned()),
                },
            };
            let settlements: Vec<Settlement> = malformed.into_iter().map(settlement).collect();
            store.settle(&settlements).await.unwrap().applied
        };
        assert_eq!(set_aside(claimed.malformed).await, odd.len());
        let filter = Filter {
            status: vec![Status::Dead],
            ..Filter::default()
        };
        let dead = store.list(&filter, 100).await.unwrap();
        assert_eq!(dead.len(), odd.len());
        assert!(
            dead.iter()
                .all(|record| record.dead_reason == Some(DeadReason::Malformed))
        );
        for record in dead {
            assert!(store.content(record.id).await.unwrap().is_some());
        }
        // F10: all but two can be read as letters, and for those two there is nothing more to do.
        let letters = store.claim(&claim).await.unwrap();
        let told = |event: &Event| event.headers[header::DEAD_REASON] == "malformed";
        assert!(letters.events.iter().all(told), "{letters:?}");
        assert_eq!(
            (letters.events.len(), letters.malformed.len()),
            (odd.len() - 2, 2)
        );
        assert_eq!(set_aside(letters.malformed).await, 2);
        assert_eq!(store.claim(&claim).await.unwrap().leases(), 0);
    }
}

#[tokio::test]
async fn what_follows_a_malformed_event_in_its_key_is_held_back() {
    let file = FreshFile::new();
    let keyed = Message::json("shop.order.placed.v1", &1).unwrap();
    file.enqueue(&[keyed.clone().ordering_key("a")]);
    let odd =
        "insert into {outbox} (topic, payload, headers, ordering_key) values ('t', '1', '[]', 'a')";
    file.open().execute_batch(&file.sql(odd)).unwrap();
    file.enqueue(&[keyed.clone().ordering_key("a"), keyed.ordering_key("b")]);
    let claim = Claim {
        ordering: Ordering::Key(OnFailure::Block),
        ..Claim::new(10)
    };
    let claimed = file.store().await.claim(&claim).await.unwrap();
    assert_eq!(
        (
            claimed.events.len(),
            claimed.malformed.len(),
            claimed.held_back.len()
        ),
        (2, 1, 1)
    );
}

#[test]
fn rows_that_make_no_sense_are_refused_by_the_table() {
    let file = FreshFile::new();
    let uuid = "0197f3a0-5f6e-7c5c-b0a5-3d4c2f1e0d9b";
    let with_tenant =
        format!("tenant_id, dedupe_key, topic, payload) values ('{uuid}', 'k', 't', '1'");
    let with_owner = format!("lease_owner, topic, payload) values ('{uuid}', 't', '1'");
    for (constraint, columns) in [
        ("id", "id, topic, payload) values ('x', 't', '1'"),
        (
            "id",
            "id, topic, payload) values ('0197F3A0-5F6E-7C5C-B0A5-3D4C2F1E0D9B', 't', '1'",
        ),
        ("attempts", "attempts, topic, payload) values (-1, 't', '1'"),
        (
            "attempts",
            "attempts, topic, payload) values (4294967296, 't', '1'",
        ),
        ("status", "status, topic, payload) values ('done', 't', '1'"),
        ("payload", "topic) values ('t'"),
        (
            "payload",
            "topic, payload, payload_bytes) values ('t', '1', x''",
        ),
        ("payload", "topic, payload) values ('t', '{'"),
        ("headers", "topic, payload, headers) values ('t', '1', '{'"),
        ("topic", "topic, payload) values ('', '1'"),
        (
            "topic",
            "topic, payload) values (printf('%.256c', 'x'), '1'",
        ),
        (
            "delivered_at",
            "status, topic, payload) values ('delivered', 't', '1'",
        ),
        (
            "delivered_at",
            "delivered_at, topic, payload) values (1, 't', '1'",
        ),
        ("dead_at", "dead_at, topic, payload) values (1, 't', '1'"),
        (
            "dead_at",
            "status, dead_at, topic, payload) values ('dead', 1, 't', '1'",
        ),
        (
            "lease",
            "status, topic, payload) values ('processing', 't', '1'",
        ),
        ("lease", "lease_until, topic, payload) values (1, 't', '1'"),
        ("lease", &with_owner),
        (
            "owner",
            "status, lease_owner, lease_until, topic, payload) values ('processing', 'me', 1, 't', '1'",
        ),
        ("epoch", "lease_epoch, topic, payload) values (-1, 't', '1'"),
        (
            "tenant_id",
            "tenant_id, topic, payload) values ('acme', 't', '1'",
        ),
        ("tenant", &with_tenant),
    ] {
        let insert = file.sql(&format!("insert into {{outbox}} ({columns})"));
        let error = file.open().execute_batch(&insert).unwrap_err().to_string();
        let expected = format!("CHECK constraint failed: shop.outbox_{constraint}");
        assert!(error.contains(&expected), "{columns}: {error}");
    }
    for columns in [
        // Other types, and nothing where something must be.
        "next_attempt_at, topic, payload) values ('soon', 't', '1'",
        "next_attempt_at, topic, payload) values (1e300, 't', '1'",
        "next_attempt_at, topic, payload) values (null, 't', '1'",
        "topic, payload) values (x'74', '1'",
        "topic, payload) values (null, '1'",
        "topic, payload, payload_bytes) values ('t', null, 'text'",
    ] {
        let insert = file.sql(&format!("insert into {{outbox}} ({columns})"));
        assert!(file.open().execute_batch(&insert).is_err(), "{columns}");
    }
    let insert = file.sql("insert into {outbox} (topic, payload) values ('t', '1')");
    file.open().execute_batch(&insert).unwrap();
}
