//! Producers in five languages, or in those that are named, write orders and events into one database,
//! all at once, and a relay delivers the events. At the end the tables of orders are compared with what
//! was delivered.
//!
//!     cargo xtask example producers [go java python sql typescript]       # on a PostgreSQL started for it
//!     DATABASE_URL=postgres://localhost/postgres cargo run -p producers   # on yours, in a new database

use posthaste_testkit::server::Language;
use producers::{LANGUAGES, Ledger, Outcome, Producer, Result, Shop};

#[tokio::main]
async fn main() -> Result {
    let server = std::env::var("DATABASE_URL").map_err(
        |_| "set DATABASE_URL to a PostgreSQL server, or run `cargo xtask example producers`",
    )?;
    let languages = chosen(std::env::args().skip(1))?;
    // Built first, one after the other: the second time, there is nothing to do.
    let built: Vec<Producer> = languages
        .iter()
        .map(|language| Producer::build(*language))
        .collect::<Result<_>>()?;
    let shop = Shop::open(&server).await?;
    let ledger = Ledger::default();
    let relay = shop.relay(&ledger).await?;

    let runs = producers::produce(&built, &shop.address).await?;
    println!(
        "{:<12}{:>6}{:>8}{:>10}{:>9}",
        "", "new", "known", "sold out", "refused"
    );
    for &language in &languages {
        let theirs = runs.iter().filter(|run| run.language == language);
        let outcomes: Vec<&Outcome> = theirs
            .flat_map(|run| &run.lines)
            .map(|line| &line.outcome)
            .collect();
        let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
        println!(
            "{:<12}{:>6}{:>8}{:>10}{:>9}",
            language.name(),
            count(|outcome| matches!(outcome, Outcome::New(_))),
            count(|outcome| matches!(outcome, Outcome::Known(_))),
            count(|outcome| *outcome == Outcome::SoldOut),
            count(|outcome| matches!(outcome, Outcome::Refused { .. })),
        );
    }

    let names: Vec<&str> = languages.iter().map(|language| language.name()).collect();
    let totals = ledger
        .compare(&shop.client, &names, &producers::races())
        .await?;
    relay.stop().await?;
    println!(
        "\n{} orders, {} events delivered, each once.",
        totals.orders, totals.delivered
    );
    println!("Nothing was lost: each committed order has its event, and no other has one.");
    Ok(())
}

/// The languages of these names; all of them, if none is named.
fn chosen(names: impl Iterator<Item = String>) -> Result<Vec<Language>> {
    let mut chosen = Vec::new();
    for name in names {
        let language = LANGUAGES.into_iter().find(|known| known.name() == name);
        let known = LANGUAGES.map(Language::name).join(", ");
        chosen.push(language.ok_or(format!("there is no producer in {name}, but in {known}"))?);
    }
    match chosen.is_empty() {
        true => Ok(LANGUAGES.to_vec()),
        false => Ok(chosen),
    }
}
