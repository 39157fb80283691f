//! What changes events: redeliver, discard, clean.

use posthaste::Status;
use posthaste::Status::{Dead, Delivered, Pending, Processing};
use posthaste::store::Store;
use posthaste_testkit::bed::{Bed, OnPostgres};

use crate::support::{
    Answer, HOUR, Place, Shop, all, bury, deliver, every_place, program, run, snapshot,
};

const UNCHANGED: [Status; 6] = [Delivered, Dead, Dead, Processing, Pending, Pending];

every_place! {
    a_sweep_that_nothing_narrows_down_is_refused
    without_a_terminal_nothing_is_done_unless_it_is_confirmed
    a_dry_run_says_what_would_be_touched_and_touches_nothing
    dead_events_come_back_by_filter
    every_dead_event_comes_back_if_so_told
    an_event_comes_back_by_its_id
    a_delivered_event_is_sent_again_only_if_so_told
    what_was_discarded_comes_back_only_if_it_is_named
    events_are_discarded_by_filter
    what_a_relay_holds_is_not_discarded
    doctor_does_not_mind_what_was_discarded
    who_did_it_and_why_is_written_down
    hostile_texts_change_nothing_else
    thousands_are_redelivered_each_once
    no_more_than_the_limit_is_touched
    cleaning_says_what_it_would_remove
    cleaning_removes_only_what_is_past_its_retention
    cleaning_removes_only_what_is_asked_for
    cleaning_keeps_what_the_configuration_keeps_unless_told_otherwise
}

// K6, B18
async fn a_sweep_that_nothing_narrows_down_is_refused(place: impl Place) {
    let shop = Shop::open(&place).await;
    for act in ["redeliver", "discard"] {
        for flags in [
            vec![],
            vec!["--topic", "*"],
            vec!["--topic", "?*"],
            vec!["--older-than", "0s"],
            vec!["--newer-than", "36500d"],
            vec!["--error", ""],
            vec!["--limit", "5"],
        ] {
            let arguments = [vec![act, "--yes"], flags].concat();
            let refused = run(&place, &arguments);
            assert_eq!(
                (refused.code, refused.out.as_str()),
                (2, ""),
                "{arguments:?}"
            );
            assert!(refused.err.contains("or add --all"), "{refused:?}");
        }
    }
    assert_eq!(shop.statuses().await, UNCHANGED);
}

// K6, B18
async fn without_a_terminal_nothing_is_done_unless_it_is_confirmed(place: impl Place) {
    let shop = Shop::open(&place).await;
    for arguments in [
        vec!["redeliver", "--all"],
        vec!["discard", "--topic", "shop.*"],
        vec!["clean", "--older-than", "0s"],
    ] {
        let refused = run(&place, &arguments);
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (2, ""),
            "{arguments:?}"
        );
        assert!(refused.err.contains("add --yes"), "{refused:?}");
    }
    assert_eq!(shop.statuses().await, UNCHANGED);
    let refused = run(&place, &["redeliver", "--reason", "rejected"]);
    let last = refused.err.lines().last().unwrap();
    snapshot("refused_without_terminal", last);
}

// K6, B18
async fn a_dry_run_says_what_would_be_touched_and_touches_nothing(place: impl Place) {
    let shop = Shop::open(&place).await;
    let told = run(&place, &["redeliver", "--topic", "shop.*", "--dry-run"]);
    snapshot("redeliver_dry_run", &told.whole());
    let json = run(&place, &["discard", "--all", "--dry-run", "--json"]).json();
    assert_eq!(
        (&json[0]["found"], &json[0]["done"]),
        (&4.into(), &0.into())
    );
    assert_eq!(json[0]["sample"].as_array().unwrap().len(), 4);
    assert_eq!(shop.statuses().await, UNCHANGED);
    assert!(shop.store.audit(None, 10).await.unwrap().is_empty());
}

// K6, B18, M15
async fn dead_events_come_back_by_filter(place: impl Place) {
    let shop = Shop::open(&place).await;
    let told = run(&place, &["redeliver", "--error", "timeout", "--yes"]);
    snapshot("redeliver", &told.whole());
    assert_eq!(
        shop.statuses().await,
        [Delivered, Dead, Pending, Processing, Pending, Pending]
    );
    let back = shop.store.show(shop.ids[2]).await.unwrap().unwrap();
    assert_eq!((back.attempts, back.dead_reason), (0, None));
}

