//! `migrate`: makes the outboxes in their databases, or brings them up to date.

use clap::Args;
use posthaste::StoreError;
use posthaste::schema::{self, Roles, SchemaError};
use serde::Serialize;

use crate::cli::Place;
use crate::config::Outbox;
use crate::failure::Failure;
use crate::output::{Cell, GOOD, Output};
use crate::place;

const EXAMPLES: &str = "\
Examples:
  posthaste migrate                      # at every deployment; many may do so at once
  posthaste migrate --check || echo 'there is something to do'
  posthaste migrate --print > outbox.sql # for a migration tool of your own";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// Print the SQL, and change nothing
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Print also the roles with the least privileges (PostgreSQL)
    #[arg(long, requires = "print")]
    roles: bool,
    /// Change nothing, and end with exit code 4 if there is something to do
    #[arg(long)]
    check: bool,
}

/// What was done to one outbox. In JSON, too.
#[derive(Debug, Serialize)]
struct Done {
    table: String,
    version: i32,
    changed: bool,
    #[serde(skip)]
    state: &'static str,
}

pub(crate) async fn run(place: &Place, args: &Migrate) -> Result<(), Failure> {
    let output = Output::new(place.json);
    let outboxes = place::outboxes(place)?;
    if args.print {
        return outboxes
            .iter()
            .try_for_each(|outbox| print(&output, outbox, args.roles));
    }
    let mut done = Vec::new();
    let mut failures = Vec::new();
    for outbox in &outboxes {
        let one = match args.check {
            true => check(outbox).await,
            false => apply(outbox).await,
        };
        match one {
            Ok(one) => done.push(one),
            Err(failure) => {
                failures.push(failure);
                // What is done already is told all the same.
                if !args.check {
                    break;
                }
            }
        }
    }
    if !done.is_empty() {
        Failure::unless_unread(tell(&output, &done))?;
    }
    Failure::together(failures)
}

fn print(output: &Output, outbox: &Outbox, roles: bool) -> Result<(), Failure> {
    let mut sql = schema::sql_at(&outbox.database.url, &outbox.table)?;
    if roles {
        if !outbox.database.is_postgres() {
            return Err(Failure::usage("SQLite has no roles: leave out --roles"));
        }
        sql += &schema::roles_sql(&outbox.table, &Roles::default());
    }
    output.line(sql.trim_end())
}

async fn check(outbox: &Outbox) -> Result<Done, Failure> {
    let version = schema::check_at(&outbox.database.url, &outbox.table)
        .await
        .map_err(|error| Failure::to_reach(outbox, error))?;
    Ok(Done {
        table: outbox.table.to_string(),
        version,
        changed: false,
        state: "up to date",
    })
}

async fn apply(outbox: &Outbox) -> Result<Done, Failure> {
    let (address, table) = (&outbox.database.url, &outbox.table);
    let before = schema::check_at(address, table).await;
    let version = schema::apply_at(address, table)
        .await
        .map_err(|error| Failure::to_reach(outbox, error))?;
    schema::notify_at(address, table, outbox.notify)
        .await
        .map_err(|error| Failure::to_reach(outbox, error))?;
    Ok(Done {
        table: table.to_string(),
        version,
        changed: before.is_err(),
        state: match before {
            Ok(_) => "up to date",
            Err(StoreError::Schema(SchemaError::Missing { .. })) => "set up",
            Err(_) => "brought up to date",
        },
    })
}

fn tell(output: &Output, done: &[Done]) -> Result<(), Failure> {
    if output.json {
        return done.iter().try_for_each(|done| output.json(done));
    }
    let row = |done: &Done| {
        vec![
            Cell::text(&done.table),
            Cell::text(done.version),
            Cell::Text(done.state.to_owned(), GOOD),
        ]
    };
    let rows: Vec<_> = done.iter().map(row).collect();
    output.table(&["OUTBOX", "VERSION", "STATE"], &rows)
}
