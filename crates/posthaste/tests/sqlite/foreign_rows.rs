//! Rows that somebody wrote by hand: each is refused, delivered or set aside, and none costs
//! its neighbours.

use posthaste::store::sqlite::Sqlite;
use posthaste::store::{
    Claim, Filter, Malformed, OnFailure, Order, Ordering, Settlement, Store, Verdict,
};
use posthaste::{DeadReason, Event, Message, Status, header};
use posthaste_testkit::file::FreshFile;

fn orderings() -> [Ordering; 2] {
    [Ordering::None, Ordering::Key(OnFailure::Block)]
}

fn message() -> Message {
    Message::json("shop.order.placed.v1", &1).unwrap()
}

/// An outbox with ten good events around the odd rows.
fn among_good_events(odd: &[&str]) -> FreshFile {
    let file = FreshFile::new();
    let good = vec![message(); 5];
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
        let set_aside = async |malformed: Vec<Malformed>| {
            let settlement = |row: Malformed| Settlement {
                lease: row.lease,
                tried: None,
                verdict: Verdict::Dead {
                    reason: row.died.reason,
                    error: row.error,
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
async fn a_key_that_is_not_text_hides_no_other_that_waits() {
    let file = FreshFile::new();
    let keyed = [message().ordering_key("a"), message().ordering_key("a")];
    file.enqueue(&keyed[..1]);
    let odd = "insert into {outbox} (topic, payload, ordering_key) values ('t', '1', cast(x'c328' as text))";
    file.open().execute_batch(&file.sql(odd)).unwrap();
    let store = file.store().await;
    let claim = Claim {
        ordering: Ordering::Key(OnFailure::Block),
        ..Claim::new(10)
    };
    let heads = store.claim(&claim).await.unwrap();
    assert_eq!((heads.events.len(), heads.malformed.len()), (1, 1));
    file.open().execute_batch(&file.sql(odd)).unwrap();
    file.enqueue(&keyed[1..]);
    let waiting = store.claim(&claim).await.unwrap().waiting;
    assert!(waiting.contains(&"a".to_owned()), "{waiting:?}");
}

#[tokio::test]
async fn what_follows_a_malformed_event_in_its_key_is_held_back() {
    let file = FreshFile::new();
    let keyed = message();
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

/// What is delivered, or set aside with a letter, until nothing is left.
async fn is_settled(store: &Sqlite, claim: &Claim) -> (usize, usize) {
    let (mut delivered, mut dead) = (0, 0);
    loop {
        let claimed = store.claim(claim).await.unwrap();
        if claimed.leases() == 0 {
            return (delivered, dead);
        }
        let settlements: Vec<Settlement> = claimed
            .events
            .iter()
            .map(|event| (event.lease, Verdict::Delivered { keep: true }))
            .chain(claimed.malformed.into_iter().map(|row| {
                let verdict = Verdict::Dead {
                    reason: row.died.reason,
                    error: row.error,
                    letter: Some("shop.dead-letters.v1".to_owned()),
                };
                (row.lease, verdict)
            }))
            .map(|(lease, verdict)| Settlement {
                lease,
                tried: None,
                verdict,
            })
            .collect();
        let lost = store.settle(&settlements).await.unwrap().lost;
        assert!(lost.is_empty(), "{lost:?}");
        let verdicts = settlements.iter().map(|settlement| &settlement.verdict);
        let died = verdicts.filter(|verdict| matches!(verdict, Verdict::Dead { .. }));
        let died = died.count();
        delivered += settlements.len() - died;
        dead += died;
    }
}

// F6: SQLite does not check what it reads, and a producer may have told it not to check what it writes.
#[tokio::test]
async fn rows_that_the_table_would_refuse_cost_no_others() {
    let broken = [
        "(id, topic, payload) values ('x', 't', '1')",
        "(id, topic, payload) values ('0197F3A0-5F6E-7C5C-B0A5-3D4C2F1E0D9B', 't', '1')",
        "(id, topic, payload) values (cast(x'ff' as text), 't', '1')",
        "(tenant_id, topic, payload) values ('x', 't', '1')",
        "(tenant_id, topic, payload) values ('0197F3A0-5F6E-7C5C-B0A5-3D4C2F1E0D9B', 't', '1')",
        "(headers, topic, payload) values ('nonsense', 't', '1')",
        "(tenant_id, topic, payload) values ('x', 't', 'nonsense')",
        "(tenant_id, topic) values ('x', 't')",
    ];
    let odd = [
        "(status, topic, payload) values ('done', 't', '1')",
        "(attempts, topic, payload) values (-7, 't', '1')",
        "(lease_epoch, topic, payload) values (-7, 't', '1')",
        "(lease_owner, lease_until, topic, payload) values ('x', 1, 't', '1')",
        "(lease_owner, lease_until, topic, payload) values (cast(x'ff' as text), 1, 't', '1')",
        "(status, topic, payload) values ('processing', 't', '1')",
    ];
    for ordering in orderings() {
        let unchecked: Vec<String> = broken
            .iter()
            .chain(&odd)
            .map(|columns| columns.to_string())
            .collect();
        let file = FreshFile::new();
        file.enqueue(&vec![message(); 5]);
        let connection = file.open();
        connection
            .execute_batch("pragma ignore_check_constraints = on")
            .unwrap();
        for columns in &unchecked {
            let insert = file.sql(&format!("insert into {{outbox}} {columns}"));
            connection.execute_batch(&insert).unwrap();
        }
        let dead = "insert into {outbox} (status, dead_at, attempts, topic, payload, ordering_key) \
                    values ('odd', 1, 4294967296, 't', '1', 'k')";
        connection.execute_batch(&file.sql(dead)).unwrap();
        file.enqueue(&vec![message(); 5]);
        let store = file.store().await;
        store.take_over().await.unwrap();
        let look = async |store: &Sqlite| {
            let all = Filter::default();
            let listed = store.list(&all, 100).await.unwrap().len();
            let page = store.browse(&all, Order::NewestFirst, None, 100).await;
            assert_eq!(page.unwrap().records.len(), listed);
            store.stats().await.unwrap();
            store.groups(&all, 10).await.unwrap();
            store.relays().await.unwrap();
            store.blocked(10).await.unwrap();
            listed
        };
        assert_eq!(look(&store).await, 11 + unchecked.len());
        let claim = Claim {
            ordering,
            ..Claim::new(100)
        };
        // Each broken one has a letter, which can be read.
        let settled = is_settled(&store, &claim).await;
        assert_eq!(
            settled,
            (10 + odd.len() + broken.len(), broken.len()),
            "{ordering:?}"
        );
        assert_eq!(look(&store).await, 11 + unchecked.len() + broken.len());
        let dead = Filter {
            reason: Some(DeadReason::Malformed),
            ..Filter::default()
        };
        for record in store.list(&dead, 100).await.unwrap() {
            assert!(store.show(record.id).await.unwrap().is_some(), "{record:?}");
        }
    }
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
