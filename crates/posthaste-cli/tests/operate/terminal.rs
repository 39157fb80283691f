//! What a person sees: questions, colours and bars, in a real terminal.

use std::process::Command;

use posthaste::Status;
use posthaste::Status::{Dead, Delivered, Pending};
use posthaste::store::{Act, Store};
use posthaste_testkit::bed::{Bed, OnPostgres};
use posthaste_testkit::server::Proxy;

use crate::pty::Terminal;
use crate::support::{
    PLACED, Place, Shop, all, at, bury, deliver, every_place, message, program, run,
};

every_place! {
    the_answer_no_changes_nothing
    no_answer_changes_nothing
    the_answer_yes_does_it
    what_somebody_else_redelivered_meanwhile_is_not_sent_twice
    cleaning_asks_too
    what_came_of_age_while_the_question_stood_is_not_cleaned
    a_terminal_is_not_flooded_with_what_was_enqueued
    a_terminal_gets_colours_and_a_pipe_does_not
    a_terminal_gets_a_table_with_near_times
    long_work_shows_a_bar
    watching_goes_on_until_it_is_interrupted
}

fn open(command: Command) -> Terminal {
    Terminal::open(&command)
}

fn end(terminal: Terminal) -> (i32, String) {
    terminal.end()
}

async fn dead<B: Bed>(shop: &Shop<B>) -> Vec<Status> {
    shop.statuses().await[1..3].to_vec()
}

// K6, B18
async fn the_answer_no_changes_nothing(place: impl Place) {
    let shop = Shop::open(&place).await;
    for answer in ["n", "", "no", "yess"] {
        let mut terminal = open(at(&place, &["redeliver", "--topic", "shop.*"]));
        let shown = terminal.until("[y/N]");
        assert!(
            shown.contains("100% too odd") && shown.contains("timeout"),
            "{shown}"
        );
        assert!(shown.contains("Redeliver 2 events of"), "{shown}");
        terminal.line(answer);
        let (code, rest) = end(terminal);
        assert_eq!(code, 1);
        assert!(rest.contains("nothing was changed"), "{rest}");
    }
    assert_eq!(dead(&shop).await, [Dead, Dead]);
}

// K6, B18
async fn no_answer_changes_nothing(place: impl Place) {
    let shop = Shop::open(&place).await;
    let mut terminal = open(at(&place, &["discard", &shop.id(5)]));
    terminal.until("[y/N]");
    terminal.control('d');
    assert_eq!(end(terminal).0, 1);
    assert_eq!(shop.statuses().await[5], Pending);
}

// K6, B18, M15
async fn the_answer_yes_does_it(place: impl Place) {
    let shop = Shop::open(&place).await;
    for (answer, reason, after) in [
        ("y", "rejected", [Pending, Dead]),
        ("YES", "exhausted", [Pending, Pending]),
    ] {
        let mut terminal = open(at(&place, &["redeliver", "--reason", reason]));
        terminal.until("Redeliver 1 event of");
        terminal.until("[y/N]");
        terminal.line(answer);
        let (code, rest) = end(terminal);
        assert_eq!(code, 0, "{rest}");
        assert!(rest.contains("redelivered 1 event"), "{rest}");
        assert_eq!(dead(&shop).await, after);
    }
}

// M15: while the question stood, another operator was faster, and the relay too.
async fn what_somebody_else_redelivered_meanwhile_is_not_sent_twice(place: impl Place) {
    let shop = Shop::open(&place).await;
    let mut terminal = open(at(&place, &["redeliver", "--all"]));
    terminal.until("[y/N]");
    let act = Act {
        actor: "bob".to_owned(),
        why: "faster".to_owned(),
    };
    shop.store.redeliver(&shop.ids[1..2], &act).await.unwrap();
    assert_eq!(deliver(&shop.store).await, 2);
    terminal.line("y");
    let (code, rest) = end(terminal);
    assert_eq!(code, 0);
    assert!(
        rest.contains("redelivered 1 event") && rest.contains("1 not eligible"),
        "{rest}"
    );
    assert_eq!(shop.all().await.len(), 6);
    assert_eq!(dead(&shop).await, [Delivered, Pending]);
}

// B14
async fn cleaning_asks_too(place: impl Place) {
    let shop = Shop::open(&place).await;
    for (answer, left) in [("n", 6), ("y", 5)] {
        let mut terminal = open(at(&place, &["clean", "--older-than", "0s"]));
        terminal.until("Remove 1 delivered more than 0s ago");
        terminal.until("[y/N]");
        terminal.line(answer);
        end(terminal);
        assert_eq!(shop.all().await.len(), left);
    }
}

// B14
async fn what_came_of_age_while_the_question_stood_is_not_cleaned(place: impl Place) {
    let shop = Shop::open(&place).await;
    let mut told = 1;
    let some = &["--topic", "*"][..];
    // What somebody else removed meanwhile makes no room for it, either.
    for (flags, elsewhere) in [(&[][..], false), (some, false), (&[], true), (some, true)] {
        let clean = [&["clean", "--older-than", "0s"], flags].concat();
        let mut terminal = open(at(&place, &clean));
        terminal.until(&format!("Remove {told} delivered more than 0s ago"));
        terminal.until("[y/N]");
        if elsewhere {
            let all = shop.all().await.into_iter();
            let delivered = all.filter(|it| it.status == Delivered).map(|it| it.id);
            let ids: Vec<_> = delivered.collect();
            shop.store.remove(&ids, false).await.unwrap();
        }
        place.enqueue(&vec![message(PLACED); 3]).await.unwrap();
        let late = deliver(&shop.store).await;
        terminal.line("y");
        let (code, rest) = end(terminal);
        assert_eq!(code, 0, "{rest}");
        let removed = if elsewhere { 0 } else { told };
        let line = format!("removed {removed} from");
        assert!(rest.contains(&line), "{rest}");
        let statuses = shop.statuses().await;
        let left = statuses.iter().filter(|it| **it == Delivered);
        assert_eq!(left.count(), late);
        told = late;
    }
}

