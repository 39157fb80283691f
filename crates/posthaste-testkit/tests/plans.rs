//! The hot statements go along their indexes, whatever the statistics say and however much was
//! delivered. Asked of PostgreSQL with `explain (analyze, buffers)`; nothing is kept.
//!
//! Run it with `--nocapture` to see the figures.

mod explain;

use explain::{Plan, Session, array};
use posthaste_testkit::outbox::{Fresh, connect};
use uuid::Uuid;

const OWNER: Uuid = Uuid::from_u128(7);
const BATCH: usize = 1000;

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../posthaste/sql/postgres/", $name, ".sql"))
    };
}

/// A million delivered events, a thousand leased, a thousand dead and a hundred thousand
/// pending ones, half of them with one of five thousand keys. Never analyzed.
async fn fill(fresh: &Fresh) {
    let fill = "
        set synchronous_commit = off;
        alter table {outbox} set (autovacuum_enabled = off);
        insert into {outbox} (topic, payload, status, attempts, delivered_at, next_attempt_at)
        select 'shop.order.placed.v1', '{\"n\": 1}', 'delivered', 1, at, at
        from generate_series(1, 1000000) n, lateral (select now() - n * interval '1 s') as t (at);
        insert into {outbox} (topic, payload, status, attempts, lease_owner, lease_until, lease_epoch)
        select 'shop.order.placed.v1', '{\"n\": 1}', 'processing', 1,
               '00000000-0000-0000-0000-000000000007', now() + interval '1 h', 1
        from generate_series(1, 1000) n;
        insert into {outbox} (topic, payload, status, dead_at, dead_reason)
        select 'shop.order.placed.v1', '{\"n\": 1}', 'dead', now() - n * interval '1 s', 'rejected'
        from generate_series(1, 1000) n;
        insert into {outbox} (topic, payload, ordering_key)
        select 'shop.order.placed.v1', '{\"n\": 1}', case when n % 2 = 0 then (n % 5000)::text end
        from generate_series(1, 100000) n;";
    let sql = fresh.sql(fill);
    fresh
        .client
        .batch_execute(&sql)
        .await
        .expect("a full table");
}

async fn claims(fresh: &Fresh) -> Vec<(&'static str, Plan)> {
    let session = Session::new(fresh, sql!("session_claim")).await;
    let claim = format!(
        "{BATCH}, 60, '{OWNER}', 25, null, null, null, '{{}}', '-infinity', 0, '{{}}', 'shop.dead-letters.v1', 1000000000"
    );
    let keyed = format!("{claim}, {}, 'block', null", 4 * BATCH);
    // Those that the table is filled with have even numbers.
    let keys = array((0..BATCH / 5).map(|n| 2 * n));
    let of_keys = format!("{claim}, 5, 'block', {keys}");
    vec![
        ("claim", session.explain(sql!("claim"), &claim).await),
        (
            "claim_keyed",
            session.explain(sql!("claim_keyed"), &keyed).await,
        ),
        (
            "claim_keyed of some keys",
            session.explain(sql!("claim_keyed"), &of_keys).await,
        ),
    ]
}

async fn settlements(fresh: &Fresh) -> Vec<(&'static str, Plan)> {
    let session = Session::new(fresh, sql!("session_settle")).await;
    let leased = fresh.sql("select id from {outbox} where lease_owner is not null");
    let rows = fresh
        .client
        .query(&leased, &[])
        .await
        .expect("leased events");
    assert_eq!(rows.len(), BATCH);
    let ids = array(rows.iter().map(|row| row.get::<_, Uuid>(0)));
    let all = |value: &str| array(std::iter::repeat_n(value, BATCH));
    let leases = format!("{}, {ids}, {}", all(&OWNER.to_string()), all("1"));
    let ends = |verdict, reason, letter| {
        let values = [
            verdict,
            "60",
            reason,
            "no answer",
            letter,
            "a kind",
            "failed",
            "0.1",
            "there",
        ];
        format!("{leases}, {}, 'here (1)'", values.map(all).join(", "))
    };
    vec![
        ("deliver", session.explain(sql!("deliver"), &leases).await),
        (
            "deliver_again",
            session
                .explain(
                    sql!("deliver_again"),
                    &format!("{leases}, {}, {}, 'here (1)'", all("0.1"), all("there")),
                )
                .await,
        ),
        (
            "deliver_delete_again",
            session.explain(sql!("deliver_delete_again"), &leases).await,
        ),
        (
            "deliver_delete",
            session.explain(sql!("deliver_delete"), &leases).await,
        ),
        (
            "settle",
            session
                .explain(sql!("settle"), &ends("retry", "null", "null"))
                .await,
        ),
        (
            "settle with letters",
            session
                .explain(
                    sql!("settle"),
                    &ends("dead", "rejected", "shop.dead-letters.v1"),
                )
                .await,
        ),
        (
            "extend",
            session
                .explain(sql!("extend"), &format!("{leases}, 60"))
                .await,
        ),
    ]
}

