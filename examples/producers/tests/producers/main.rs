//! Producers in other languages, on a real PostgreSQL with a relay at work: each is told what a
//! producer in Rust is told, and leaves behind what that one leaves behind.
#![allow(missing_docs, clippy::unwrap_used, reason = "these are tests")]

mod guide;
mod reference;
mod show;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use posthaste_testkit::server::{Language, postgres_url};
use producers::{LANGUAGES, Ledger, Line, Mode, Outcome, Producer, Run, Shop, Totals, Way, races};

/// Everything that all producers do, which is done once for all tests.
struct Scene {
    runs: Vec<Run>,
    reference: Vec<(Way, Mode, Vec<Line>)>,
    /// What is in the outbox afterwards, by producer.
    rows: Vec<(&'static str, BTreeSet<String>)>,
    /// What the ledgers say.
    totals: Totals,
    /// Who won each race.
    winners: Vec<(i64, Vec<String>)>,
}

static SCENE: LazyLock<Scene> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Elsewhere, as whoever asks first may be in a runtime of its own.
    std::thread::spawn(move || runtime.block_on(play()))
        .join()
        .unwrap()
});

async fn play() -> Scene {
    let mut shop = Shop::open(&postgres_url()).await.unwrap();
    let producers: Vec<Producer> = LANGUAGES
        .into_iter()
        .map(|language| Producer::build(language).unwrap())
        .collect();
    let ledger = Ledger::default();
    let relay = shop.relay(&ledger).await.unwrap();
    let runs = producers::produce(&producers, &shop.address).await.unwrap();
    let reference = reference::produce(&mut shop).await.unwrap();

    let names = names();
    let compared = ledger.compare(&shop.client, &names, &races()).await;
    let totals = compared.unwrap_or_else(|difference| panic!("{difference}"));
    relay.stop().await.unwrap();
    let mut rows = Vec::new();
    for name in names {
        rows.push((name, rows_of(&shop, name).await));
    }
    let mut winners = Vec::new();
    for race in races() {
        let sql = "select headers ->> 'source' from orders_outbox where (payload ->> 'order')::bigint = $1";
        let found = shop.client.query(sql, &[&i64::from(race)]).await.unwrap();
        let who = found.iter().map(|row| row.get(0)).collect();
        winners.push((i64::from(race), who));
    }
    Scene {
        runs,
        reference,
        rows,
        totals,
        winners,
    }
}

/// Of all producers, also the one in Rust.
fn names() -> Vec<&'static str> {
    let others = LANGUAGES.map(Language::name);
    others.into_iter().chain([reference::NAME]).collect()
}

/// The events of a producer but for ids and times, with its name left out. Races are not its own.
async fn rows_of(shop: &Shop, name: &str) -> BTreeSet<String> {
    let sql = "select (to_jsonb(e) - array['id', 'sequence', 'created_at', 'updated_at', 'next_attempt_at',
                 'delivered_at', 'lease_epoch', 'headers', 'dedupe_key']
               || jsonb_build_object('headers', headers - 'source',
                 'key', replace(dedupe_key, '/' || $1::text || '-', '/'),
                 'due', next_attempt_at <= delivered_at, 'epoch', lease_epoch))::text
               from orders_outbox e
               where headers ->> 'source' = $1::text and dedupe_key not like '%/race-%'";
    let rows = shop.client.query(sql, &[&name]).await.unwrap();
    let texts: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(texts.len(), rows.len(), "{texts:?}");
    texts
}

/// Without what is another each time: ids, and the SQLSTATE that only the database gives.
fn told(lines: &[Line]) -> Vec<(u32, String)> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::New(_) => "new".to_owned(),
        Outcome::Known(_) => "known".to_owned(),
        Outcome::SoldOut => "sold out".to_owned(),
        Outcome::Refused { what, .. } => format!("refused {what}"),
    };
    lines
        .iter()
        .map(|line| (line.order, word(&line.outcome)))
        .collect()
}

