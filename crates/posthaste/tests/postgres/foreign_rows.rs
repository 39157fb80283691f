//! Rows that somebody wrote by hand: each is refused, delivered or set aside, and none costs
//! its neighbours.

use std::collections::BTreeSet;

use posthaste::store::{Claim, Filter, OnFailure, Ordering, Settlement, Store, Verdict};
use posthaste::{DeadReason, Event, Message, Status, header};
use posthaste_testkit::outbox::Fresh;
use tokio_postgres::error::SqlState;

fn orderings() -> [Ordering; 2] {
    [Ordering::None, Ordering::Key(OnFailure::Block)]
}

/// An outbox with ten good events around the odd rows.
async fn among_good_events(odd: &[&str]) -> Fresh {
    let mut fresh = Fresh::new().await;
    let good = vec![Message::json("shop.order.placed.v1", &1).unwrap(); 5];
    fresh.enqueue(&good).await;
    for columns in odd {
        let insert = fresh.sql(&format!("insert into {{outbox}} {columns}"));
        let inserted = fresh.client.batch_execute(&insert).await;
        inserted.unwrap_or_else(|error| panic!("{insert}: {error}"));
    }
    fresh.enqueue(&good).await;
    fresh
}

// M7
#[tokio::test]
async fn odd_rows_that_can_be_delivered_are() {
    let odd = [
        "(topic, payload) values (E'line\\nbreak', '1')",
        "(topic, payload) values ('Upper Case', 'null')",
        "(topic, payload_bytes, content_type) values ('t', '', '')",
        "(topic, payload, content_type) values ('t', '1', E'a\\r\\nb')",
        "(topic, payload, traceparent) values ('t', '1', 'nonsense')",
        "(topic, payload, tracestate) values ('t', '1', 'without a parent')",
        "(topic, payload, namespace) values ('t', '1', repeat('n', 100000))",
        "(topic, payload, event_type) values ('t', '1', repeat('e', 100000))",
        "(topic, payload, created_at) values ('t', '1', '4713-01-01 00:00 BC')",
        "(topic, payload, created_at) values ('t', '1', '294276-01-01')",
        "(topic, payload, updated_at) values ('t', '1', 'infinity')",
        "(topic, payload, updated_at) values ('t', '1', '-infinity')",
        "(topic, payload, next_attempt_at) values ('t', '1', '4713-01-01 00:00 BC')",
        "(topic, payload, lease_epoch) values ('t', '1', 9223372036854775807)",
        "(topic, payload, attempts) values ('t', '1', 24)",
        "(topic, payload, last_error) values ('t', '1', repeat('x', 100000))",
        "(sequence, topic, payload) overriding system value values (-5, 't', '1')",
        "(sequence, topic, payload) overriding system value values (9223372036854775807, 't', '1')",
        "(sequence, topic, payload) overriding system value values (1, 't', '1')",
        "(topic, payload, status, lease_owner, lease_until) values ('t', '1', 'processing', gen_random_uuid(), '1000-01-01')",
    ];
    for ordering in orderings() {
        let fresh = among_good_events(&odd).await;
        let store = fresh.store().await;
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
        assert_eq!(
            store.list(&Filter::default(), 100).await.unwrap().len(),
            settlements.len()
        );
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
        "(topic, payload, headers) values ('t', '1', '{\"a\": null}')",
        "(topic, payload, headers) values ('t', '1', '{\"a\": {\"b\": \"c\"}}')",
        "(topic, payload, headers) values ('t', '1', (repeat('[', 2000) || repeat(']', 2000))::jsonb)",
    ];
    for ordering in orderings() {
        let fresh = among_good_events(&odd).await;
        let store = fresh.store().await;
        let claim = Claim {
            ordering,
            ..Claim::new(100)
        };
        let claimed = store.claim(&claim).await.unwrap();
        assert_eq!(
            (claimed.events.len(), claimed.malformed.len()),
            (10, odd.len())
        );
        let settlements: Vec<Settlement> = claimed
            .malformed
            .iter()
            .map(|row| {
                assert!(row.error.contains("headers"), "{row:?}");
                let verdict = Verdict::Dead {
                    reason: row.died.reason,
                    error: row.error.clone(),
                    letter: Some("shop.dead-letters.v1".to_owned()),
                };
                Settlement {
                    lease: row.lease,
                    tried: None,
                    verdict,
                }
            })
            .collect();
        assert_eq!(store.settle(&settlements).await.unwrap().applied, odd.len());
        let filter = Filter {
            status: vec![Status::Dead],
            ..Filter::default()
        };
        let dead = store.list(&filter, 100).await.unwrap();
        let reasons: BTreeSet<_> = dead
            .iter()
            .map(|event| event.dead_reason.unwrap().as_str())
            .collect();
        assert_eq!(
            (dead.len(), reasons),
            (odd.len(), BTreeSet::from(["malformed"]))
        );
        // F10: what cannot be read as an event can be read as a letter.
        let letters = store.claim(&claim).await.unwrap();
        assert_eq!(
            (letters.events.len(), letters.malformed.len()),
            (odd.len(), 0)
        );
        let told = |event: &Event| event.headers[header::DEAD_REASON] == "malformed";
        assert!(letters.events.iter().all(told), "{letters:?}");
    }
}

// M8
#[tokio::test]
async fn rows_without_an_attempt_left_are_dead() {
    let odd = [
        "(topic, payload, attempts) values ('t', '1', 2147483647)",
        "(topic, payload, attempts) values ('t', '1', 25)",
        "(topic, payload, attempts, headers) values ('t', '1', 25, '[]')",
    ];
    for ordering in orderings() {
        let fresh = among_good_events(&odd).await;
        let claim = Claim {
            ordering,
            dead_letters: Some("shop.dead-letters.v1".to_owned()),
            ..Claim::new(100)
        };
        let store = fresh.store().await;
        let claimed = store.claim(&claim).await.unwrap();
        assert_eq!((claimed.events.len(), claimed.died.len()), (10, 3));
        let letters = store.claim(&claim).await.unwrap();
        assert_eq!((letters.events.len(), letters.malformed.len()), (3, 0));
    }
}

#[tokio::test]
async fn an_unknown_reason_of_death_can_be_shown() {
    let odd = [
        "(topic, payload, status, dead_at, dead_reason) values ('t', '1', 'dead', now(), 'whatever')",
    ];
    let fresh = among_good_events(&odd).await;
    let filter = Filter {
        status: vec![Status::Dead],
        ..Filter::default()
    };
    let dead = fresh.store().await.list(&filter, 10).await.unwrap();
    assert_eq!(dead[0].dead_reason, Some(DeadReason::Malformed));
}

// What docs/other-languages.md advises those to do who do not trust whoever inserts.
#[tokio::test]
async fn payloads_that_come_back_longer_are_refused_if_the_owner_wishes() {
    let fresh = Fresh::new().await;
    let rule = "alter table {outbox} add check (octet_length(payload::text) <= 1048576)";
    fresh.client.batch_execute(&fresh.sql(rule)).await.unwrap();
    let insert = fresh.sql(
        "insert into {outbox} (topic, payload)
         select 't', jsonb_agg(1e-9999::numeric) from generate_series(1, $1::bigint)",
    );
    let many = async |count: i64| fresh.client.execute(&insert, &[&count]).await;
    assert_eq!(many(100).await.unwrap(), 1);
    let refused = many(110).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION));
    let claimed = fresh.store().await.claim(&Claim::new(10)).await.unwrap();
    assert!(claimed.events[0].payload.len() > 1_000_000);
}