async fn cleanings(fresh: &Fresh, mode: &str) -> Vec<(&'static str, Plan)> {
    let session = Session::new(
        fresh,
        &format!("set jit = off; set plan_cache_mode = {mode};"),
    )
    .await;
    let week = format!("604800, null, {BATCH}");
    let dead = format!("1e9, 60, {BATCH}");
    vec![
        ("clean", session.explain(sql!("clean"), &week).await),
        (
            "clean the dead",
            session.explain(sql!("clean"), &dead).await,
        ),
        (
            "clean_archive",
            session.explain(sql!("clean_archive"), &week).await,
        ),
    ]
}

async fn every_plan(fresh: &Fresh) -> Vec<(&'static str, Plan)> {
    let mut plans = claims(fresh).await;
    plans.extend(settlements(fresh).await);
    plans.extend(cleanings(fresh, "force_custom_plan").await);
    plans.extend(cleanings(fresh, "force_generic_plan").await);
    plans
}

// order-service-2.11, logistics-2.12, M7, M9, B14
#[tokio::test]
async fn hot_statements_touch_no_more_than_their_events() {
    let fresh = Fresh::new().await;
    fill(&fresh).await;
    for statistics in ["never analyzed", "analyzed"] {
        if statistics == "analyzed" {
            let analyze = fresh.sql("vacuum analyze {outbox}");
            fresh
                .client
                .batch_execute(&analyze)
                .await
                .expect("statistics");
        }
        for (name, plan) in every_plan(&fresh).await {
            let each = plan.buffers as f64 / plan.changed.max(1) as f64;
            println!(
                "{statistics}: {name}: {} events, {} buffers, {each:.1} each, {:.1} ms",
                plan.changed, plan.buffers, plan.milliseconds
            );
            plan.goes_along_indexes(name);
            // What dies is told with its history, and nothing else is looked up for that.
            match name {
                "claim" | "claim_keyed" | "claim_keyed of some keys" | "settle" => {
                    assert_eq!(plan.looks_at_attempts(), 0)
                }
                "settle with letters" => assert!(plan.looks_at_attempts() >= 900),
                _ => {}
            }
            assert!(
                plan.changed >= 900,
                "{statistics}: {name} did little: {}",
                plan.changed
            );
            assert!(
                each < 40.0,
                "{statistics}: {name} touches {each:.1} buffers for each event"
            );
        }
    }
    drop_schema(&fresh).await;
}