// K6
async fn every_dead_event_comes_back_if_so_told(place: impl Place) {
    let shop = Shop::open(&place).await;
    let json = run(&place, &["redeliver", "--all", "--yes", "--json"]).json();
    snapshot("redeliver_json", &json[0].to_string());
    assert_eq!(
        shop.statuses().await,
        [Delivered, Pending, Pending, Processing, Pending, Pending]
    );
}

// K6, M15
async fn an_event_comes_back_by_its_id(place: impl Place) {
    let shop = Shop::open(&place).await;
    let (delivered, dead, leased, pending) = (shop.id(0), shop.id(1), shop.id(3), shop.id(5));
    let unknown = "00000000-0000-0000-0000-000000000001";
    let told = run(
        &place,
        &[
            "redeliver",
            "--yes",
            &delivered,
            &dead,
            &leased,
            &pending,
            unknown,
            &dead,
        ],
    );
    let line = "redelivered 1 event of";
    assert!(told.out.starts_with(line), "{told:?}");
    assert!(told.out.contains(
        "; 4 not eligible: only dead events are, or delivered ones with --status delivered"
    ));
    assert_eq!(
        shop.statuses().await,
        [Delivered, Pending, Dead, Processing, Pending, Pending]
    );
    let nothing = run(&place, &["redeliver", "--yes", unknown]);
    assert!(nothing.ok().starts_with("redelivered 0 events"));
}

// M15
async fn a_delivered_event_is_sent_again_only_if_so_told(place: impl Place) {
    let shop = Shop::open(&place).await;
    let told = run(
        &place,
        &["redeliver", &shop.id(0), "--status", "delivered", "--yes"],
    );
    assert!(told.ok().starts_with("redelivered 1 event"));
    let all = shop.all().await;
    assert_eq!((all.len(), all[0].status), (7, Delivered));
    assert_eq!(all[6].status, Pending);
    let content = shop.store.content(all[6].id).await.unwrap().unwrap();
    assert_eq!(content.headers["posthaste-redelivery-of"], shop.id(0));
}

// M15
async fn what_was_discarded_comes_back_only_if_it_is_named(place: impl Place) {
    let shop = Shop::open(&place).await;
    run(&place, &["discard", &shop.id(1), "--yes"]).ok();
    let json = run(
        &place,
        &["redeliver", "--topic", "*order*", "--yes", "--json"],
    )
    .json();
    assert_eq!(json[0]["done"], 1);
    assert_eq!(shop.statuses().await[1..3], [Dead, Pending]);
    let told = run(&place, &["redeliver", "--topic", "*order*", "--yes"]).ok();
    let expected = "; 1 discarded: name their ids, or add --reason discarded";
    assert!(told.trim_end().ends_with(expected), "{told}");
    let json = run(
        &place,
        &["redeliver", "--reason", "discarded", "--yes", "--json"],
    )
    .json();
    assert_eq!(json[0]["done"], 1);
    run(&place, &["discard", &shop.id(2), "--yes"]).ok();
    let json = run(&place, &["redeliver", &shop.id(2), "--yes", "--json"]).json();
    assert_eq!(json[0]["done"], 1);
}

// K6, M15
async fn events_are_discarded_by_filter(place: impl Place) {
    let shop = Shop::open(&place).await;
    let told = run(
        &place,
        &["discard", "--topic", "shop.*", "--status", "dead", "--yes"],
    );
    snapshot("discard", &told.whole());
    let json = run(
        &place,
        &["discard", "--topic", "hotel.*", "--yes", "--json"],
    )
    .json();
    assert_eq!(json[0]["done"], 1);
    assert_eq!(
        shop.statuses().await,
        [Delivered, Dead, Dead, Processing, Pending, Dead]
    );
    let discarded =
        |n: usize| run(&place, &["show", &shop.id(n), "--json"]).json()[0]["dead_reason"].clone();
    assert_eq!(
        [1, 2, 5].map(discarded),
        ["discarded"; 3].map(serde_json::Value::from)
    );
}

