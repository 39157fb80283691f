//! What a broker refuses, and whose fault it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::Event;
use posthaste_relay::sink::kafka::Compression;
use posthaste_relay::sink::{Kafka, Outcome, Sink};
use posthaste_testkit::sink_contract;
use tokio::task::JoinSet;

use crate::cluster::*;

/// For so long a broker may take records of a topic that was deleted: it has to notice itself.
const NOTICED: Duration = Duration::from_secs(10);

async fn all_delivered(sink: Kafka, messages: &[posthaste::Message]) -> Vec<String> {
    let (sink, mut deliveries) = (Arc::new(sink), JoinSet::new());
    for event in sink_contract::events(messages).await {
        let sink = sink.clone();
        deliveries.spawn(async move {
            assert_eq!(sink.deliver(event.clone()).await, Outcome::Delivered);
            event.id.to_string()
        });
    }
    let mut ids = deliveries.join_all().await;
    ids.sort();
    ids
}

async fn ids(brokers: &str, topic: &str) -> Vec<String> {
    let mut ids: Vec<_> = read(brokers, topic).await.iter().map(Record::id).collect();
    ids.sort();
    ids
}

// K3
#[tokio::test]
async fn a_topic_that_is_not_there_is_told_and_used_once_it_is() {
    let brokers = shared().await;
    let name = fresh_name();
    let sink = sink(&brokers, &format!("{name}.{{aggregate_type}}"))
        .build()
        .unwrap();
    create(&brokers, &format!("{name}.Known"), 1, &[]).await;
    let unknown = event_of(message().aggregate("Unknown", "1")).await;
    let known = event_of(message().aggregate("Known", "1")).await;
    for _ in 0..3 {
        let outcome = sink.deliver(unknown.clone()).await;
        let Outcome::Retry(why) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            why.contains(&format!("\"{name}.Unknown\" does not exist: create it")),
            "{why}"
        );
        // The others go on.
        assert_eq!(sink.deliver(known.clone()).await, Outcome::Delivered);
    }
    create(&brokers, &format!("{name}.Unknown"), 1, &[]).await;
    until_delivered(&sink, &unknown).await;
    assert_eq!(read(&brokers, &format!("{name}.Unknown")).await.len(), 1);
}

// K3 F9: where all events go to one topic, none of them is at fault.
#[tokio::test]
async fn the_only_topic_is_the_destination_and_costs_no_attempt_while_it_is_not_there() {
    let brokers = shared().await;
    let name = fresh_name();
    let sink = sink(&brokers, &name).build().unwrap();
    for _ in 0..2 {
        let outcome = deliver(&sink).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("does not exist")),
            "{outcome:?}"
        );
    }
    create(&brokers, &name, 1, &[]).await;
    until_delivered(&sink, &event_of(message()).await).await;
}

#[tokio::test]
async fn a_topic_that_is_deleted_and_made_again_is_used_again() {
    let brokers = shared().await;
    let name = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &name)
        .timeout(Duration::from_secs(8))
        .build()
        .unwrap();
    for _ in 0..20 {
        assert_eq!(deliver(&sink).await, Outcome::Delivered);
    }
    delete(&brokers, &name).await;
    let deleted = Instant::now();
    let event = event_of(message()).await;
    let mut outcome = sink.deliver(event.clone()).await;
    while outcome == Outcome::Delivered && deleted.elapsed() < NOTICED {
        outcome = sink.deliver(event.clone()).await;
    }
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    create(&brokers, &name, 3, &[]).await;
    until_delivered(&sink, &event).await;
    // What is not acknowledged in time may have arrived, too: then it is there more than once.
    let mut arrived = ids(&brokers, &name).await;
    arrived.dedup();
    assert_eq!(arrived, [event.id.to_string()]);
}

// F6
#[tokio::test]
async fn one_byte_more_than_a_topic_takes_is_rejected() {
    let brokers = shared().await;
    let name = fresh_name();
    create(&brokers, &name, 1, &[("max.message.bytes", "50000")]).await;
    let sink = sink(&brokers, &name).build().unwrap();
    // The largest that fits, found by halving: what is beside the payload is less than this.
    let (mut fits, mut too_large) = (49_000, 50_000);
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        match sink.deliver(large_event(middle).await).await {
            Outcome::Delivered => fits = middle,
            Outcome::Reject(_) => too_large = middle,
            other => panic!("{other:?}"),
        }
    }
    let largest = large_event(fits).await;
    assert_eq!(sink.deliver(largest.clone()).await, Outcome::Delivered);
    let outcome = sink.deliver(large_event(fits + 1).await).await;
    assert!(
        matches!(&outcome, Outcome::Reject(why) if why.contains("`max.message.bytes`")),
        "{outcome:?}"
    );
    let last = read(&brokers, &name).await.pop().unwrap();
    assert_eq!(last.value.unwrap().len(), fits);
}

// F6
#[tokio::test]
async fn what_is_larger_than_the_sinks_own_limit_is_not_even_sent() {
    let brokers = shared().await;
    let name = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &name)
        .max_message_size(10_000)
        .build()
        .unwrap();
    let outcome = sink.deliver(event_of(of_size(10_000)).await).await;
    assert!(
        matches!(&outcome, Outcome::Reject(why) if why.contains("`max_message_size`")),
        "{outcome:?}"
    );
    assert_eq!(
        sink.deliver(event_of(of_size(8_000)).await).await,
        Outcome::Delivered
    );
}

// F6: the broker refuses the whole batch, in which each single record would have been welcome.
#[tokio::test]
async fn a_batch_that_is_too_large_is_not_the_fault_of_its_records() {
    let brokers = shared().await;
    let name = fresh_name();
    create(&brokers, &name, 1, &[("max.message.bytes", "20000")]).await;
    let sink = sink(&brokers, &name)
        .linger(Duration::from_millis(50))
        .build()
        .unwrap();
    let sent = all_delivered(sink, &vec![of_size(5_000); 100]).await;
    assert_eq!(ids(&brokers, &name).await, sent);
}

