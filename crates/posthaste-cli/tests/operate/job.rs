//! Redelivery at a rate: a job that is waited for, paused, resumed and cancelled.

use std::process::Stdio;
use std::time::{Duration, Instant};

use posthaste::Status::{Dead, Pending};
use posthaste::store::{JobState, Store};
use serde_json::Value;
use uuid::Uuid;

use crate::pty::Terminal;
use crate::support::{Answer, Place, Shop, all, at, bury, every_place, run};

every_place! {
    a_redelivery_at_a_rate_is_a_job_that_is_waited_for
    interrupted_it_pauses_and_says_how_to_go_on
    whoever_waits_for_a_job_is_told_that_somebody_cancelled_it
    the_answer_no_begins_no_job
    a_job_is_listed_paused_resumed_and_cancelled
    a_job_leaves_what_was_discarded_unless_it_is_named
    what_a_job_would_touch_is_told_and_what_cannot_be_is_refused
    a_job_with_an_id_of_the_callers_is_begun_once
}

// K6, B18
async fn a_redelivery_at_a_rate_is_a_job_that_is_waited_for(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 30).await;
    let table = place.address().1;
    let arguments = [
        "redeliver",
        "--all",
        "--rate",
        "1000",
        "--yes",
        "--why",
        "mended",
    ];
    let told = run(&place, &arguments);
    assert_eq!(told.ok(), format!("redelivered 30 events of {table}\n"));
    assert!(
        all(&store)
            .await
            .iter()
            .all(|record| record.status == Pending)
    );
    let jobs = store.jobs(10).await.unwrap();
    assert_eq!((jobs.len(), jobs[0].state), (1, JobState::Done));
    assert_eq!((jobs[0].rate, jobs[0].why.as_str()), (Some(1000), "mended"));
    assert!(jobs[0].actor.starts_with("ann@"));
    let log = store.audit(None, 100).await.unwrap();
    let acts = |act: &str| log.iter().filter(|entry| entry.act == act).count();
    assert_eq!((acts("start job"), acts("redeliver")), (1, 30));
}

// K6
async fn interrupted_it_pauses_and_says_how_to_go_on(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 40).await;
    let command = at(&place, &["redeliver", "--topic", "shop.*", "--rate", "8"]);
    let mut terminal = Terminal::open(&command);
    terminal.until("Redeliver 40 events of");
    terminal.until(", 8 a second? [y/N]");
    terminal.line("y");
    terminal.until("Ctrl-C pauses it");
    terminal.control('c');
    let (code, shown) = terminal.end();
    assert_eq!(code, 1, "{shown}");
    let job = store.jobs(1).await.unwrap().remove(0);
    assert_eq!(job.state, JobState::Paused);
    assert!(job.redelivered < 40, "{job:?}");
    let (_, rest) = shown.split_once("posthaste job resume ").expect(&shown);
    assert!(rest.starts_with(&job.id.to_string()), "{shown}");
    assert!(
        shown.contains(&format!("paused after {} of 40 events", job.redelivered)),
        "{shown}"
    );
    let dead =
        |records: &[posthaste::Record]| records.iter().filter(|it| it.status == Dead).count();
    assert_eq!(dead(&all(&store).await) as u64, 40 - job.redelivered);
    let id = job.id.to_string();
    let told = run(&place, &["job", "resume", &id]).ok();
    assert!(told.starts_with("redelivered 40 events of "), "{told}");
    assert_eq!(dead(&all(&store).await), 0);
}

async fn whoever_waits_for_a_job_is_told_that_somebody_cancelled_it(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 40).await;
    let arguments = ["redeliver", "--all", "--rate", "1", "--yes", "--json"];
    let waiting = at(&place, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let job = loop {
        if let Some(job) = store.jobs(1).await.unwrap().pop() {
            break job.id.to_string();
        }
        assert!(Instant::now() < deadline, "no job is begun");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    run(&place, &["job", "cancel", &job]).ok();
    let told = Answer::of(waiting.wait_with_output().unwrap());
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("cancelled after"), "{told:?}");
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(
        (&json["job"], &json["state"]),
        (&job.into(), &"cancelled".into())
    );
}