// M7: what was delivered stays in the way for as long as somebody can still see it as it was.
#[tokio::test]
async fn a_claim_that_goes_onward_is_not_slowed_by_dead_rows() {
    let fresh = Fresh::new().await;
    let fill = fresh.sql(
        "insert into {outbox} (topic, payload)
         select 'shop.order.placed.v1', '{\"n\": 1}' from generate_series(1, 50000)",
    );
    fresh
        .client
        .batch_execute(&fill)
        .await
        .expect("pending events");
    let reader = connect(&fresh.url).await;
    let look = fresh.sql("begin isolation level repeatable read; select count(*) from {outbox};");
    reader
        .batch_execute(&look)
        .await
        .expect("a long transaction");
    let deliver = fresh.sql(
        "update {outbox} set status = 'delivered', delivered_at = now()
         where sequence <= 40000 returning next_attempt_at::text, sequence",
    );
    let rows = fresh
        .client
        .query(&deliver, &[])
        .await
        .expect("delivered events");
    let last = rows
        .iter()
        .max_by_key(|row| row.get::<_, i64>(1))
        .expect("some");
    let (at, sequence): (String, i64) = (last.get(0), last.get(1));

    let session = Session::new(&fresh, sql!("session_claim")).await;
    let claim = |from: &str| {
        format!(
            "100, 60, '{OWNER}', 25, null, null, null, '{{}}', {from}, '{{}}', null, 1000000000"
        )
    };
    let onward = format!("'{at}', {sequence}");
    let onward = session.explain(sql!("claim"), &claim(&onward)).await;
    let oldest = session
        .explain(sql!("claim"), &claim("'-infinity', 0"))
        .await;
    for (name, plan) in [("oldest", &oldest), ("onward", &onward)] {
        println!(
            "100 events past 40,000 dead rows, {name}: {} buffers, {} to find them, {:.1} ms",
            plan.buffers,
            plan.buffers_of_index_scans(),
            plan.milliseconds
        );
        assert_eq!(plan.changed, 100);
    }
    assert!(oldest.buffers_of_index_scans() > 20 * onward.buffers_of_index_scans());
    reader.batch_execute("rollback").await.expect("an end");
    drop_schema(&fresh).await;
}

/// What an operator looks at, which is never all that was delivered.
async fn looks(fresh: &Fresh) -> Vec<(&'static str, &'static str, Plan)> {
    let session = Session::new(fresh, sql!("session_operate")).await;
    // The parameters of a filter, of which only the status is given.
    let only = |status: &str| {
        format!(
            "null, null, null, '{{{status}}}', null, null, {}",
            ["null"; 10].join(", ")
        )
    };
    let list = async |status| {
        session
            .explain(sql!("list"), &format!("{}, 100", only(status)))
            .await
    };
    let count = async |status| session.explain(sql!("count"), &only(status)).await;
    let mark = "now() - interval '10 s', 0, 100";
    vec![
        ("list the dead", "dead", list("dead").await),
        ("list the live", "due", list("pending,processing").await),
        ("list the leased", "due", list("processing").await),
        (
            "list what is not delivered",
            "due, dead",
            list("pending,processing,dead").await,
        ),
        ("count the dead", "dead", count("dead").await),
        ("count the pending", "due", count("pending").await),
        (
            "finished",
            "delivered, dead",
            session.explain(sql!("finished"), mark).await,
        ),
        (
            "latest",
            "delivered, dead",
            session.explain(sql!("latest"), "100").await,
        ),
        (
            "groups",
            "dead, dead",
            session
                .explain(
                    sql!("groups"),
                    &format!("{}, 100, 10, 100000", only("dead")),
                )
                .await,
        ),
    ]
}

/// What a dashboard asks for again and again, of events of any status and of none in particular.
async fn glances(fresh: &Fresh) -> Vec<(&'static str, Plan)> {
    let session = Session::new(fresh, sql!("session_operate")).await;
    let any = ["null"; 16].join(", ");
    let sparse = format!("null, '{{nothing}}', {}", ["null"; 14].join(", "));
    let of_status = |status: &str| {
        format!(
            "null, null, null, '{{{status}}}', {}",
            ["null"; 12].join(", ")
        )
    };
    let newest = async |filter: &str| {
        let values = format!("{filter}, 50, 'infinity', 0, 10000");
        session.explain(sql!("browse_newest"), &values).await
    };
    let oldest = format!("{any}, 50, '-infinity', 0, 10000");
    let oldest_sparse = format!("{sparse}, 50, '-infinity', 0, 10000");
    let later = format!("{any}, 50, now() - interval '3 days', 0, 10000");
    let schema = fresh.table.schema();
    let names = ["outbox", "outbox_due", "outbox_dead"].map(|name| format!("'{schema}.{name}'"));
    let names = names.join(", ");
    vec![
        ("the first page", newest(&any).await),
        ("a page of what is rare", newest(&sparse).await),
        (
            "the oldest",
            session.explain(sql!("browse_oldest"), &oldest).await,
        ),
        (
            "the oldest of what is rare",
            session.explain(sql!("browse_oldest"), &oldest_sparse).await,
        ),
        (
            "a page further on",
            session.explain(sql!("browse_newest"), &later).await,
        ),
        (
            "stats",
            session
                .explain(sql!("stats"), &format!("50000, {names}"))
                .await,
        ),
        (
            "the first page of the dead",
            newest(&of_status("dead")).await,
        ),
        (
            "the first page of the pending",
            newest(&of_status("pending")).await,
        ),
        (
            "health",
            session
                .explain(sql!("health"), &format!("'{schema}', 'outbox'"))
                .await,
        ),
        ("pauses", session.explain(sql!("pauses"), "").await),
        ("jobs", session.explain(sql!("jobs"), "50").await),
        (
            "history",
            session
                .explain(sql!("history"), &format!("'{OWNER}', 100"))
                .await,
        ),
        ("relays", session.explain(sql!("relays"), "1, 50000").await),
        (
            "blocked keys",
            session.explain(sql!("blocked"), "50, 5000, 10000").await,
        ),
        (
            "the audit log",
            session.explain(sql!("audit"), "null, 100, null, 0").await,
        ),
        (
            "the audit log, further back",
            session
                .explain(sql!("audit"), "null, 100, now() - interval '1 day', 3")
                .await,
        ),
        (
            "groups",
            session
                .explain(sql!("groups"), &format!("{any}, 100, 10, 1000"))
                .await,
        ),
    ]
}

