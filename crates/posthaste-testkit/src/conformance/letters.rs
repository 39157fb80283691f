//! Dead letters: what dies leaves a copy of itself, in the very transaction in which it dies.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste::store::{Attempt, Claim, Filter, OnFailure, Settlement, Tried, Verdict};
use posthaste::{DeadReason, Event, Message, Record, Status, Store, TraceContext, header, time};
use uuid::Uuid;

use super::{
    HOUR, ann, by_key, claim_all, deliver, enqueue, ids, keyed, message, record, retry, settle,
};
use crate::bed::Bed;

const LETTERS: &str = "shop.dead-letters.v1";

/// A claim by a relay that sends letters.
fn claim(limit: u32) -> Claim {
    Claim {
        dead_letters: Some(LETTERS.to_owned()),
        ..Claim::new(limit)
    }
}

fn dead(reason: DeadReason, error: &str) -> Verdict {
    Verdict::Dead {
        reason,
        error: error.to_owned(),
        letter: Some(LETTERS.to_owned()),
    }
}

async fn letters(store: &impl Store) -> Vec<Record> {
    let all = store.list(&Filter::default(), 1000).await.unwrap();
    let letters = all.into_iter().filter(|record| record.topic == LETTERS);
    letters.collect()
}

/// The only letter.
async fn letter(store: &impl Store) -> Record {
    let mut letters = letters(store).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}

async fn headers(store: &impl Store, id: Uuid) -> BTreeMap<String, String> {
    store.content(id).await.unwrap().unwrap().headers
}

/// What a letter is to tell of the attempts of an event, as far as it all fits.
async fn told_of_attempts(store: &impl Store, id: Uuid) -> Vec<serde_json::Value> {
    let history = store.history(id).await.unwrap();
    let entry = |attempt: &Attempt| {
        let mut entry = serde_json::json!({
            "attempt": attempt.number,
            "at": time::rfc3339(attempt.claimed_at.unwrap()),
            "ending": attempt.ending.as_str(),
        });
        for (name, text) in [
            ("destination", &attempt.destination),
            ("relay", &attempt.relay_name),
            ("error", &attempt.error),
        ] {
            let text = text.as_deref().map(|text| cut(text, 128));
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                entry[name] = text.into();
            }
        }
        entry
    };
    history.iter().map(entry).collect()
}

/// As a header can carry it.
fn cut(text: &str, limit: usize) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    let text: String = text.chars().map(printable).take(limit).collect();
    text.trim().to_owned()
}

fn entries(headers: &BTreeMap<String, String>) -> Vec<serde_json::Value> {
    let history = headers.get(header::DEAD_HISTORY);
    history.map_or_else(Vec::new, |text| serde_json::from_str(text).unwrap())
}

/// Compares all that a letter's headers tell of the death of an event that had none of its own.
async fn tells(store: &impl Store, letter: Uuid, of: &Record, error: Option<&str>) {
    assert_eq!(of.status, Status::Dead);
    let reason = of.dead_reason.unwrap().to_string();
    let mut expected = BTreeMap::from([
        (header::DEAD_LETTER_OF, of.id.to_string()),
        (header::DEAD_TOPIC, of.topic.clone()),
        (header::DEAD_REASON, reason),
        (header::DEAD_ATTEMPTS, of.attempts.to_string()),
        (header::DEAD_CREATED_AT, time::rfc3339(of.created_at)),
    ]);
    expected.extend(error.map(|error| (header::DEAD_ERROR, error.to_owned())));
    let mut told = headers(store, letter).await;
    assert_eq!(entries(&told), told_of_attempts(store, of.id).await);
    told.remove(header::DEAD_HISTORY);
    let told: BTreeMap<&str, String> = told.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
    assert_eq!(told, expected);
}

