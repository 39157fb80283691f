//! What a database does to a relay costs no event anything that can be helped.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste::store::postgres::Postgres;
use posthaste::store::{Act, Filter, OnFailure, Ordering, Store};
use posthaste::{DeadReason, Status};
use posthaste_relay::sink::Outcome;
use posthaste_relay::{Relay, Retry};
use posthaste_testkit::file::FreshFile;
use posthaste_testkit::outbox::{Fresh, connect};
use posthaste_testkit::server::Proxy;

use crate::support::*;

/// A role that may do anything until it is locked out, and the outbox's address for it.
async fn role(fresh: &Fresh) -> (String, String) {
    let role = format!("relay_{}", uuid::Uuid::new_v4().simple());
    let make = format!("create role {role} superuser login password 'secret'");
    fresh.client.batch_execute(&make).await.unwrap();
    let (_, place) = fresh.url.rsplit_once('@').unwrap();
    let url = format!("postgres://{role}:secret@{place}");
    (role, url)
}

async fn lock_out(fresh: &Fresh, role: &str) {
    let lock_out = format!(
        "alter role {role} nologin;
         select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
    );
    fresh.client.batch_execute(&lock_out).await.unwrap();
}

// M9: a log-in that is refused, as with a new password, says nothing about what is to be settled.
#[tokio::test]
async fn a_relay_that_may_not_log_in_for_a_while_settles_all_that_it_delivered() {
    let mut fresh = Fresh::new().await;
    let (role, url) = role(&fresh).await;
    fresh.enqueue(&messages(300)).await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(500)).await;
        Outcome::Delivered
    });
    let store = Postgres::connect(&url, fresh.table.clone()).await.unwrap();
    let builder = Relay::builder(store).retry(Retry::Fixed { delay: MS(50) });
    let builder = builder.poll_interval(MS(50)).max_attempts(1);
    let relay = Running::start(builder.destination("slow", slow.clone()).build().unwrap());
    eventually("all are on their way", async || slow.seen().len() == 300).await;
    lock_out(&fresh, &role).await;
    slow.until_delivered(300).await;
    tokio::time::sleep(MS(1500)).await;
    let let_in = format!("alter role {role} login");
    fresh.client.batch_execute(&let_in).await.unwrap();
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    let ids: HashSet<_> = slow.seen().iter().map(|event| event.id).collect();
    assert_eq!(
        (slow.seen().len(), ids.len()),
        (300, 300),
        "none came twice"
    );
    assert_eq!(with_status(&store, Status::Delivered).await.len(), 300);
}

// M9
#[tokio::test]
async fn a_relay_that_is_cut_off_starts_nothing_that_others_may_have() {
    let mut fresh = Fresh::new().await;
    let (role, url) = role(&fresh).await;
    fresh.enqueue(&messages(40)).await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(300)).await;
        Outcome::Delivered
    });
    let store = Postgres::connect(&url, fresh.table.clone()).await.unwrap();
    let builder = Relay::builder(store).poll_interval(MS(50));
    let builder = builder.destination("w", slow.clone()).concurrency(1);
    let cut_off = Running::start(builder.build().unwrap());
    let store = fresh.store().await;
    eventually("it has all in hand, and is at work", async || {
        slow.delivered().len() > 1 && store.stats().await.unwrap().pending == 0
    })
    .await;
    lock_out(&fresh, &role).await;
    let willing = Witness::willing();
    let other = relay_to(&fresh, willing.clone()).await;
    until_settled(&store).await;
    // One who went on would have started others by then.
    tokio::time::sleep(MS(1000)).await;
    let theirs: HashSet<_> = willing.seen().iter().map(|event| event.id).collect();
    let both = slow
        .seen()
        .iter()
        .filter(|event| theirs.contains(&event.id))
        .count();
    // What was delivered but not settled, and what was under way.
    assert!(both <= 2, "{both} of {}", theirs.len());
    cut_off.stop().await;
    other.stop().await;
}

