//! What is followed, and what is put in by hand: tail, enqueue.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use posthaste::store::Store;
use posthaste_testkit::bed::OnPostgres;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Answer, BOOKED, PAID, PLACED, Place, Shop, all, at, bury, deliver, every_place, message, run,
    snapshot,
};

every_place! {
    the_last_to_end_are_told_first
    deliveries_are_followed_each_once
    following_ends_when_it_is_interrupted
    only_the_topics_that_are_wanted_are_followed
    an_event_is_enqueued_by_hand
    everything_about_an_event_can_be_given
    a_payload_is_read_from_standard_input
    many_events_are_enqueued_at_once
    what_is_no_message_is_refused
}

// K6
async fn the_last_to_end_are_told_first(place: impl Place) {
    let shop = Shop::open(&place).await;
    let took = |text: &str| {
        let words = text
            .split('\t')
            .map(|word| match word.strip_prefix("after ") {
                Some(_) => "after [time]",
                None => word,
            });
        words.collect::<Vec<_>>().join("\t")
    };
    snapshot("tail", &took(&run(&place, &["tail", "--for", "10ms"]).ok()));
    let json = run(&place, &["tail", "-n", "1", "--for", "10ms", "--json"]).json();
    assert_eq!(json.len(), 1);
    assert_eq!(json[0]["id"], shop.id(2));
    for nothing in [["-n", "0"].as_slice(), &["--from-now"]] {
        let out = run(&place, &[&["tail", "--for", "10ms"], nothing].concat()).ok();
        assert_eq!(out, "");
    }
}

/// The program as it runs, and the lines that it says.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        Self { child, lines }
    }

    fn next(&self) -> Value {
        let line = self
            .lines
            .recv_timeout(Duration::from_secs(30))
            .expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    /// Interrupts it as Ctrl-C does. Gives back its exit code, and what it had yet to say.
    fn interrupt(mut self) -> (Option<i32>, Vec<String>) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        (status.code(), self.lines.iter().collect())
    }
}

// K6
async fn deliveries_are_followed_each_once(place: impl Place) {
    let shop = Shop::open(&place).await;
    let following = Following::start(at(&place, &["tail", "-n", "1", "--json"]));
    assert_eq!(following.next()["id"], shop.id(2));
    let mut expected = BTreeSet::new();
    for _ in 0..5 {
        let receipts = place.enqueue(&vec![message(PAID); 300]).await.unwrap();
        expected.extend(receipts.iter().map(|receipt| receipt.id.to_string()));
        assert!(deliver(&shop.store).await >= 300);
    }
    // The one that was pending before.
    expected.insert(shop.id(5));
    let told: Vec<Value> = (0..expected.len()).map(|_| following.next()).collect();
    assert!(told.iter().all(|event| event["status"] == "delivered"));
    let ids = told
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned());
    assert_eq!(ids.collect::<BTreeSet<_>>(), expected);
    bury(&shop.store, 1).await;
    assert_eq!(following.next()["dead_reason"], "rejected");
    assert_eq!(following.interrupt(), (Some(0), Vec::new()));
}

// K6, N4: the sessions of the database end under it, as in a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_goes_on_when_the_database_is_back() {
    let place = OnPostgres::new().await;
    let shop = Shop::open(&place).await;
    let following = Following::start(at(&place, &["tail", "-n", "1", "--json"]));
    following.next();
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
               where application_name = 'posthaste' and query like '%finished%' and query like '%' || $1 || '%'";
    let schema = place.fresh().table.schema();
    let row = place
        .fresh()
        .client
        .query_one(cut, &[&schema])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
    assert_eq!(deliver(&shop.store).await, 1);
    assert_eq!(following.next()["id"], shop.id(5));
    assert_eq!(following.interrupt(), (Some(0), Vec::new()));
}

// K6
async fn following_ends_when_it_is_interrupted(place: impl Place) {
    Shop::open(&place).await;
    let following = Following::start(at(&place, &["tail", "--json"]));
    following.next();
    assert_eq!(following.interrupt().0, Some(0));
}

async fn only_the_topics_that_are_wanted_are_followed(place: impl Place) {
    let shop = Shop::open(&place).await;
    let json = run(
        &place,
        &["tail", "--topic", "*.paid.*", "--for", "10ms", "--json"],
    )
    .json();
    assert_eq!(json.len(), 1);
    assert_eq!(json[0]["id"], shop.id(2));
}