async fn a_terminal_is_not_flooded_with_what_was_enqueued(place: impl Place) {
    let enqueue = ["enqueue", "shop.order.placed.v1", "--count", "100"];
    let (_, shown) = end(open(at(&place, &enqueue)));
    assert!(shown.contains("… and 90 more"), "{shown}");
    assert_eq!(run(&place, &enqueue).ok().lines().count(), 101);
}

async fn a_terminal_gets_colours_and_a_pipe_does_not(place: impl Place) {
    Shop::open(&place).await;
    const ESCAPE: char = '\u{1b}';
    assert!(end(open(at(&place, &["list"]))).1.contains(ESCAPE));
    assert!(!run(&place, &["list"]).ok().contains(ESCAPE));
    let with = |name: &str, value: &str| {
        let mut command = at(&place, &["list"]);
        command.env(name, value);
        command
    };
    assert!(!end(open(with("NO_COLOR", "1"))).1.contains(ESCAPE));
    let forced = with("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8(forced.stdout).unwrap().contains(ESCAPE));
    // And never in JSON.
    assert!(
        !end(open(at(&place, &["list", "--json"])))
            .1
            .contains(ESCAPE)
    );
}

async fn a_terminal_gets_a_table_with_near_times(place: impl Place) {
    let shop = Shop::open(&place).await;
    place.pass(crate::support::HOUR).await;
    let mut command = at(&place, &["dead"]);
    command.env("NO_COLOR", "1");
    let (code, shown) = end(open(command));
    assert_eq!(code, 0);
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines[0].starts_with("SEQUENCE  ID "), "{shown}");
    assert!(
        lines[1].contains(&shop.id(1)) && lines[1].contains("  1h ago  "),
        "{shown}"
    );
    let column = |line: &str, text: &str| line.find(text).expect(text);
    assert_eq!(column(lines[0], "REASON"), column(lines[1], "rejected"));
    assert_eq!(column(lines[0], "REASON"), column(lines[2], "exhausted"));
    let mut none = at(&place, &["dead", "--reason", "parked"]);
    none.env("NO_COLOR", "1");
    assert_eq!(end(open(none)).1.trim_end(), "none");
}

async fn long_work_shows_a_bar(place: impl Place) {
    let store = place.relay().await;
    bury(&store, 1200).await;
    let (code, shown) = end(open(at(&place, &["redeliver", "--all", "--yes"])));
    assert_eq!(code, 0);
    assert!(shown.contains("of 1,200"), "{shown}");
    assert!(shown.contains("redelivered 1200 events"), "{shown}");
    assert!(
        all(&store)
            .await
            .iter()
            .all(|record| record.status == Pending)
    );
}

async fn watching_goes_on_until_it_is_interrupted(place: impl Place) {
    Shop::open(&place).await;
    let mut terminal = open(at(&place, &["status", "--watch", "--every", "50ms"]));
    for _ in 0..3 {
        terminal.until("PROCESSING");
        // Every check, with what was found and what is expected.
        let shown = terminal.until("EXPECTED");
        assert!(shown.contains("FOUND"), "{shown}");
        let shown = terminal.until("leader");
        for (check, found) in [
            ("database", "answers"),
            ("lag", "at most"),
            ("stuck", "at most"),
        ] {
            assert!(shown.contains(check) && shown.contains(found), "{shown}");
        }
    }
    terminal.control('c');
    assert_eq!(end(terminal).0, 0);
}

// F8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_shows_that_the_database_goes_away_and_comes_back() {
    let place = OnPostgres::new().await;
    Shop::open(&place).await;
    let (database, table) = place.address();
    let (before, after) = database.rsplit_once('/').unwrap();
    let (host, port) = before.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    let proxy = Proxy::start(port).unwrap();
    let through = format!("{host}:{}/{after}", proxy.port());
    let mut command = program(&["status", "--watch", "--every", "50ms"]);
    command.args(["--database", &through, "--table", &table]);
    let mut terminal = open(command);
    terminal.until("answers");
    // Nobody listens there.
    proxy.lead_to(1);
    proxy.cut();
    terminal.until("does not answer");
    proxy.lead_to(port);
    terminal.until("answers");
    terminal.control('c');
    assert_eq!(end(terminal).0, 0);
}

// A person who cannot be asked is not assumed to agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_needs_both_its_ends_in_a_terminal() {
    let place = OnPostgres::new().await;
    let shop = Shop::open(&place).await;
    let (database, table) = place.address();
    let script = format!(
        "echo y | {} redeliver --all --database {database} --table {table}",
        env!("CARGO_BIN_EXE_posthaste")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let (code, shown) = end(open(command));
    assert_eq!(code, 2, "{shown}");
    assert!(shown.contains("add --yes"), "{shown}");
    assert_eq!(dead(&shop).await, [Dead, Dead]);
}
