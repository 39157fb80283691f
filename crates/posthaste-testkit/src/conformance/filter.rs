//! Filter: which events are listed and counted.

use std::time::Duration;

use posthaste::store::{Claim, Filter, Scope, Verdict};
use posthaste::{DeadReason, Message, Pattern, Receipt, Status, Store};
use uuid::Uuid;

use super::{HOUR, TOPIC, claim_all, enqueue, ids, message, messages, reject, retry, settle};
use crate::bed::Bed;

// K6
pub async fn a_list_is_filtered_by_scope_and_status(bed: impl Bed) {
    let store = bed.relay().await;
    let (tenant, paid) = (Uuid::new_v4(), "shop.order.paid.v1");
    let receipts = enqueue(
        &bed,
        &[
            message(),
            message().namespace("shop"),
            Message::bytes(paid, "text/plain", "x"),
            message().tenant(tenant),
        ],
    )
    .await;
    let event = store.claim(&Claim::new(1)).await.unwrap().events.remove(0);
    reject(&store, &event).await;
    let scoped = |change: &dyn Fn(&mut Scope)| {
        let mut filter = Filter::default();
        change(&mut filter.scope);
        filter
    };
    let status = |status| Filter {
        status: vec![status],
        ..Filter::default()
    };
    for (filter, expected) in [
        (Filter::default(), vec![0, 1, 2, 3]),
        (scoped(&|s| s.namespace = Some("shop".to_owned())), vec![1]),
        (
            scoped(&|s| s.namespace = Some(String::new())),
            vec![0, 2, 3],
        ),
        (scoped(&|s| s.topics = vec![paid.to_owned()]), vec![2]),
        (
            scoped(&|s| s.topics = vec![paid.to_owned(), TOPIC.to_owned()]),
            vec![0, 1, 2, 3],
        ),
        (scoped(&|s| s.tenant_id = Some(tenant)), vec![3]),
        (status(Status::Dead), vec![0]),
        (status(Status::Pending), vec![1, 2, 3]),
        (status(Status::Delivered), vec![]),
        (
            Filter {
                status: vec![Status::Dead, Status::Pending],
                ..Filter::default()
            },
            vec![0, 1, 2, 3],
        ),
    ] {
        finds(&store, &receipts, &filter, &expected).await;
    }
}

/// That a filter lists and counts these of the events, by their place among the receipts.
async fn finds(store: &impl Store, receipts: &[Receipt], filter: &Filter, expected: &[usize]) {
    let expected: Vec<Uuid> = expected.iter().map(|n| receipts[*n].id).collect();
    let listed = store.list(filter, 10).await.unwrap();
    assert_eq!(ids(&listed), expected, "{filter:?}");
    let count = store.count(filter).await.unwrap();
    assert_eq!(count, expected.len() as u64, "{filter:?}");
}

// K6, F10
pub async fn a_list_is_filtered_by_everything_an_operator_knows(bed: impl Bed) {
    let store = bed.relay().await;
    let mut receipts = enqueue(&bed, &[message().aggregate("order", "42")]).await;
    bed.pass(2 * HOUR).await;
    let of_type = |kind: &str| message().aggregate("order", "7").event_type(kind);
    let paid = Message::bytes("shop.order.paid.v2", "text/plain", "x");
    receipts.extend(enqueue(&bed, &[of_type("placed"), of_type("paid"), paid]).await);
    let events = store.claim(&Claim::new(2)).await.unwrap().events;
    reject(&store, &events[0]).await;
    retry(&store, &events[1], HOUR).await;
    let any = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    let topic = |pattern: &str| Filter {
        topic: Some(Pattern::new(pattern)),
        ..any()
    };
    let older = |age| Filter {
        older_than: Some(age),
        ..any()
    };
    let newer = |age| Filter {
        newer_than: Some(age),
        ..any()
    };
    let ended = |time| Filter {
        ended_for: Some(time),
        ..any()
    };
    let error = |error: &str| Filter {
        error: text(error),
        ..any()
    };
    let reason = |reason| Filter {
        reason: Some(reason),
        ..any()
    };
    let kind = |kind: &str| Filter {
        event_type: text(kind),
        ..any()
    };
    let aggregate = |kind: Option<&str>, id: Option<&str>| Filter {
        aggregate_type: kind.and_then(text),
        aggregate_id: id.and_then(text),
        ..any()
    };
    let by_id = |of: &[usize]| Filter {
        ids: of.iter().map(|n| receipts[*n].id).collect(),
        ..any()
    };
    for (filter, expected) in [
        (topic("*"), vec![0, 1, 2, 3]),
        (topic("shop.*"), vec![0, 1, 2, 3]),
        (topic("*.v1"), vec![0, 1, 2]),
        (topic("shop.order.pa?d.v2"), vec![3]),
        (topic("*ORDER*"), vec![]),
        (topic("shop.order"), vec![]),
        (topic(""), vec![]),
        (older(HOUR), vec![0]),
        (older(3 * HOUR), vec![]),
        (older(Duration::MAX), vec![]),
        (newer(HOUR), vec![1, 2, 3]),
        (newer(3 * HOUR), vec![0, 1, 2, 3]),
        (newer(Duration::MAX), vec![0, 1, 2, 3]),
        (ended(Duration::ZERO), vec![0]),
        (ended(HOUR), vec![]),
        (ended(Duration::MAX), vec![]),
        (error("odd"), vec![0]),
        (error("ODD"), vec![]),
        (error("no answer"), vec![1]),
        (error(""), vec![0, 1]),
        (reason(DeadReason::Rejected), vec![0]),
        (reason(DeadReason::Exhausted), vec![]),
        (kind("placed"), vec![1]),
        (aggregate(Some("order"), None), vec![0, 1, 2]),
        (aggregate(Some("order"), Some("7")), vec![1, 2]),
        (aggregate(None, Some("42")), vec![0]),
        (aggregate(Some("basket"), Some("7")), vec![]),
        (by_id(&[3, 0]), vec![0, 3]),
    ] {
        finds(&store, &receipts, &filter, &expected).await;
    }
    let unknown = Filter {
        ids: vec![Uuid::new_v4()],
        ..any()
    };
    finds(&store, &receipts, &unknown, &[]).await;
    bed.pass(2 * HOUR).await;
    finds(&store, &receipts, &ended(HOUR), &[0]).await;
}