// M9: it says nothing about what is to be settled, either.
#[tokio::test]
async fn a_table_that_is_away_for_a_while_makes_nothing_be_delivered_twice() {
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(40)).await;
    let slow = Witness::new(|_| async {
        tokio::time::sleep(MS(500)).await;
        Outcome::Delivered
    });
    let relay = relay_to(&fresh, slow.clone()).await;
    eventually("all are on their way", async || slow.seen().len() == 40).await;
    let rename = fresh.sql("alter table {outbox} rename to elsewhere");
    fresh.client.batch_execute(&rename).await.unwrap();
    slow.until_delivered(40).await;
    tokio::time::sleep(MS(1500)).await;
    let schema = fresh.table.schema();
    let back = format!("alter table {schema}.elsewhere rename to outbox");
    fresh.client.batch_execute(&back).await.unwrap();
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!(slow.seen().len(), 40, "none came twice");
    assert_eq!(with_status(&store, Status::Delivered).await.len(), 40);
}

// M8: whatever code it refuses it with.
#[tokio::test]
async fn an_event_that_a_trigger_refuses_to_have_settled_holds_up_no_other() {
    let mut fresh = Fresh::new().await;
    let schema = fresh.table.schema();
    let picky = fresh.sql(&format!(
        "create function {schema}.picky() returns trigger language plpgsql as $$
         begin
           if new.topic = 'shop.bad.case.v1' then case new.attempts when 0 then null; end case; end if;
           if new.topic = 'shop.bad.rows.v1' then perform (select n from generate_series(1, 2) n); end if;
           if new.topic = 'shop.bad.code.v1' then raise 'an own code' using errcode = 'A0001'; end if;
           if new.topic = 'shop.bad.class.v1' then raise 'a trigger' using errcode = '39P01'; end if;
           -- Without it, it says that it has ended without one.
           if new.topic <> 'shop.bad.return.v1' then return new; end if;
         end $$;
         create trigger picky before update on {{outbox}} for each row
         when (new.lease_owner is null) execute function {schema}.picky()"
    ));
    fresh.client.batch_execute(&picky).await.unwrap();
    let bad = ["case", "rows", "code", "class", "return"];
    let mut all = messages(20);
    all.extend(bad.map(|name| message(&format!("shop.bad.{name}.v1"))));
    all.extend(messages(20));
    fresh.enqueue(&all).await;
    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(all.len()).await;
    let store = fresh.store().await;
    eventually("the others are settled", async || {
        with_status(&store, Status::Delivered).await.len() == 40
    })
    .await;
    relay.stop().await;
    let refused = with_status(&store, Status::Processing).await;
    assert_eq!(refused.len(), bad.len());
}

// M8: also if it says what SQLite says of a table that is away.
#[tokio::test]
async fn an_event_that_a_trigger_refuses_to_have_settled_holds_up_no_other_on_sqlite() {
    let file = FreshFile::new();
    let picky = file.sql(
        "create trigger picky before update on {outbox}
         when new.lease_owner is null and new.topic = 'shop.bad.event.v1'
         begin select raise(abort, 'no such customer'); end",
    );
    file.open().execute_batch(&picky).unwrap();
    let mut all = messages(20);
    all.push(message("shop.bad.event.v1"));
    all.extend(messages(20));
    file.enqueue(&all);
    let witness = Witness::willing();
    let builder = Relay::builder(file.store().await).poll_interval(MS(50));
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let relay = Running::start(relay);
    witness.until_delivered(all.len()).await;
    let store = file.store().await;
    eventually("the others are settled", async || {
        with_status(&store, Status::Delivered).await.len() == 40
    })
    .await;
    relay.stop().await;
    assert_eq!(with_status(&store, Status::Processing).await.len(), 1);
}

#[tokio::test]
async fn what_a_slow_claim_brings_is_delivered() {
    let mut fresh = Fresh::new().await;
    let (schema, slow) = (fresh.table.schema(), "perform pg_sleep(4); return new;");
    let slow = fresh.sql(&format!(
        "create function {schema}.slow() returns trigger language plpgsql as $$ begin {slow} end $$;
         create trigger slow before update on {{outbox}} for each row
         when (new.lease_epoch > old.lease_epoch) execute function {schema}.slow()"
    ));
    fresh.client.batch_execute(&slow).await.unwrap();
    fresh.enqueue(&messages(1)).await;
    let witness = Witness::willing();
    let builder = brisk(&fresh)
        .await
        .lease(MS(9000))
        .dispatch_timeout(MS(6000));
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    until_settled(&fresh.store().await).await;
    relay.stop().await;
    assert_eq!(witness.seen().len(), 1);
}