// F10
pub async fn each_death_by_verdict_makes_one_letter_that_tells_of_it(bed: impl Bed) {
    let store = bed.relay().await;
    let reasons = [
        DeadReason::Exhausted,
        DeadReason::Rejected,
        DeadReason::Crashed,
        DeadReason::Malformed,
    ];
    enqueue(&bed, &vec![message(); reasons.len() + 1]).await;
    let events = claim_all(&store, &claim(10)).await;
    let mut settlements: Vec<Settlement> = events
        .iter()
        .zip(reasons)
        .map(|(event, reason)| Settlement {
            lease: event.lease,
            tried: None,
            verdict: dead(reason, reason.as_str()),
        })
        .collect();
    // Told twice, it dies once.
    settlements.push(settlements[0].clone());
    settlements.push(Settlement {
        lease: events[reasons.len()].lease,
        tried: None,
        verdict: Verdict::Release,
    });
    store.settle(&settlements).await.unwrap();
    let letters = letters(&store).await;
    assert_eq!(letters.len(), reasons.len());
    for (letter, event) in letters.iter().zip(&events) {
        let of = record(&store, event.id).await;
        let error = of.last_error.clone();
        tells(&store, letter.id, &of, error.as_deref()).await;
    }
}

// F10, M8
pub async fn a_crash_on_the_last_attempt_makes_a_letter(bed: impl Bed) {
    let store = bed.relay().await;
    let last = Claim {
        max_attempts: 1,
        ..claim(10)
    };
    let receipts = enqueue(&bed, &[message()]).await;
    assert_eq!(claim_all(&store, &last).await.len(), 1);
    bed.pass(HOUR).await;
    let claimed = store.claim(&last).await.unwrap();
    assert_eq!(claimed.died.len(), 1);
    let of = record(&store, receipts[0].id).await;
    assert_eq!(of.dead_reason, Some(DeadReason::Crashed));
    tells(&store, letter(&store).await.id, &of, None).await;
}

// F10
pub async fn an_event_found_without_an_attempt_left_makes_a_letter(bed: impl Bed) {
    let store = bed.relay().await;
    for (keyed, topic) in [
        (false, "shop.order.placed.v1"),
        (true, "shop.order.paid.v1"),
    ] {
        let few = Claim {
            max_attempts: 1,
            ordering: match keyed {
                true => posthaste::store::Ordering::Key(OnFailure::Skip),
                false => posthaste::store::Ordering::None,
            },
            scope: posthaste::store::Scope {
                topics: vec![topic.to_owned()],
                ..Default::default()
            },
            ..claim(10)
        };
        let before = letters(&store).await.len();
        enqueue(&bed, &[Message::bytes(topic, "text/plain", "x")]).await;
        let events = claim_all(&store, &few).await;
        retry(&store, &events[0], std::time::Duration::ZERO).await;
        bed.pass(HOUR).await;
        let claimed = store.claim(&few).await.unwrap();
        assert_eq!(claimed.died.len(), 1);
        let of = record(&store, events[0].id).await;
        assert_eq!(of.dead_reason, Some(DeadReason::Exhausted));
        let letters = letters(&store).await;
        assert_eq!(letters.len(), before + 1);
        tells(&store, letters[before].id, &of, Some("no answer")).await;
    }
}

// F10
pub async fn parked_events_get_letters_too(bed: impl Bed) {
    let store = bed.relay().await;
    let park = |limit| Claim {
        dead_letters: Some(LETTERS.to_owned()),
        ..by_key(limit, OnFailure::Park)
    };
    let receipts = enqueue(&bed, &keyed(&["a", "a", "a"])).await;
    let events = store.claim(&park(1)).await.unwrap().events;
    settle(&store, &events[0], dead(DeadReason::Rejected, "too odd")).await;
    let claimed = store.claim(&park(10)).await.unwrap();
    assert_eq!((claimed.events.len(), claimed.died.len()), (1, 2));
    let letters = letters(&store).await;
    assert_eq!(letters.len(), 3);
    for (letter, of) in letters.iter().zip(&receipts) {
        // It must not wait behind the event that it tells of.
        assert_eq!(letter.ordering_key, None);
        let of = record(&store, of.id).await;
        let error = (of.id == receipts[0].id).then_some("too odd");
        tells(&store, letter.id, &of, error).await;
    }
    // That of the first was there to be claimed with the others.
    assert_eq!(ids(&claimed.events), [letters[0].id]);
    assert_eq!(ids(&claim_all(&store, &park(10)).await), ids(&letters[1..]));
}

