//! Producers in five languages write orders and events into one database, all at once, and a relay
//! delivers the events. At the end the tables of orders are compared with what was delivered.
//!
//!     cargo xtask example producers                                       # on a PostgreSQL started for it
//!     DATABASE_URL=postgres://localhost/postgres cargo run -p producers   # on yours, in a new database

use producers::{LANGUAGES, Ledger, Outcome, Producer, Result, Shop};

#[tokio::main]
async fn main() -> Result {
    let server = std::env::var("DATABASE_URL").map_err(
        |_| "set DATABASE_URL to a PostgreSQL server, or run `cargo xtask example producers`",
    )?;
    // Built first, one after the other: the second time, there is nothing to do.
    let built: Vec<Producer> = LANGUAGES
        .into_iter()
        .map(Producer::build)
        .collect::<Result<_>>()?;
    let shop = Shop::open(&server).await?;
    let ledger = Ledger::default();
    let relay = shop.relay(&ledger).await?;

    let runs = producers::produce(&built, &shop.address).await?;
    println!(
        "{:<12}{:>6}{:>8}{:>10}{:>9}",
        "", "new", "known", "sold out", "refused"
    );
    for language in LANGUAGES {
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

    let names = LANGUAGES.map(|language| language.name());
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