// P1, M5, B4, M4, B10, M6
#[test]
fn every_language_is_told_what_rust_is_told() {
    assert_eq!(SCENE.runs.len(), SCENE.reference.len() * LANGUAGES.len());
    for (way, mode, lines) in &SCENE.reference {
        // Who wins a race is chance.
        if *mode == Mode::Race {
            continue;
        }
        let runs = SCENE.runs.iter();
        for run in runs.filter(|run| (run.way, run.mode) == (*way, *mode)) {
            let who = (run.language, way, mode);
            assert_eq!(told(&run.lines), told(lines), "{who:?}");
        }
    }
}

// P1, M3, M6, B2
#[test]
fn every_language_leaves_behind_what_rust_leaves_behind() {
    let (_, rust) = SCENE.rows.last().unwrap();
    // Five each: commit and duplicate in both ways.
    assert_eq!(rust.len(), 20, "{rust:#?}");
    assert!(
        rust.iter()
            .all(|row| row.contains(r#""status": "delivered""#))
    );
    for (name, rows) in &SCENE.rows {
        assert_eq!(rows, rust, "{name}");
    }
}

// P1, M6
#[test]
fn whatever_the_language_each_committed_order_has_its_event_delivered_once() {
    // What each has on its own, and the races: an order each, and an event for all of them.
    let (names, races) = (names().len(), races().len());
    let expected = Totals {
        orders: names * (20 + races),
        delivered: names * 20 + races,
    };
    assert_eq!(SCENE.totals, expected);
}

// P1, M5, B4
#[test]
fn of_producers_in_several_languages_that_race_for_an_event_one_wins() {
    for (order, winners) in &SCENE.winners {
        assert_eq!(winners.len(), 1, "{order}: {winners:?}");
        let said: Vec<(Language, &Outcome)> = SCENE
            .runs
            .iter()
            .filter(|run| run.mode == Mode::Race)
            .flat_map(|run| run.lines.iter().map(|line| (run.language, line)))
            .filter(|(_, line)| i64::from(line.order) == *order)
            .map(|(language, line)| (language, &line.outcome))
            .collect();
        assert_eq!(said.len(), LANGUAGES.len(), "{said:?}");
        let new: Vec<&str> = said
            .iter()
            .filter(|(_, outcome)| matches!(outcome, Outcome::New(_)))
            .map(|(language, _)| language.name())
            .collect();
        assert_eq!(new, *winners, "{said:?}");
        // Nobody was told anything but that it is there.
        let others = said.iter().filter(|(_, o)| matches!(o, Outcome::Known(_)));
        assert_eq!(others.count(), LANGUAGES.len() - 1, "{said:?}");
    }
}

// P1, M5
#[test]
fn the_function_tells_which_event_is_there_already() {
    let by_function = |run: &&Run| run.way == Way::Function && run.mode == Mode::Duplicate;
    for run in SCENE.runs.iter().filter(by_function) {
        for three in run.lines.chunks(3) {
            let [first, by_key, by_id] = three else {
                panic!("{three:?}");
            };
            let Outcome::New(id) = first.outcome else {
                panic!("{first:?}");
            };
            assert_eq!(
                by_key.outcome,
                Outcome::Known(Some(id)),
                "{:?}",
                run.language
            );
            assert_eq!(
                by_id.outcome,
                Outcome::Known(Some(id)),
                "{:?}",
                run.language
            );
        }
    }
}

// P1, B10, M4, B22
#[test]
fn a_refusal_can_be_told_apart_by_its_sqlstate_in_every_language() {
    let mut seen = 0;
    for run in &SCENE.runs {
        let expected = match (run.way, run.mode) {
            (Way::Function, Mode::BadTopic | Mode::NoTopic) => ("topic", "22023"),
            (Way::Insert, Mode::BadTopic | Mode::NoTopic) => ("topic", "23514"),
            (_, Mode::BadTenant) => ("tenant", "23514"),
            _ => continue,
        };
        for line in &run.lines {
            let Outcome::Refused { what, state } = &line.outcome else {
                panic!("{:?}: {line:?}", run.language);
            };
            assert_eq!(
                (what.as_str(), state.as_str()),
                expected,
                "{:?}",
                run.language
            );
            seen += 1;
        }
    }
    assert_eq!(seen, LANGUAGES.len() * 5 * 6);
}