// F9: a record has the time of its delivery, so it is the relay's clock that is wrong for the broker.
#[tokio::test]
async fn a_clock_that_is_wrong_kills_no_event() {
    let brokers = shared().await;
    let name = fresh_name();
    // Whatever arrives is of the past.
    let config = [("message.timestamp.before.max.ms", "0")];
    create(&brokers, &name, 1, &config).await;
    for count in [1, 20] {
        let sink = sink(&brokers, &name).linger(Duration::from_millis(300));
        let sink = sink.build().unwrap();
        let events = sink_contract::events(&vec![message(); count]).await;
        let all = events.iter().map(|event| sink.deliver(event.clone()));
        for outcome in futures_util::future::join_all(all).await {
            assert!(
                matches!(&outcome, Outcome::Unavailable(why) if why.contains("look at the clocks")),
                "{outcome:?}"
            );
        }
    }
}

// F9: also where topics are made of events, as long as none of them takes anything.
#[tokio::test]
async fn a_topic_is_blamed_for_what_it_says_of_the_clock_only_while_others_take_theirs() {
    let brokers = shared().await;
    let name = fresh_name();
    let past = [("message.timestamp.before.max.ms", "0")];
    create(&brokers, &format!("{name}.Strict"), 1, &past).await;
    create(&brokers, &format!("{name}.Usual"), 1, &[]).await;
    // For half of the timeout, what was acknowledged tells of the clocks.
    let sink = sink(&brokers, &format!("{name}.{{aggregate_type}}"))
        .timeout(Duration::from_secs(60))
        .compression(Compression::Gzip);
    let sink = sink.build().unwrap();
    // What takes milliseconds to be packed is of the past when it arrives.
    let mut strict = Event::clone(&*large_event(8_000_000).await);
    strict.aggregate_type = Some("Strict".to_owned());
    let strict = Arc::new(strict);
    let usual = event_of(message().aggregate("Usual", "1")).await;
    for _ in 0..6 {
        let outcome = sink.deliver(strict.clone()).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("look at the clocks")),
            "{outcome:?}"
        );
    }
    let mut outcomes = Vec::new();
    while !matches!(outcomes.last(), Some(Outcome::Retry(_))) {
        assert!(outcomes.len() < 20, "{outcomes:?}");
        assert_eq!(sink.deliver(usual.clone()).await, Outcome::Delivered);
        outcomes.push(sink.deliver(strict.clone()).await);
    }
}

// F6: the broker refuses the whole batch because of one record, which waited for too long in it.
#[tokio::test]
async fn a_batch_with_one_record_that_is_refused_is_not_the_fault_of_the_others() {
    let brokers = shared().await;
    let name = fresh_name();
    let config = [("message.timestamp.before.max.ms", "8000")];
    create(&brokers, &name, 1, &config).await;
    let sink = sink(&brokers, &name)
        .timeout(Duration::from_secs(30))
        .linger(Duration::from_secs(10))
        .build()
        .unwrap();
    let events = sink_contract::events(&vec![message(); 3]).await;
    let (old, others) = events.split_first().unwrap();
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let all = others.iter().map(|event| sink.deliver(event.clone()));
        futures_util::future::join_all(all).await
    };
    let (old, others) = tokio::join!(sink.deliver(old.clone()), others);
    // Sent again it has another time.
    assert_eq!(old, Outcome::Delivered);
    assert_eq!(others, [Outcome::Delivered, Outcome::Delivered]);
    assert_eq!(ids(&brokers, &name).await.len(), 3);
}

// B8
#[tokio::test]
async fn a_full_queue_is_waited_for() {
    let brokers = shared().await;
    let name = fresh_topic(&brokers).await;
    let sink = sink(&brokers, &name).property("queue.buffering.max.messages", "10");
    let sent = all_delivered(sink.build().unwrap(), &vec![message(); 500]).await;
    assert_eq!(ids(&brokers, &name).await, sent);
}

// K3 B8
#[tokio::test]
async fn a_topic_that_is_deleted_is_no_acknowledgement_and_holds_up_no_other() {
    let brokers = shared().await;
    let name = fresh_name();
    for part in ["Gone", "Other"] {
        create(&brokers, &format!("{name}.{part}"), 1, &[]).await;
    }
    let sink =
        sink(&brokers, &format!("{name}.{{aggregate_type}}")).timeout(Duration::from_secs(8));
    let sink = sink.build().unwrap();
    let gone = event_of(message().aggregate("Gone", "1")).await;
    let other = event_of(message().aggregate("Other", "1")).await;
    assert_eq!(sink.deliver(gone.clone()).await, Outcome::Delivered);
    delete(&brokers, &format!("{name}.Gone")).await;
    let deleted = Instant::now();
    let mut outcomes = Vec::new();
    // Down for it at first, as it was there a moment ago; then it is known to be gone.
    while !matches!(outcomes.last(), Some(Outcome::Retry(_))) {
        let others = async {
            loop {
                assert_eq!(sink.deliver(other.clone()).await, Outcome::Delivered);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            outcome = sink.deliver(gone.clone()) => outcomes.push(outcome),
            () = others => {}
        }
        if outcomes == [Outcome::Delivered] && deleted.elapsed() < NOTICED {
            outcomes.clear();
        }
        let waits =
            |outcome: &Outcome| matches!(outcome, Outcome::Unavailable(_) | Outcome::Retry(_));
        assert!(
            outcomes.iter().all(waits) && outcomes.len() < 10,
            "{outcomes:?}"
        );
    }
}
