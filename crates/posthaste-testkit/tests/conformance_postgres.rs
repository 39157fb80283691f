//! The store on PostgreSQL does what every store does, and what only PostgreSQL can be asked.

use std::task::Poll;
use std::time::{Duration, Instant};

use posthaste::store::postgres::Postgres;
use posthaste::store::{
    Act, Claim, Filter, JobState, Malformed, OnFailure, Ordering, Reach, Redelivery, Settlement,
    Verdict,
};
use posthaste::{DeadReason, Event, Message, Status, Store, schema};
use posthaste_testkit::bed::{Bed, OnPostgres};
use posthaste_testkit::outbox::{Fresh, connect};
use uuid::Uuid;

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
    let Malformed { lease, died, error } = claimed.malformed[0].clone();
    assert_eq!((died.id, &*died.topic, died.attempts), (lease.id, "odd", 1));
    let verdict = Verdict::Dead {
        reason: died.reason,
        error,
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

/// Tries until it is so.
async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !look().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// F9: however long the line, whoever is well does not wait for a look along it again and again.
#[tokio::test]
async fn events_of_a_destination_that_is_down_are_passed_once_and_not_by_every_look() {
    const LINE: i64 = 5000;
    for ordering in [Ordering::None, Ordering::Key(OnFailure::Block)] {
        let bed = OnPostgres::new().await;
        let fresh = bed.fresh();
        let name = format!("counted-{}", Uuid::new_v4().simple());
        let separator = if fresh.url.contains('?') { '&' } else { '?' };
        let address = format!("{}{separator}application_name={name}", fresh.url);
        let store = Postgres::connect(&address, fresh.table.clone()).await;
        let store = store.expect("a store");
        let fill = fresh.sql(
            "insert into {outbox} (topic, payload, next_attempt_at)
             select 'down', '1', now() - interval '1 minute' from generate_series(1, $1::bigint)",
        );
        fresh.client.execute(&fill, &[&LINE]).await.expect("a line");
        for look in 0..20 {
            let claim = Claim {
                reach: if look == 0 {
                    Reach::Oldest
                } else {
                    Reach::Onward
                },
                except_topics: vec!["down".to_owned()],
                ordering,
                ..Claim::new(10)
            };
            let claimed = store.claim(&claim).await.expect("a claim");
            assert!(claimed.events.is_empty() && !claimed.more);
        }
        // What is new is found all the same.
        let onward = Claim {
            reach: Reach::Onward,
            except_topics: vec!["down".to_owned()],
            ordering,
            ..Claim::new(10)
        };
        bed.enqueue(&[message()]).await.expect("a valid message");
        let claimed = store.claim(&onward).await.expect("a claim");
        assert_eq!(claimed.events.len(), 1);
        drop(store);
        // A session tells what it did when it ends.
        let sessions = "select 1 from pg_stat_activity where application_name = $1";
        eventually("the end of its sessions", async || {
            let sessions = fresh.client.query(sessions, &[&name]).await;
            sessions.expect("sessions").is_empty()
        })
        .await;
        let passed = "select idx_tup_fetch from pg_stat_all_tables where schemaname = $1 and relname = 'outbox'";
        let schema = fresh.table.schema();
        let row = fresh.client.query_one(passed, &[&schema]).await;
        let passed: i64 = row.expect("statistics").get(0);
        assert!(passed >= LINE, "{ordering:?}: {passed} are not even told");
        assert!(
            passed < 3 * LINE,
            "{ordering:?}: {passed} events were passed"
        );
    }
}

// F9: what a claim passes without being able to lease it is left to whoever has it, and nothing else is.
#[tokio::test]
async fn a_key_whose_first_event_somebody_else_has_locked_costs_no_other_event_a_look() {
    // As many as it takes to lock all, part and none of what follows; and with more than one claim looks at.
    for (limit, others) in [(10, 25), (3, 25), (10, 150)] {
        let bed = OnPostgres::new().await;
        let fresh = bed.fresh();
        let mut messages = vec![message().ordering_key("a"); 5];
        messages.extend(vec![message(); others]);
        let receipts = bed.enqueue(&messages).await.expect("valid messages");
        let mut other = connect(&fresh.url).await;
        let transaction = other.transaction().await.expect("a transaction");
        let lock = fresh.sql("select 1 from {outbox} where id = $1 for update");
        let locked = transaction.query(&lock, &[&receipts[0].id]).await;
        assert_eq!(locked.expect("a lock").len(), 1);
        let store = bed.relay().await;
        let mut claim = Claim {
            ordering: Ordering::Key(OnFailure::Block),
            ..Claim::new(limit)
        };
        let mut found = Vec::new();
        loop {
            let claimed = store.claim(&claim).await.expect("a claim");
            found.extend(claimed.events.iter().map(|event| event.id));
            if !claimed.more {
                break;
            }
            claim.reach = Reach::Onward;
        }
        let expected = receipts[5..].iter().map(|receipt| receipt.id);
        assert!(found.into_iter().eq(expected), "{limit} of {others}");
        transaction.rollback().await.expect("an end");
    }
}

#[tokio::test]
async fn keys_whose_first_events_somebody_else_has_locked_are_not_asked_for_again_at_once() {
    let bed = OnPostgres::new().await;
    let fresh = bed.fresh();
    for key in ["a", "b"] {
        let messages = vec![message().ordering_key(key); 5];
        bed.enqueue(&messages).await.expect("valid messages");
    }
    let mut other = connect(&fresh.url).await;
    let transaction = other.transaction().await.expect("a transaction");
    let lock = fresh.sql(
        "select 1 from {outbox}
         where sequence in (select min(sequence) from {outbox} group by ordering_key) for update",
    );
    let locked = transaction.query(&lock, &[]).await;
    assert_eq!(locked.expect("locks").len(), 2);
    let store = bed.relay().await;
    let claim = Claim {
        ordering: Ordering::Key(OnFailure::Block),
        keys: vec!["a".to_owned(), "b".to_owned()],
        ..Claim::new(3)
    };
    let claimed = store.claim(&claim).await.expect("a claim");
    assert!(claimed.events.is_empty() && !claimed.more, "{claimed:?}");
    transaction.rollback().await.expect("an end");
    let claimed = store.claim(&claim).await.expect("a claim");
    assert!(claimed.events.len() == 3 && claimed.more, "{claimed:?}");
}

// As a database without an encoding may hold it.
#[tokio::test]
async fn a_key_that_is_not_text_hides_no_other_that_waits() {
    let server = posthaste_testkit::server::postgres_url();
    let client = connect(&server).await;
    let name = format!("ascii_{}", Uuid::new_v4().simple());
    let make = format!("create database {name} encoding 'SQL_ASCII' locale 'C' template template0");
    client.batch_execute(&make).await.expect("a database");
    let (server, _) = server.rsplit_once('/').expect("a database in the address");
    let fresh = Fresh::at(&format!("{server}/{name}")).await;
    let one_of_each = fresh.sql(
        "set client_encoding = 'SQL_ASCII';
         insert into {outbox} (topic, payload, ordering_key) values ('t', '1', 'a'), ('t', '1', E'caf\\xe9')",
    );
    let insert = async || fresh.client.batch_execute(&one_of_each).await;
    insert().await.expect("heads");
    let store = fresh.store().await;
    let claim = Claim {
        ordering: Ordering::Key(OnFailure::Block),
        ..Claim::new(10)
    };
    let heads = store.claim(&claim).await.expect("a claim");
    assert_eq!((heads.events.len(), heads.malformed.len()), (1, 1));
    insert().await.expect("followers");
    let waiting = store.claim(&claim).await.expect("a claim").waiting;
    assert!(waiting.contains(&"a".to_owned()), "{waiting:?}");
    drop((store, fresh));
    let drop = format!("drop database {name} with (force)");
    client.batch_execute(&drop).await.expect("an end");
}

// N4: what is only tidied up holds up nothing.
#[tokio::test]
async fn a_relay_that_is_gone_is_seen_while_others_cannot_be_forgotten() {
    let bed = OnPostgres::new().await;
    let fresh = bed.fresh();
    let heir = bed.relay().await;
    let (one, other) = (bed.relay().await, bed.relay().await);
    for relay in [&one, &other, &heir] {
        assert_eq!(relay.take_over().await.expect("a look"), 0);
    }
    bed.kill(one);
    eventually("the end of one", async || {
        heir.take_over().await.expect("a look") == 1
    })
    .await;
    let mut client = connect(&fresh.url).await;
    let transaction = client.transaction().await.expect("a transaction");
    let lock = fresh.sql("lock table {outbox} in access exclusive mode");
    transaction.batch_execute(&lock).await.expect("a lock");
    // One is known to be gone, and now it is to be forgotten.
    assert_eq!(heir.take_over().await.expect("a look"), 0);
    bed.kill(other);
    eventually("the end of the other", async || {
        heir.take_over().await.expect("a look") == 1
    })
    .await;
    assert!(heir.pauses().await.expect("an answer").is_empty());
    transaction.rollback().await.expect("an end");
    let known = fresh.sql("select 1 from {outbox:relay} where owner <> $1");
    let others = heir.owner();
    eventually("both to be forgotten", async || {
        heir.take_over().await.expect("a look");
        let known = fresh.client.query(&known, &[&others]).await;
        known.expect("relays").is_empty()
    })
    .await;
}

// M16, N4: it was about to come back under another name when it was told to stop.
#[tokio::test]
async fn a_relay_that_leaves_while_it_registers_is_gone_all_the_same() {
    let bed = OnPostgres::new().await;
    let fresh = bed.fresh();
    let (one, other) = (bed.relay().await, bed.relay().await);
    bed.enqueue(&[message()]).await.expect("a valid message");
    let claim = Claim {
        lease: Duration::from_secs(36_000),
        ..Claim::new(1)
    };
    assert_eq!(one.claim(&claim).await.expect("a claim").events.len(), 1);
    // One that is given up makes it change its name.
    {
        let mut asking = one.claim(&claim);
        std::future::poll_fn(|context| {
            let _ = asking.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
    }
    let mut client = connect(&fresh.url).await;
    let transaction = client.transaction().await.expect("a transaction");
    let lock = fresh.sql("lock table {outbox:relay} in exclusive mode");
    transaction.batch_execute(&lock).await.expect("a lock");
    {
        let mut asking = one.claim(&claim);
        let waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '-- register:%' and query like '%' || $1 || '%'";
        let registers = eventually("it to register", async || {
            let waits = fresh.client.query(waiting, &[&fresh.table.schema()]).await;
            !waits.expect("sessions").is_empty()
        });
        tokio::select! {
            _ = &mut asking => panic!("it was let in"),
            () = registers => {}
        }
    }
    transaction.rollback().await.expect("an end");
    one.leave().await.expect("an end");
    eventually("what it held", async || {
        other.take_over().await.expect("a look");
        let claimed = other.claim(&claim).await.expect("a claim");
        !claimed.events.is_empty()
    })
    .await;
    drop(one);
}

#[tokio::test]
async fn a_job_goes_on_after_the_clock_was_set_back() {
    let bed = OnPostgres::new().await;
    let store = bed.relay().await;
    bed.enqueue(&[message()]).await.expect("a valid message");
    let event = store.claim(&Claim::new(1)).await.expect("a claim");
    let verdict = Verdict::Dead {
        reason: DeadReason::Rejected,
        error: "too odd".to_owned(),
        letter: None,
    };
    let dead = Settlement::new(event.events[0].lease, verdict);
    store.settle(&[dead]).await.expect("a settlement");
    let act = Act {
        actor: "ann".to_owned(),
        why: "mended".to_owned(),
    };
    let redelivery = Redelivery {
        filter: Filter::default(),
        rate: Some(1000),
    };
    let job = store.start_job(&redelivery, &act).await.expect("a job").id;
    let fresh = bed.fresh();
    let ahead =
        fresh.sql("update {outbox:jobs} set spent_at = clock_timestamp() + interval '1 hour'");
    fresh.client.batch_execute(&ahead).await.expect("a clock");
    eventually("the job to be done", async || {
        store.advance(job, 10).await.expect("a step");
        let job = store.job(job).await.expect("a look").expect("a job");
        job.redelivered == 1 && job.state != JobState::Cancelled
    })
    .await;
}

// M15: an operator may be giving up an event at the very moment at which a job comes to it.
#[tokio::test]
async fn a_job_leaves_alone_what_is_given_up_while_it_waits_for_it() {
    let bed = OnPostgres::new().await;
    let store = bed.relay().await;
    bed.enqueue(&[message(), message()])
        .await
        .expect("valid messages");
    for event in store.claim(&Claim::new(2)).await.expect("a claim").events {
        let verdict = Verdict::Dead {
            reason: DeadReason::Rejected,
            error: "too odd".to_owned(),
            letter: None,
        };
        let dead = Settlement::new(event.lease, verdict);
        store.settle(&[dead]).await.expect("a settlement");
    }
    let act = Act {
        actor: "ann".to_owned(),
        why: "mended".to_owned(),
    };
    let redelivery = Redelivery {
        filter: Filter {
            reason: Some(DeadReason::Rejected),
            ..Filter::default()
        },
        rate: None,
    };
    let job = store.start_job(&redelivery, &act).await.expect("a job").id;
    let fresh = bed.fresh();
    let mut other = connect(&fresh.url).await;
    let transaction = other.transaction().await.expect("a transaction");
    let give_up =
        fresh.sql("update {outbox} set dead_reason = 'discarded' where sequence = 1 returning id");
    let row = transaction.query_one(&give_up, &[]).await;
    let given_up: Uuid = row.expect("an event").get(0);
    let waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '-- advance:%' and query like '%' || $1 || '%'";
    let gives_up = async {
        eventually("it to wait", async || {
            let waits = fresh.client.query(waiting, &[&fresh.table.schema()]).await;
            !waits.expect("sessions").is_empty()
        })
        .await;
        transaction.commit().await.expect("a commit");
    };
    let (advanced, ()) = tokio::join!(store.advance(job, 10), gives_up);
    let job = advanced.expect("a step").expect("a job");
    assert_eq!(job.redelivered, 1);
    let record = store.show(given_up).await.expect("a look").expect("a row");
    assert_eq!(record.dead_reason, Some(DeadReason::Discarded));
}

// Many databases are set up so. What relays race for is decided by row locks, not by retries.
#[tokio::test]
async fn relays_share_an_outbox_whatever_isolation_its_database_prefers() {
    for isolation in ["repeatable read", "serializable"] {
        let url = posthaste_testkit::server::postgres_url();
        let separator = if url.contains('?') { '&' } else { '?' };
        let default = format!(
            "{url}{separator}options=-c%20default_transaction_isolation%3D{}",
            isolation.replace(' ', "%5C%20")
        );
        let mut fresh = Fresh::at(&default).await;
        let row = fresh
            .client
            .query_one("show default_transaction_isolation", &[]);
        let preferred: String = row.await.expect("a setting").get(0);
        assert_eq!(preferred, isolation);
        fresh.enqueue(&vec![message(); 1000]).await;
        let relay = async || {
            let store = fresh.store().await;
            let mut claimed = 0;
            loop {
                store.take_over().await.expect("a look");
                let events = store.claim(&Claim::new(5)).await.expect("a claim").events;
                if events.is_empty() {
                    return claimed;
                }
                claimed += events.len();
                let delivered = Verdict::Delivered { keep: false };
                let settle = |event: &Event| Settlement::new(event.lease, delivered.clone());
                let settlements: Vec<Settlement> = events.iter().map(settle).collect();
                store.settle(&settlements).await.expect("a settlement");
            }
        };
        let claimed: [usize; 4] = tokio::join!(relay(), relay(), relay(), relay()).into();
        assert_eq!(claimed.iter().sum::<usize>(), 1000);
    }
}