// P1
async fn an_event_is_enqueued_by_hand(place: impl Place) {
    let told = run(&place, &["enqueue", PLACED, r#"{"order": 42}"#]).ok();
    snapshot("enqueue", &told);
    let json = run(&place, &["enqueue", PLACED, "--dedupe-key", "k", "--json"]).json();
    assert_eq!(json[0]["new"], true);
    let again = run(&place, &["enqueue", PLACED, "--dedupe-key", "k", "--json"]).json();
    assert_eq!(
        (&again[0]["new"], &again[0]["id"]),
        (&false.into(), &json[0]["id"])
    );
    assert_eq!(all(&place.relay().await).await.len(), 2);
}

// P1
async fn everything_about_an_event_can_be_given(place: impl Place) {
    let id = "00000000-0000-0000-0000-000000000042";
    let tenant = "00000000-0000-0000-0000-000000000007";
    let key = format!("{tenant}/k");
    run(
        &place,
        &[
            "enqueue",
            BOOKED,
            "[1]",
            "--id",
            id,
            "--tenant",
            tenant,
            "--dedupe-key",
            &key,
            "--namespace",
            "hotel",
            "--key",
            "room 3",
            "--aggregate",
            "room/3/a",
            "--event-type",
            "Booked",
            "--header",
            "a=b=c",
            "--header",
            "d=",
            "--delay",
            "1h",
        ],
    )
    .ok();
    let json = run(&place, &["show", id, "--payload", "--json"])
        .json()
        .remove(0);
    for (field, value) in [
        ("tenant_id", tenant),
        ("dedupe_key", &key),
        ("namespace", "hotel"),
        ("ordering_key", "room 3"),
        ("aggregate_type", "room"),
        ("aggregate_id", "3/a"),
        ("event_type", "Booked"),
        ("topic", BOOKED),
    ] {
        assert_eq!(json[field], value, "{field}");
    }
    assert_eq!(json["headers"], serde_json::json!({"a": "b=c", "d": ""}));
    assert_eq!(json["payload"], serde_json::json!([1]));
    assert_eq!(deliver(&place.relay().await).await, 0);
}

// P1
async fn a_payload_is_read_from_standard_input(place: impl Place) {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut command = at(
        &place,
        &[
            "enqueue",
            PLACED,
            "-",
            "--content-type",
            "image/png",
            "--json",
        ],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let json = Answer::of(child.wait_with_output().unwrap()).json();
    let id = json[0]["id"].as_str().unwrap().parse().unwrap();
    let content = place.relay().await.content(id).await.unwrap().unwrap();
    assert_eq!(content.content_type, "image/png");
    assert_eq!(content.payload, bytes);
}

// P1
async fn many_events_are_enqueued_at_once(place: impl Place) {
    let json = run(&place, &["enqueue", PLACED, "--count", "2500", "--json"]).json();
    let ids: BTreeSet<&str> = json
        .iter()
        .map(|receipt| receipt["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2500);
    assert_eq!(all(&place.relay().await).await.len(), 2500);
}

// B10, M4
async fn what_is_no_message_is_refused(place: impl Place) {
    let tenant = "00000000-0000-0000-0000-000000000007";
    for (arguments, told) in [
        (vec!["Orders"], "or add --relaxed-topic"),
        (vec![PLACED, "{order: 42}"], "--content-type text/plain"),
        (
            vec![PLACED, "--tenant", tenant, "--dedupe-key", "k"],
            "dedupe_key must begin with",
        ),
        (vec![PLACED, "--aggregate", "order"], "--aggregate TYPE/ID"),
        (vec![PLACED, "--header", "x"], "NAME=VALUE"),
        (vec![PLACED, "--count", "0"], "--count"),
        (
            vec![PLACED, "--id", tenant, "--count", "2"],
            "cannot be used with",
        ),
        (vec![PLACED, "--delay", "soon"], "write it as 90s"),
    ] {
        let refused = run(&place, &[vec!["enqueue"], arguments].concat());
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(told), "{refused:?}");
    }
    assert!(all(&place.relay().await).await.is_empty());
    run(&place, &["enqueue", "Orders", "--relaxed-topic"]).ok();
}