// M15
async fn what_a_relay_holds_is_not_discarded(place: impl Place) {
    let shop = Shop::open(&place).await;
    let json = run(
        &place,
        &[
            "discard",
            "--yes",
            "--json",
            &shop.id(3),
            &shop.id(0),
            &shop.id(5),
        ],
    )
    .json();
    let (done, not) = (&json[0]["done"], &json[0]["not_eligible"]);
    assert_eq!((done, not), (&1.into(), &2.into()));
    assert_eq!(
        shop.statuses().await,
        [Delivered, Dead, Dead, Processing, Pending, Dead]
    );
}

// M15
async fn who_did_it_and_why_is_written_down(place: impl Place) {
    let shop = Shop::open(&place).await;
    run(&place, &["redeliver", &shop.id(1), "--yes"]).ok();
    run(
        &place,
        &[
            "discard",
            &shop.id(1),
            "--yes",
            "--as",
            "o'Neill \"x\"",
            "--why",
            "100% sure; --",
        ],
    )
    .ok();
    let log = shop.store.audit(Some(shop.ids[1]), 10).await.unwrap();
    assert_eq!(
        (log[0].act.as_str(), log[0].actor.as_str()),
        ("discard", "o'Neill \"x\"")
    );
    assert_eq!(log[0].why, "100% sure; --");
    assert!(log[1].actor.starts_with("ann@"), "{log:?}");
    assert_eq!(log[1].why, "by hand");
}

// K6
async fn hostile_texts_change_nothing_else(place: impl Place) {
    let shop = Shop::open(&place).await;
    for text in ["'", "_", "' or 1=1 --", "\\", "[a-z]*"] {
        for act in ["redeliver", "discard"] {
            for flag in [
                "--topic",
                "--error",
                "--event-type",
                "--namespace",
                "--aggregate",
            ] {
                let json = run(&place, &[act, flag, text, "--yes", "--json"]).json();
                assert_eq!(json[0]["found"], 0, "{act} {flag} {text}");
            }
        }
    }
    assert_eq!(shop.statuses().await, UNCHANGED);
}

// K6, M15
async fn thousands_are_redelivered_each_once(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 1700).await;
    let told = run(
        &place,
        &[
            "redeliver",
            "--reason",
            "rejected",
            "--yes",
            "--why",
            "fixed",
        ],
    );
    assert!(told.out.starts_with("redelivered 1700 events"), "{told:?}");
    // No bar where nobody watches.
    assert_eq!(told.err, "");
    assert!(
        all(&store)
            .await
            .iter()
            .all(|record| record.status == Pending)
    );
    let log = store.audit(None, 10_000).await.unwrap();
    assert_eq!(log.len(), 1700);
    let mut events: Vec<_> = log.iter().map(|entry| entry.event_id).collect();
    events.sort();
    events.dedup();
    assert_eq!(events.len(), 1700);
}

// K6
async fn no_more_than_the_limit_is_touched(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 10).await;
    run(&place, &["redeliver", "--all", "--limit", "3", "--yes"]).ok();
    let statuses: Vec<Status> = all(&store)
        .await
        .iter()
        .map(|record| record.status)
        .collect();
    assert_eq!(statuses[..3], [Pending; 3]);
    assert_eq!(statuses[3..], [Dead; 7]);
}

async fn doctor_does_not_mind_what_was_discarded(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 2).await;
    let told = run(&place, &["doctor"]).ok();
    assert!(told.contains("0 stuck, 2 dead"), "{told}");
    run(&place, &["discard", "--reason", "rejected", "--yes"]).ok();
    let told = run(&place, &["doctor"]).ok();
    assert!(told.contains("0 stuck, 0 dead"), "{told}");
}

// B14
async fn cleaning_says_what_it_would_remove(place: impl Place) {
    let shop = Shop::open(&place).await;
    place.pass(10 * 24 * HOUR).await;
    let told = run(&place, &["clean", "--dry-run", "--dead-older-than", "9d"]);
    snapshot("clean_dry_run", &told.whole());
    let json = run(
        &place,
        &["clean", "--dry-run", "--older-than", "11d", "--json"],
    )
    .json();
    snapshot("clean_json", &json[0].to_string());
    assert_eq!(shop.statuses().await, UNCHANGED);
    let long = run(&place, &["clean", "--older-than", "99999w", "--yes"]);
    assert_eq!(long.code, 2);
}