// F10
pub async fn a_letter_says_what_the_dead_event_said(bed: impl Bed) {
    let store = bed.relay().await;
    let trace = TraceContext {
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        tracestate: Some("vendor=1".to_owned()),
    };
    let tenant = Uuid::from_u128(7);
    let described = |message: Message| {
        message
            .namespace("billing")
            .tenant(tenant)
            .aggregate("Order", "42")
            .event_type("OrderPlaced")
            .ordering_key("42")
            .dedupe_key(format!("{tenant}/42"))
            .header("source", "checkout")
            .trace(trace.clone())
    };
    let payload: Vec<u8> = (0..=255).collect();
    let bytes = Message::bytes("shop.order.placed.v1", "image/png", payload.clone());
    let json = Message::json("shop.order.paid.v1", &serde_json::json!({"order": 42})).unwrap();
    enqueue(&bed, &[described(bytes), described(json)]).await;
    let events = claim_all(&store, &claim(10)).await;
    for event in &events {
        settle(&store, event, dead(DeadReason::Rejected, "too odd")).await;
    }
    let letters = claim_all(&store, &claim(10)).await;
    assert_eq!(letters.len(), 2);
    for (letter, event) in letters.into_iter().zip(events) {
        assert_ne!(letter.id, event.id);
        assert_eq!(letter.headers["source"], "checkout");
        assert_eq!(letter.headers[header::DEAD_TOPIC], event.topic);
        let mut expected = event;
        expected.id = letter.id;
        expected.sequence = letter.sequence;
        expected.topic = LETTERS.to_owned();
        expected.ordering_key = None;
        expected.dedupe_key = None;
        expected.headers = letter.headers.clone();
        expected.created_at = letter.created_at;
        expected.age = letter.age;
        expected.lease = letter.lease;
        assert_eq!(letter, expected);
    }
}

// F10
pub async fn a_letter_is_an_event_like_any_other(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &[message()]).await;
    let event = claim_all(&store, &claim(1)).await.remove(0);
    settle(&store, &event, dead(DeadReason::Rejected, "too odd")).await;
    let letter = letter(&store).await;
    assert_eq!((letter.status, letter.attempts), (Status::Pending, 0));
    assert_eq!((letter.lease_owner, letter.lease_epoch), (None, 0));
    let event = claim_all(&store, &claim(10)).await.remove(0);
    assert_eq!(event.id, letter.id);
    retry(&store, &event, HOUR).await;
    assert!(claim_all(&store, &claim(10)).await.is_empty());
    bed.pass(2 * HOUR).await;
    let again = claim_all(&store, &claim(10)).await;
    deliver(&store, &again).await;
    assert_eq!(record(&store, letter.id).await.status, Status::Delivered);
}

// F10, K8: whatever a topic or an error holds, a header must be carried everywhere.
pub async fn odd_topics_and_errors_are_told_in_plain_ascii(bed: impl Bed) {
    let store = bed.relay().await;
    enqueue(&bed, &vec![message(); 4]).await;
    let events = claim_all(&store, &claim(10)).await;
    let long = "no ".repeat(1000);
    let cut = "no ".repeat(1000)[..512].trim_end().to_owned();
    let errors = [
        (
            "  Zürich\r\n\tsaid \"no\" ~ \u{7f}№ 5 ",
            Some("Z?rich???said \"no\" ~ ?? 5"),
        ),
        (long.as_str(), Some(cut.as_str())),
        ("", None),
        (" ", None),
    ];
    for (event, (error, told)) in events.iter().zip(errors) {
        settle(&store, event, dead(DeadReason::Rejected, error)).await;
        let letter = letters(&store).await.pop().unwrap();
        let of = record(&store, event.id).await;
        tells(&store, letter.id, &of, told).await;
        let headers = headers(&store, letter.id).await;
        let kept =
            |(_, value): &(&String, &String)| value.bytes().all(|b| (b' '..=b'~').contains(&b));
        assert!(headers.iter().all(|header| kept(&header)), "{headers:?}");
    }
}