// F10
#[tokio::test]
async fn nothing_is_parked_whose_letter_is_refused() {
    let mut fresh = Fresh::new().await;
    let keyed = |topic: &str| message(topic).ordering_key("k");
    let ids = fresh
        .enqueue(&[
            keyed("shop.bad.event.v1"),
            keyed(TOPIC),
            message("shop.last.event.v1"),
        ])
        .await;
    let refuse = fresh.sql(
        "update {outbox} set status = 'dead', dead_at = now(), dead_reason = 'rejected' where topic = 'shop.bad.event.v1';
         alter table {outbox} add constraint no_letters check (topic <> 'letters')",
    );
    fresh.client.batch_execute(&refuse).await.unwrap();
    let witness = Witness::willing();
    let builder = brisk(&fresh).await.dead_letters("letters");
    let builder = builder.ordering(Ordering::Key(OnFailure::Park));
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    witness.until_delivered(1).await;
    tokio::time::sleep(MS(500)).await;
    assert_eq!(witness.seen()[0].id, ids[2].id);
    let store = fresh.store().await;
    assert_eq!(record(&store, ids[1].id).await.status, Status::Pending);
    let allow = fresh.sql("alter table {outbox} drop constraint no_letters");
    fresh.client.batch_execute(&allow).await.unwrap();
    witness.until_delivered(2).await;
    relay.stop().await;
    assert_eq!(witness.seen()[1].topic, "letters");
    let parked = record(&store, ids[1].id).await.dead_reason;
    assert_eq!(parked, Some(DeadReason::Parked));
}

// M8 F10
#[tokio::test]
async fn an_event_whose_letter_is_refused_holds_up_no_other() {
    let mut fresh = Fresh::new().await;
    let used_up = fresh.enqueue(&[message("shop.bad.used-up.v1")]).await[0];
    let sql = fresh.sql(
        "update {outbox} set attempts = 25;
         alter table {outbox} add check (topic <> 'letters')",
    );
    fresh.client.batch_execute(&sql).await.unwrap();
    fresh.enqueue(&messages(50)).await;
    let witness = Witness::new(|event| async move {
        match event.topic == TOPIC {
            true => Outcome::Delivered,
            false => Outcome::Reject("too odd".to_owned()),
        }
    });
    let builder = brisk(&fresh).await.dead_letters("letters");
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    witness.until_delivered(50).await;
    let store = fresh.store().await;
    eventually("its rejection", async || {
        witness.seen().iter().any(|event| event.id == used_up.id)
    })
    .await;
    assert_ne!(
        record(&store, used_up.id).await.status,
        Status::Dead,
        "it has no letter"
    );
    // It is put down, though it could not be settled.
    eventually("an empty hand", async || {
        view.look().is_some_and(|standing| standing.in_flight == 0)
    })
    .await;
    assert_eq!(
        view.look().unwrap().died,
        0,
        "nothing is told that is not so"
    );
    let allow = fresh.sql("alter table {outbox} drop constraint outbox_topic_check");
    fresh.client.batch_execute(&allow).await.unwrap();
    relay.stop().await;
}

// B16: the server has done what it was asked to, and the relay never heard of it.
#[tokio::test]
async fn deaths_are_counted_even_if_the_answer_got_lost() {
    const EVENTS: usize = 10;
    let mut fresh = Fresh::new().await;
    fresh.enqueue(&messages(EVENTS)).await;
    let (front, rest) = fresh.url.rsplit_once(':').unwrap();
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let (port, database) = rest.split_at(digits);
    let proxy = Arc::new(Proxy::start(port.parse().unwrap()).unwrap());
    let url = format!("{front}:{}{database}", proxy.port());
    let store = Postgres::connect(&url, fresh.table.clone()).await.unwrap();
    let between = proxy.clone();
    let witness = Witness::new(move |_| {
        // With one event in hand at most, the next answer is about this one: nearly always.
        between.lose_an_answer();
        async { Outcome::Reject("too odd".to_owned()) }
    });
    let builder = Relay::builder(store).poll_interval(MS(50));
    let builder = builder.in_flight(1).batch_size(1);
    let relay = builder.destination("w", witness.clone()).build().unwrap();
    let view = relay.view();
    let relay = Running::start(relay);
    let store = fresh.store().await;
    eventually("all are dead", async || {
        with_status(&store, Status::Dead).await.len() == EVENTS
    })
    .await;
    eventually("all deaths are told", async || {
        view.look()
            .is_some_and(|standing| standing.died == EVENTS as u64)
    })
    .await;
    proxy.heal();
    relay.stop().await;
}