// B14
async fn cleaning_removes_only_what_is_past_its_retention(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 1).await;
    let messages = vec![crate::support::message(crate::support::PAID); 2300];
    place.enqueue(&messages).await.unwrap();
    while deliver(&store).await > 0 {}
    place.pass(2 * HOUR).await;
    place.enqueue(&messages[..2]).await.unwrap();
    assert_eq!(deliver(&store).await, 2);
    let json = run(&place, &["clean", "--older-than", "1h", "--yes", "--json"]).json();
    assert_eq!(
        (&json[0]["delivered"], &json[0]["removed"]),
        (&2300.into(), &2300.into())
    );
    assert_eq!(all(&store).await.len(), 3);
    let log = store.audit(None, 1).await.unwrap();
    assert_eq!(
        (log[0].act.as_str(), log[0].event_id),
        ("clean", uuid::Uuid::nil())
    );
    assert!(
        log[0].why.contains("2300 delivered more than 1h ago"),
        "{}",
        log[0].why
    );
    let told = run(
        &place,
        &[
            "clean",
            "--older-than",
            "0s",
            "--dead-older-than",
            "1h",
            "--archive",
            "--yes",
        ],
    )
    .ok();
    assert!(told.starts_with("archived 3 from"), "{told}");
    assert_eq!(place.archive().await.len(), 3);
    assert!(all(&store).await.is_empty());
}

// B14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_that_cannot_be_counted_in_time_is_cleaned_all_the_same() {
    let place = OnPostgres::new().await;
    let store = place.relay().await;
    let messages = vec![crate::support::message(crate::support::PAID); 2300];
    place.enqueue(&messages).await.unwrap();
    while deliver(&store).await > 0 {}
    place.pass(2 * HOUR).await;
    // As slow as in an outbox of hundreds of millions: a count of our own is found before PostgreSQL's.
    let fresh = place.fresh();
    let schema = fresh.table.schema();
    let slow = format!(
        "create function {schema}.nap(bigint) returns bigint language sql as $$
           select case when strpos(current_query(), 'last_error') > 0 then (select $1 from pg_sleep(60)) else $1 + 1 end
         $$;
         create aggregate {schema}.count(*) (sfunc = {schema}.nap, stype = bigint, initcond = '0')"
    );
    fresh.client.batch_execute(&slow).await.unwrap();
    let path = format!("options=-c%20search_path%3D{schema},pg_catalog");
    let (database, table) = (format!("{}?{path}", fresh.url), fresh.table.to_string());
    let clean = |flags: &[&str]| {
        let place = ["--database", &database, "--table", &table];
        let mut command = program(&[&["clean", "--older-than", "1h"], flags, &place].concat());
        Answer::of(command.output().unwrap())
    };
    let dry = clean(&["--dry-run", "--dead-older-than", "1h"]).ok();
    assert!(
        dry.contains("at least 5 delivered more than 1h ago and at least 0 dead"),
        "{dry}"
    );
    assert_eq!(all(&store).await.len(), 2300);
    let json = clean(&["--yes", "--json"]).json();
    assert_eq!(
        (&json[0]["delivered"], &json[0]["at_least"]),
        (&5.into(), &true.into())
    );
    assert_eq!(json[0]["removed"], 2300);
    assert!(all(&store).await.is_empty());
    let log = store.audit(None, 1).await.unwrap();
    assert!(log[0].why.contains("at least 5 delivered"), "{log:?}");
}