/// Lets the one event that waits fail once more, as a relay tells of it.
async fn fail(bed: &impl Bed, store: &impl Store, verdict: Verdict, destination: &str) -> Event {
    bed.pass(2 * HOUR).await;
    let event = claim_all(store, &claim(1)).await.remove(0);
    let settlement = Settlement {
        lease: event.lease,
        verdict,
        tried: Some(Tried {
            destination: destination.to_owned(),
            took: Duration::from_millis(1500),
            timed_out: false,
        }),
    };
    assert_eq!(store.settle(&[settlement]).await.unwrap().applied, 1);
    event
}

fn failed(error: &str) -> Verdict {
    Verdict::Retry {
        delay: Duration::ZERO,
        error: error.to_owned(),
    }
}

// F10: whoever reads it sees all that happened, without a look into the outbox.
pub async fn a_letter_tells_of_every_attempt(bed: impl Bed) {
    let (victim, store) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    fail(
        &bed,
        &victim,
        failed("503: try \"later\" \\o/"),
        "warehouse",
    )
    .await;
    // One that crashes, and one that is given back, which was no attempt.
    bed.pass(2 * HOUR).await;
    assert_eq!(claim_all(&victim, &claim(1)).await.len(), 1);
    bed.pass(2 * HOUR).await;
    let back = claim_all(&store, &claim(1)).await.remove(0);
    settle(&store, &back, Verdict::Release).await;
    let event = fail(
        &bed,
        &store,
        dead(DeadReason::Exhausted, "no\r\nanswer"),
        "Zürich",
    )
    .await;
    let of = record(&store, event.id).await;
    let letter = letter(&store).await;
    let told = entries(&headers(&store, letter.id).await);
    let expected = [
        (
            1,
            "failed",
            Some("warehouse"),
            Some("503: try \"later\" \\o/"),
        ),
        (2, "crashed", None, None),
        (3, "failed", Some("Z?rich"), Some("no??answer")),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (entry, (number, ending, destination, error)) in told.iter().zip(expected) {
        assert_eq!(entry["attempt"], number);
        assert_eq!(entry["ending"], ending);
        assert_eq!(entry["destination"].as_str(), destination);
        assert_eq!(entry["error"].as_str(), error);
    }
    let at = |entry: &serde_json::Value| entry["at"].as_str().unwrap().to_owned();
    assert!(told.is_sorted_by_key(at), "{told:?}");
    assert!(
        told[2]["relay"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
    tells(&store, letter.id, &of, Some("no??answer")).await;
}

// F10: headers that grow with every attempt would not be carried everywhere.
pub async fn a_letter_tells_of_the_newest_attempts_in_few_bytes(bed: impl Bed) {
    let store = bed.relay().await;
    // Short ones: ten of them fit. Long ones: as many as fit into the limit.
    let (long, far) = ("\"no\" ".repeat(300), "w".repeat(300));
    for (error, place, at_least, at_most) in [("no", "w", 10, 10), (long.trim(), &far, 2, 9)] {
        let receipts = enqueue(&bed, &[message()]).await;
        for _ in 0..12 {
            fail(&bed, &store, failed(error), place).await;
        }
        fail(&bed, &store, dead(DeadReason::Exhausted, error), "w").await;
        let letter = letters(&store).await.pop().unwrap();
        let headers = headers(&store, letter.id).await;
        assert!(headers[header::DEAD_HISTORY].len() <= 2048);
        let told = entries(&headers);
        assert!((at_least..=at_most).contains(&told.len()), "{told:?}");
        let mut all = told_of_attempts(&store, receipts[0].id).await;
        for entry in &mut all {
            entry["destination"] = cut(entry["destination"].as_str().unwrap(), 64).into();
        }
        assert_eq!(told, all[all.len() - told.len()..]);
        // It is one that every sink takes.
        assert_eq!(header::check_stored(&headers), Ok(()));
        deliver(&store, &claim_all(&store, &claim(10)).await).await;
    }
}

// F10, M15: what happened before an operator brought it back belongs to it.
pub async fn a_letter_tells_of_attempts_before_a_redelivery(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &[message()]).await;
    fail(&bed, &store, dead(DeadReason::Exhausted, "first"), "w").await;
    deliver(&store, &claim_all(&store, &claim(10)).await).await;
    store.redeliver(&[receipts[0].id], &ann()).await.unwrap();
    fail(&bed, &store, dead(DeadReason::Exhausted, "second"), "w").await;
    let letter = letters(&store).await.pop().unwrap();
    let told = entries(&headers(&store, letter.id).await);
    let errors: Vec<_> = told.iter().map(|entry| entry["error"].as_str()).collect();
    assert_eq!(errors, [Some("first"), Some("second")]);
}

// F10
pub async fn without_a_topic_there_is_no_letter(bed: impl Bed) {
    let store = bed.relay().await;
    let last = Claim {
        max_attempts: 1,
        ..Claim::new(2)
    };
    enqueue(&bed, &vec![message(); 2]).await;
    let events = claim_all(&store, &last).await;
    super::reject(&store, &events[0]).await;
    bed.pass(HOUR).await;
    assert_eq!(store.claim(&last).await.unwrap().died.len(), 1);
    assert_eq!(super::all(&store).await.len(), 2);
}

// F10
pub async fn a_letter_that_dies_makes_no_letter(bed: impl Bed) {
    let store = bed.relay().await;
    let last = Claim {
        max_attempts: 1,
        ..claim(10)
    };
    enqueue(&bed, &vec![message(); 2]).await;
    for event in claim_all(&store, &last).await {
        settle(&store, &event, dead(DeadReason::Rejected, "too odd")).await;
    }
    let letters = claim_all(&store, &last).await;
    assert_eq!(letters.len(), 2);
    settle(&store, &letters[0], dead(DeadReason::Rejected, "too odd")).await;
    bed.pass(HOUR).await;
    assert_eq!(store.claim(&last).await.unwrap().died.len(), 1);
    let all = super::all(&store).await;
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|record| record.status == Status::Dead));
}