// K6, B18
async fn the_answer_no_begins_no_job(place: impl Place) {
    let shop = Shop::open(&place).await;
    let mut terminal = Terminal::open(&at(&place, &["redeliver", "--all", "--rate", "1"]));
    let shown = terminal.until("[y/N]");
    assert!(shown.contains("100% too odd"), "{shown}");
    terminal.line("n");
    assert_eq!(terminal.end().0, 1);
    let refused = run(&place, &["redeliver", "--all", "--rate", "1"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(shop.store.jobs(1).await.unwrap().is_empty());
}

// K6
async fn a_job_is_listed_paused_resumed_and_cancelled(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 3).await;
    assert_eq!(run(&place, &["job", "list", "--json"]).ok(), "");
    let begun = run(
        &place,
        &[
            "redeliver",
            "--all",
            "--rate",
            "1",
            "--detach",
            "--yes",
            "--json",
        ],
    )
    .json();
    let id = begun[0]["job"].as_str().unwrap().to_owned();
    assert_eq!(
        (&begun[0]["state"], &begun[0]["total"]),
        (&"running".into(), &3.into())
    );
    let act = |what: &str| run(&place, &["job", what, &id, "--why", "on second thought"]);
    assert_eq!(act("pause").ok(), "paused after 0 of 3 events\n");
    let listed: Vec<Value> = run(&place, &["job", "list", "--json"]).json();
    assert_eq!(
        (&listed[0]["job"], &listed[0]["state"]),
        (&id.as_str().into(), &"paused".into())
    );
    let resumed = run(&place, &["job", "resume", &id, "--detach"]).ok();
    assert!(resumed.contains("is left to relays"), "{resumed}");
    let shown = run(&place, &["job", "list"]).ok();
    let cells: Vec<&str> = shown.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(cells[..5], [&id, "running", "1/s", "0", "3"]);
    assert_eq!(act("cancel").ok(), "cancelled after 0 of 3 events\n");
    let late = act("pause");
    assert_eq!(late.code, 1);
    assert!(
        late.err.contains("the job is cancelled already"),
        "{late:?}"
    );
    let unknown = run(&place, &["job", "cancel", &Uuid::new_v4().to_string()]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("there is no such job"), "{unknown:?}");
    assert!(all(&store).await.iter().all(|record| record.status == Dead));
}

// M15
async fn a_job_leaves_what_was_discarded_unless_it_is_named(place: impl Place) {
    let shop = Shop::open(&place).await;
    run(&place, &["discard", &shop.id(1), "--yes"]).ok();
    let told = run(&place, &["redeliver", "--all", "--rate", "100", "--yes"]).ok();
    assert!(told.starts_with("redelivered 1 event of "), "{told}");
    assert_eq!(shop.statuses().await[1..3], [Dead, Pending]);
    let named = run(
        &place,
        &["redeliver", &shop.id(1), "--rate", "100", "--yes"],
    )
    .ok();
    assert!(named.starts_with("redelivered 1 event of "), "{named}");
    assert_eq!(shop.statuses().await[1], Pending);
}

// K6, B18
async fn what_a_job_would_touch_is_told_and_what_cannot_be_is_refused(place: impl Place) {
    let shop = Shop::open(&place).await;
    let would = run(
        &place,
        &["redeliver", "--topic", "shop.*", "--rate", "5", "--dry-run"],
    );
    let plain = run(&place, &["redeliver", "--topic", "shop.*", "--dry-run"]);
    assert_eq!(would.ok(), plain.ok());
    let none = run(
        &place,
        &[
            "redeliver",
            "--error",
            "nothing of it",
            "--rate",
            "5",
            "--yes",
        ],
    );
    assert!(none.ok().starts_with("redelivered 0 events of "));
    for refused in [
        vec!["redeliver", "--rate", "5", "--yes"],
        vec!["redeliver", "--all", "--rate", "0", "--yes"],
        vec!["redeliver", "--all", "--detach", "--limit", "1", "--yes"],
        vec!["redeliver", "--all", "--rate", "5", "--limit", "1", "--yes"],
    ] {
        assert_eq!(run(&place, &refused).code, 2, "{refused:?}");
    }
    assert!(shop.store.jobs(1).await.unwrap().is_empty());
}

// K6, B18
async fn a_job_with_an_id_of_the_callers_is_begun_once(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 5).await;
    let id = Uuid::new_v4();
    let (text, table) = (id.to_string(), place.address().1);
    let arguments = ["redeliver", "--topic", "shop.*", "--job", &text, "--yes"];
    let told = run(&place, &arguments);
    assert!(!told.err.contains("already"), "{told:?}");
    assert_eq!(told.ok(), format!("redelivered 5 events of {table}\n"));
    // A script that does not know whether it was done does it again: nothing is found any more, and all is well.
    let again = run(&place, &arguments);
    let there = format!("job {id} is there already: it is not begun again");
    assert!(again.err.contains(&there), "{again:?}");
    assert_eq!(again.ok(), format!("redelivered 5 events of {table}\n"));
    let other = run(&place, &["redeliver", "--all", "--job", &text, "--yes"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("is another one"), "{other:?}");
    let limited = run(
        &place,
        &["redeliver", "--all", "--job", &text, "--limit", "1"],
    );
    assert_eq!(limited.code, 2);
    assert_eq!(store.jobs(10).await.unwrap().len(), 1);
    let log = store.audit(None, 100).await.unwrap();
    assert_eq!(log.iter().filter(|it| it.act == "redeliver").count(), 5);
}