// F6: in a database without an encoding.
#[tokio::test]
async fn rows_that_are_not_utf_8_are_set_aside_and_hold_up_no_other() {
    let server = posthaste_testkit::server::postgres_url();
    let client = connect(&server).await;
    let name = format!("ascii_{}", uuid::Uuid::new_v4().simple());
    let make = format!("create database {name} encoding 'SQL_ASCII' locale 'C' template template0");
    client.batch_execute(&make).await.unwrap();
    let (server, _) = server.rsplit_once('/').unwrap();
    let mut fresh = Fresh::at(&format!("{server}/{name}")).await;
    fresh.enqueue(&messages(5)).await;
    let odd = [
        "namespace",
        "topic",
        "aggregate_type",
        "aggregate_id",
        "event_type",
    ];
    let odd = odd
        .iter()
        .chain(&["ordering_key", "content_type", "dedupe_key"]);
    // As somebody would write it who has no encoding, either.
    let mut sql = "set client_encoding = 'SQL_ASCII';".to_owned();
    for column in odd.clone() {
        let insert = format!(
            "insert into {{outbox}} (topic, payload, aggregate_type, aggregate_id) values ('t', '1', 'Order', '1');
             update {{outbox}} set {column} = E'caf\\xe9' where sequence = (select max(sequence) from {{outbox}});"
        );
        sql += &fresh.sql(&insert);
    }
    let headers = "insert into {outbox} (topic, payload, headers) values ('t', '1', E'{\"a\": \"caf\\xe9\"}')";
    sql += &fresh.sql(headers);
    fresh.client.batch_execute(&sql).await.unwrap();
    let set = "set client_encoding = 'UTF8'";
    fresh.client.batch_execute(set).await.unwrap();
    fresh.enqueue(&messages(5)).await;

    let witness = Witness::willing();
    let relay = relay_to(&fresh, witness.clone()).await;
    witness.until_delivered(10).await;
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    assert_eq!(
        witness.seen().len(),
        10,
        "what is no event is not delivered"
    );
    let dead = with_status(&store, Status::Dead).await;
    assert_eq!(dead.len(), odd.count() + 1);
    assert!(
        dead.iter()
            .all(|record| record.dead_reason == Some(DeadReason::Malformed))
    );
    // What operators see of it is text.
    let groups = store.groups(&Filter::default(), 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 9);
    let ids: Vec<_> = dead.iter().map(|record| record.id).collect();
    let act = Act {
        actor: "ann".to_owned(),
        why: "a test".to_owned(),
    };
    assert_eq!(store.discard(&ids, &act).await.unwrap().len(), 9);
    let audit = store.audit_from(None, None, 100).await.unwrap();
    assert!(
        audit.iter().any(|entry| entry.topic.starts_with("caf")),
        "{audit:?}"
    );
    drop((store, fresh));
    let drop = format!("drop database {name} with (force)");
    client.batch_execute(&drop).await.unwrap();
}

// M9 M13: as does whoever has the table open in psql, and went to lunch.
#[tokio::test]
async fn a_row_that_somebody_has_locked_for_long_lets_no_other_lease_run_out() {
    let mut fresh = Fresh::new().await;
    let locked = fresh.enqueue(&messages(10)).await[4].id;
    let (go, witness) = Witness::held();
    let builder = brisk(&fresh).await.lease(MS(6000)).poll_interval(MS(50));
    let builder = builder.dispatch_timeout(MS(4000));
    let relay = Running::start(builder.destination("w", witness.clone()).build().unwrap());
    eventually("all are on their way", async || witness.seen().len() == 10).await;
    let mut other = connect(&fresh.url).await;
    let transaction = other.transaction().await.unwrap();
    let lock = fresh.sql("select from {outbox} where id = $1 for update");
    transaction.execute(&lock, &[&locked]).await.unwrap();
    go.send(true).unwrap();
    witness.until_delivered(10).await;
    tokio::time::sleep(MS(15_000)).await;
    transaction.rollback().await.unwrap();
    let store = fresh.store().await;
    until_settled(&store).await;
    relay.stop().await;
    let mut seen: Vec<_> = witness.seen().iter().map(|event| event.id).collect();
    // Its own lease could not be prolonged.
    seen.retain(|id| *id != locked);
    assert_eq!(seen.len(), 9, "none of the others was delivered again");
    let delivered = with_status(&store, Status::Delivered).await;
    assert_eq!(delivered.len(), 10);
}
