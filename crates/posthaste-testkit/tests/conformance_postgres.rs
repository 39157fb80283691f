//! The store on PostgreSQL does what every store does, and what only PostgreSQL can be asked.

use std::time::Duration;

use posthaste::store::{Act, Claim, Filter, Redelivery, Settlement, Verdict};
use posthaste::{DeadReason, Message, Status, Store, schema};
use posthaste_testkit::bed::{Bed, OnPostgres};
use posthaste_testkit::outbox::connect;

posthaste_testkit::conformance!(OnPostgres::new());

fn message() -> Message {
    Message::bytes("shop.order.placed.v1", "text/plain", "x")
}

#[tokio::test]
async fn listening_relays_are_woken_when_that_is_switched_on() {
    let bed = OnPostgres::new().await;
    let fresh = bed.fresh();
    let mut client = connect(&fresh.url).await;
    schema::notify(&mut client, &fresh.table, true)
        .await
        .expect("a trigger");
    let (one, other) = (bed.relay().await, bed.relay().await);
    // A relay listens from its first claim on.
    one.claim(&Claim::new(1)).await.expect("a claim");
    other.claim(&Claim::new(1)).await.expect("a claim");
    bed.enqueue(&[message()]).await.expect("a valid message");
    tokio::join!(one.woken(), other.woken());
}

// B2, B7
#[tokio::test]
async fn each_outbox_has_a_leader_of_its_own() {
    let (one, other) = (OnPostgres::new().await, OnPostgres::new().await);
    let (leader, another) = (one.relay().await, other.relay().await);
    assert!(leader.lead().await.expect("a lead"));
    assert!(another.lead().await.expect("a lead"));
}

// B7, N4: the connection dies under the relay, not the relay.
#[tokio::test]
async fn a_relay_whose_sessions_were_cut_comes_back_as_another_owner() {
    let bed = OnPostgres::new().await;
    let (cut, heir) = (bed.relay().await, bed.relay().await);
    bed.enqueue(&vec![message(); 2])
        .await
        .expect("valid messages");
    let event = cut
        .claim(&Claim::new(1))
        .await
        .expect("a claim")
        .events
        .remove(0);
    assert!(cut.lead().await.expect("a lead"));
    let before = cut.owner();

    let fresh = bed.fresh();
    let presence = "select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid) \
                    where locktype = 'advisory' and objid::bigint = hashtextextended($1, 0) & 4294967295";
    let ended = fresh.client.query(presence, &[&before.to_string()]).await;
    assert_eq!(ended.expect("an end").len(), 1);

    let events = loop {
        heir.take_over().await.expect("a look");
        let events = heir.claim(&Claim::new(10)).await.expect("a claim").events;
        if events.iter().any(|taken| taken.id == event.id) {
            break events;
        }
        tokio::task::yield_now().await;
    };
    assert!(events.iter().any(|taken| taken.lease.epoch == 2));
    while cut.owner() == before {
        // It may not have noticed yet.
        let _ = cut.take_over().await;
    }
    assert!(heir.lead().await.expect("a lead"));
    assert!(!cut.lead().await.expect("an answer"));
    let late = Settlement {
        lease: event.lease,
        tried: None,
        verdict: Verdict::Delivered { keep: false },
    };
    assert_eq!(
        cut.settle(&[late]).await.expect("an answer").lost,
        [event.lease]
    );
}

#[tokio::test]
async fn a_row_that_is_no_event_is_set_aside_and_blocks_nobody() {
    let bed = OnPostgres::new().await;
    let store = bed.relay().await;
    bed.enqueue(&vec![message(); 2])
        .await
        .expect("valid messages");
    let fresh = bed.fresh();
    let odd =
        fresh.sql("insert into {outbox} (topic, payload, headers) values ('odd', '1', '[1]')");
    fresh.client.batch_execute(&odd).await.expect("a row");
    bed.enqueue(&[message()]).await.expect("a valid message");

    let claimed = store.claim(&Claim::new(10)).await.expect("a claim");
    assert_eq!(claimed.events.len(), 3);
    let (lease, why) = claimed.malformed[0].clone();
    let verdict = Verdict::Dead {
        reason: DeadReason::Malformed,
        error: why,
        letter: None,
    };
    let settled = store.settle(&[Settlement::new(lease, verdict)]).await;
    assert_eq!(settled.expect("a settlement").applied, 1);
    let record = store.show(lease.id).await.expect("a look").expect("a row");
    assert_eq!(record.status, Status::Dead);
    assert_eq!(record.dead_reason, Some(DeadReason::Malformed));
}

// F10: whatever ends a relay in between, there is never one without the other.
#[tokio::test]
async fn an_event_whose_letter_cannot_be_written_does_not_die() {
    let bed = OnPostgres::new().await;
    let store = bed.relay().await;
    bed.enqueue(&[message()]).await.expect("a valid message");
    let fresh = bed.fresh();
    let refuse = fresh.sql("alter table {outbox} add check (topic <> 'letters')");
    fresh.client.batch_execute(&refuse).await.expect("a check");
    let last = Claim {
        max_attempts: 1,
        dead_letters: Some("letters".to_owned()),
        ..Claim::new(1)
    };
    let event = store.claim(&last).await.expect("a claim").events.remove(0);
    let verdict = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "too odd".to_owned(),
        letter: Some("letters".to_owned()),
    };
    let lease = event.lease;
    let refused = store.settle(&[Settlement::new(lease, verdict)]).await;
    assert_eq!(refused.expect_err("a refusal").code(), "store.refused");
    let status = async || {
        store
            .show(event.id)
            .await
            .expect("a look")
            .expect("a row")
            .status
    };
    assert_eq!(status().await, Status::Processing);
    bed.pass(Duration::from_secs(3600)).await;
    let refused = store.claim(&last).await;
    assert_eq!(refused.expect_err("a refusal").code(), "store.refused");
    assert_eq!(status().await, Status::Processing);
}

// K6: whoever asks for too much does not hold up what relays count and clean.
#[tokio::test]
async fn counting_that_takes_too_long_is_given_up_and_everything_else_goes_on() {
    let bed = OnPostgres::new().await;
    let store = bed.relay().await;
    bed.enqueue(&[message()]).await.expect("a valid message");
    let fresh = bed.fresh();
    let mut other = connect(&fresh.url).await;
    let transaction = other.transaction().await.expect("a transaction");
    let lock = fresh.sql("lock table {outbox} in access exclusive mode");
    transaction.batch_execute(&lock).await.expect("a lock");
    let error = store.count(&Filter::default()).await;
    assert_eq!(error.expect_err("nothing").code(), "store.slow");
    // A job need not know how much there is to do.
    let act = Act {
        actor: "ann".to_owned(),
        why: "mended".to_owned(),
    };
    let redelivery = Redelivery {
        filter: Filter::default(),
        rate: None,
    };
    let job = store.start_job(&redelivery, &act).await.expect("a job");
    assert_eq!(job.total, 0);
    // And it takes as long as it takes to do what is not a question.
    let (stats, end) = tokio::join!(store.stats(), async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        transaction.rollback().await
    });
    end.expect("an end");
    assert_eq!(stats.expect("numbers").pending, 1);
}