// F10
pub async fn a_discarded_event_makes_no_letter(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &[message()]).await;
    let act = posthaste::store::Act {
        actor: "ops".to_owned(),
        why: "not needed".to_owned(),
    };
    store.discard(&[receipts[0].id], &act).await.unwrap();
    assert!(claim_all(&store, &claim(10)).await.is_empty());
    assert_eq!(super::all(&store).await.len(), 1);
}

// F10
pub async fn a_lost_lease_makes_no_letter(bed: impl Bed) {
    let (first, second) = (bed.relay().await, bed.relay().await);
    enqueue(&bed, &[message()]).await;
    let old = claim_all(&first, &claim(1)).await.remove(0);
    bed.pass(HOUR).await;
    let new = claim_all(&second, &claim(1)).await.remove(0);
    let too_late = Settlement {
        lease: old.lease,
        tried: None,
        verdict: dead(DeadReason::Rejected, "too odd"),
    };
    let settled = first.settle(&[too_late]).await.unwrap();
    assert_eq!((settled.applied, settled.lost), (0, vec![old.lease]));
    assert!(letters(&first).await.is_empty());
    let verdict = dead(DeadReason::Rejected, "too odd");
    settle(&second, &new, verdict.clone()).await;
    // Told again, as after an answer that got lost.
    let again = Settlement {
        lease: new.lease,
        tried: None,
        verdict,
    };
    assert_eq!(second.settle(&[again]).await.unwrap().applied, 0);
    letter(&second).await;
}

// F10, M15
pub async fn an_event_that_dies_again_makes_another_letter(bed: impl Bed) {
    let store = bed.relay().await;
    let receipts = enqueue(&bed, &[message()]).await;
    let act = posthaste::store::Act {
        actor: "ops".to_owned(),
        why: "mended".to_owned(),
    };
    for (n, error) in ["first", "second"].into_iter().enumerate() {
        let event = claim_all(&store, &claim(10)).await.remove(0);
        assert_eq!(event.id, receipts[0].id);
        settle(&store, &event, dead(DeadReason::Rejected, error)).await;
        let letters = letters(&store).await;
        assert_eq!(letters.len(), n + 1);
        let of = record(&store, event.id).await;
        tells(&store, letters[n].id, &of, Some(error)).await;
        deliver(&store, &claim_all(&store, &claim(10)).await).await;
        store.redeliver(&[event.id], &act).await.unwrap();
    }
}