// K6
pub async fn several_conditions_must_all_hold(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &messages(4)).await;
    let events = store.claim(&Claim::new(3)).await.unwrap().events;
    reject(&store, &events[0]).await;
    settle(&store, &events[1], Verdict::Delivered { keep: true }).await;
    let dead = Filter {
        status: vec![Status::Dead, Status::Delivered],
        ids: ids(&receipts),
        topic: Some(Pattern::new("shop.*")),
        ..Filter::default()
    };
    finds(&store, &receipts, &dead, &[0, 1]).await;
    let with_error = Filter {
        error: Some("odd".to_owned()),
        ..dead.clone()
    };
    finds(&store, &receipts, &with_error, &[0]).await;
    let elsewhere = Filter {
        ids: ids(&receipts[1..]),
        ..with_error
    };
    finds(&store, &receipts, &elsewhere, &[]).await;
    let later = Filter {
        after: Some(receipts[0].sequence),
        ..dead
    };
    finds(&store, &receipts, &later, &[1]).await;
}

// K6
pub async fn hostile_texts_in_a_filter_are_only_texts(bed: impl Bed) {
    let store = bed.relay().await;
    let hostile = [
        "%",
        "_",
        "\\",
        "'",
        "\"",
        "' or 1=1 --",
        "[a-z]",
        "$1",
        "{outbox}",
        "\0",
        "\u{1f600}",
    ];
    let receipts = enqueue(&bed, &[message()]).await;
    for text in hostile {
        let some = || Some(text.to_owned());
        let scope = |namespace, topics| Scope {
            namespace,
            topics,
            tenant_id: None,
        };
        let any = Filter::default;
        for filter in [
            Filter {
                topic: Some(Pattern::new(text)),
                ..any()
            },
            Filter {
                topic: Some(Pattern::new(format!("*{text}*"))),
                ..any()
            },
            Filter {
                error: some(),
                ..any()
            },
            Filter {
                event_type: some(),
                ..any()
            },
            Filter {
                aggregate_type: some(),
                aggregate_id: some(),
                ..any()
            },
            Filter {
                scope: scope(some(), Vec::new()),
                ..any()
            },
            Filter {
                scope: scope(None, vec![text.to_owned()]),
                ..any()
            },
        ] {
            finds(&store, &receipts, &filter, &[]).await;
        }
    }
    // And they find what holds them.
    let event = claim_all(&store, &Claim::new(1)).await.remove(0);
    let error = "100%_[a-z]\\'\"".to_owned();
    let verdict = Verdict::Retry {
        delay: HOUR,
        error: error.clone(),
    };
    settle(&store, &event, verdict).await;
    for part in ["%_", "[a-z]", "\\'\"", &error] {
        let filter = Filter {
            error: Some(part.to_owned()),
            ..Filter::default()
        };
        finds(&store, &receipts, &filter, &[0]).await;
    }
}