// B14, K6
async fn cleaning_removes_only_what_is_asked_for(place: impl Place) {
    let store = place.relay().await;
    let tenant = uuid::Uuid::new_v4();
    let of = |topic: &str| crate::support::message(topic);
    let gone = vec![of("shop.cart.left.v1").tenant(tenant); 1200];
    place.enqueue(&gone).await.unwrap();
    place
        .enqueue(&vec![of("shop.cart.left.v1"); 3])
        .await
        .unwrap();
    place
        .enqueue(&[of(crate::support::PAID).tenant(tenant)])
        .await
        .unwrap();
    while deliver(&store).await > 0 {}
    bury(&store, 2).await;
    place.pass(2 * HOUR).await;
    place
        .enqueue(&[of("shop.cart.left.v1").tenant(tenant)])
        .await
        .unwrap();
    let tenant = tenant.to_string();
    let clean = |flags: &[&str]| run(&place, &[&["clean", "--older-than", "1h"], flags].concat());
    let which = ["--topic", "shop.cart.*", "--tenant", &tenant];

    let dry = clean(&[&which[..], &["--dry-run", "--json"]].concat()).json();
    let number = |json: &serde_json::Value, name: &str| json[name].as_u64().unwrap();
    assert_eq!(
        (number(&dry[0], "delivered"), number(&dry[0], "dead")),
        (1200, 0)
    );
    assert_eq!(dry[0]["sample"].as_array().unwrap().len(), 5);
    assert_eq!(dry[0]["sample"][0]["topic"], "shop.cart.left.v1");
    let told = clean(&[&which[..], &["--dry-run"]].concat()).ok();
    assert!(told.contains("… and 1195 more"), "{told}");
    assert!(
        told.contains("with topic \"shop.cart.*\", tenant"),
        "{told}"
    );
    assert_eq!(
        all(&store).await.len(),
        1200 + 3 + 1 + 2 + 1,
        "nothing is gone"
    );

    let done = clean(&[&which[..], &["--yes", "--json"]].concat()).json();
    assert_eq!(number(&done[0], "removed"), 1200);
    let left = all(&store).await;
    assert_eq!(left.len(), 7);
    assert_eq!(
        left.iter()
            .filter(|it| it.status == Status::Pending)
            .count(),
        1
    );
    let log = store.audit(None, 1).await.unwrap();
    assert_eq!(log[0].act, "clean");
    assert!(
        log[0].why.contains("shop.cart.*") && log[0].why.contains(&tenant),
        "{log:?}"
    );

    let refused = clean(&["--reason", "rejected", "--yes"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--dead-older-than"), "{refused:?}");
    let dead = [
        "--reason",
        "rejected",
        "--dead-older-than",
        "1h",
        "--archive",
        "--yes",
    ];
    assert!(clean(&dead).ok().starts_with("archived 2 from"));
    assert_eq!(
        (all(&store).await.len(), place.archive().await.len()),
        (5, 2)
    );
}

// B14
async fn cleaning_keeps_what_the_configuration_keeps_unless_told_otherwise(place: impl Place) {
    let shop = Shop::open(&place).await;
    place.pass(10 * 24 * HOUR).await;
    let folder = tempfile::tempdir().unwrap();
    let (database, table) = place.address();
    let clean = |settings: &str, flags: &[&str]| {
        let file = format!(
            "[database]\nurl = {database:?}\n[[outbox]]\ntable = {table:?}\n{settings}\n\
             [sink.log]\ntype = \"stdout\"\n"
        );
        std::fs::write(folder.path().join("posthaste.toml"), file).unwrap();
        let mut command = program(&[&["clean", "--json"], flags].concat());
        Answer::of(command.current_dir(folder.path()).output().unwrap())
    };
    let told = |answer: Answer| {
        let json = answer.json().remove(0);
        let number = |name: &str| json[name].as_u64().unwrap();
        let numbers = (number("delivered"), number("dead"), number("removed"));
        (numbers, json["archive"].as_bool().unwrap())
    };
    let orders = "profile = \"order-service\"";
    assert_eq!(told(clean(orders, &["--yes"])), ((0, 0, 0), false));
    let off = "clean.enabled = false\nclean.retention = \"1h\"";
    let refused = clean(off, &["--yes"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--older-than"), "{refused:?}");
    let off = "clean.enabled = false\nclean.dead_retention = \"1h\"";
    let flags = ["--older-than", "1h", "--reason", "rejected", "--yes"];
    let refused = clean(off, &flags);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--dead-older-than"), "{refused:?}");
    assert_eq!(shop.statuses().await, UNCHANGED);

    let archived = "clean.retention = \"9d\"\nclean.dead_retention = \"9d\"\nclean.archive = true";
    let dry = told(clean(archived, &["--dry-run"]));
    assert_eq!(dry, ((1, 2, 0), true));
    let flags = ["--dry-run", "--dead-older-than", "11d", "--archive=false"];
    assert_eq!(told(clean(archived, &flags)), ((1, 0, 0), false));
    let flags = ["--dry-run", "--older-than", "11d"];
    assert_eq!(told(clean(archived, &flags)), ((0, 2, 0), true));
    assert_eq!(told(clean(archived, &["--yes"])), ((1, 2, 3), true));
    assert_eq!(place.archive().await.len(), 3);
}