// B16, F7: whatever the size of the outbox, and however much waits.
#[tokio::test]
async fn what_a_dashboard_asks_for_is_bounded() {
    let fresh = Fresh::new().await;
    fill(&fresh).await;
    // A redelivery writes down each event.
    let acts = fresh.sql(
        "insert into {outbox:audit} (at, actor, act, event_id, topic, why)
         select now() - interval '10 s' * n, 'ada', 'redeliver', gen_random_uuid(), 'shop.order.placed.v1', 'fixed'
         from generate_series(1, 300000) n",
    );
    fresh.client.batch_execute(&acts).await.expect("acts");
    let analyze = fresh.sql("vacuum analyze {outbox}, {outbox:audit}");
    fresh
        .client
        .batch_execute(&analyze)
        .await
        .expect("statistics");
    for (name, plan) in glances(&fresh).await {
        println!(
            "{name}: {} buffers, {:.1} ms",
            plan.buffers, plan.milliseconds
        );
        plan.never_reads_the_whole_table(name);
        let most = match name {
            // Fifty events, and the way to them.
            name if name.starts_with("the first page") => 100,
            "the oldest" | "a page further on" => 100,
            name if name.starts_with("the audit log") => 100,
            // What is looked at is bounded.
            _ => 30_000,
        };
        assert!(plan.buffers < most, "{name} reads {} buffers", plan.buffers);
    }
    drop_schema(&fresh).await;
}

// K6
#[tokio::test]
async fn what_an_operator_looks_at_does_not_cost_what_was_delivered() {
    let fresh = Fresh::new().await;
    fill(&fresh).await;
    let analyze = fresh.sql("vacuum analyze {outbox}");
    fresh
        .client
        .batch_execute(&analyze)
        .await
        .expect("statistics");
    let pages = fresh.sql("select pg_relation_size('{outbox}') / 8192");
    let pages: i64 = fresh
        .client
        .query_one(&pages, &[])
        .await
        .expect("a size")
        .get(0);
    for (name, indexes, plan) in looks(&fresh).await {
        println!(
            "{name}: by {}, {} of {pages} buffers, {:.1} ms",
            plan.indexes().join(", "),
            plan.buffers,
            plan.milliseconds
        );
        let expected: Vec<String> = indexes
            .split(", ")
            .map(|index| format!("outbox_{index}"))
            .collect();
        assert_eq!(plan.indexes(), expected, "{name}");
        // A tenth of the events is live or dead.
        assert!(
            (plan.buffers as i64) < pages / 5,
            "{name} reads {} buffers",
            plan.buffers
        );
    }
    drop_schema(&fresh).await;
}

/// These outboxes are large: they do not wait for the end of the server.
async fn drop_schema(fresh: &Fresh) {
    let drop = format!("drop schema \"{}\" cascade", fresh.table.schema());
    fresh.client.batch_execute(&drop).await.expect("an end");
}
