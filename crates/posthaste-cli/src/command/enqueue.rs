//! `posthaste enqueue`: events by hand, for trying things out.

use std::io::{IsTerminal, Read};
use std::time::Duration;

use clap::Args;
use posthaste::{EnqueueError, Message, Receipt, StoreError, TopicRule};
use serde::Serialize;
use uuid::Uuid;

use crate::cli::Place;
use crate::config::Outbox;
use crate::failure::{Failure, whole};
use crate::filter::{Aggregate, parse_aggregate};
use crate::output::{Cell, Output};
use crate::sweep::events;
use crate::time::parse_duration;
use crate::{place, progress};

/// How many events one statement enqueues.
const BATCH: usize = 1000;
/// More than this many are not all shown in a terminal.
const SHOWN: usize = 20;
const JSON: &str = "application/json";

const EXAMPLES: &str = "\
Examples:
  posthaste enqueue shop.order.placed.v1 '{\"order\": 42}'
  posthaste enqueue shop.order.placed.v1 --key 42 --header source=me --delay 10s
  posthaste enqueue shop.photo.taken.v1 - --content-type image/png < photo.png
  posthaste enqueue shop.order.placed.v1 --count 1000

A service does not call this: it enqueues in the transaction that changes its data.";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Enqueue {
    /// The topic, such as shop.order.placed.v1
    topic: String,
    /// The payload; - reads standard input
    #[arg(default_value = "{}", hide_default_value = true)]
    payload: String,
    /// What the payload is
    #[arg(long, value_name = "TYPE", default_value = JSON)]
    content_type: String,
    /// A header; can be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// The ordering key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Enqueued only once with this key
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    /// The id of the event [default: a new one]
    #[arg(long, value_name = "ID", conflicts_with = "count")]
    id: Option<Uuid>,
    /// The namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<Uuid>,
    /// The aggregate
    #[arg(long, value_name = "TYPE/ID", value_parser = parse_aggregate)]
    aggregate: Option<Aggregate>,
    /// The type of the event
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Deliver it not before this time has passed
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// This many of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Accept any topic, not only those like shop.order.placed.v1
    #[arg(long)]
    relaxed_topic: bool,
}

#[derive(Debug, Serialize)]
struct Answer {
    id: Uuid,
    sequence: i64,
    new: bool,
}

pub(crate) async fn run(place: &Place, args: &Enqueue) -> Result<(), Failure> {
    let message = message(args)?;
    let outbox = place::outbox(place)?;
    let store = place::connect(&outbox).await?;
    let topics = match args.relaxed_topic {
        true => TopicRule::Relaxed,
        false => TopicRule::Strict,
    };
    let output = Output::new(place.json);
    let all = args.count as usize;
    let (mut done, mut failed) = (0, None);
    let mut rows = Vec::new();
    let bar = progress::bar(u64::from(args.count), "Enqueue");
    while done < all {
        let batch = vec![message.clone(); BATCH.min(all - done)];
        let receipts = match store.enqueue(&batch, topics).await {
            Ok(receipts) => receipts,
            Err(error) => {
                failed = Some(refused(&outbox, error));
                break;
            }
        };
        done += batch.len();
        bar.inc(batch.len() as u64);
        for Receipt { id, sequence, new } in receipts {
            match output.json {
                true => {
                    Failure::unless_unread(output.json(&Answer { id, sequence, new }))?;
                }
                false => rows.push(vec![Cell::text(id), Cell::text(sequence), Cell::text(new)]),
            }
        }
    }
    bar.finish_and_clear();
    // What is done already is told all the same.
    if !rows.is_empty() {
        Failure::unless_unread(tell(&output, rows))?;
    }
    match failed {
        None => Ok(()),
        Some(failure) => {
            if done > 0 {
                eprintln!("enqueued {}, then it failed", events(done));
            }
            Err(failure)
        }
    }
}

fn tell(output: &Output, mut rows: Vec<Vec<Cell>>) -> Result<(), Failure> {
    let all = rows.len();
    if output.terminal && all > SHOWN {
        rows.truncate(SHOWN / 2);
    }
    output.table(&["ID", "SEQUENCE", "NEW"], &rows)?;
    match all - rows.len() {
        0 => Ok(()),
        more => output.line(&format!(
            "… and {more} more: in a pipe, or with --json, all are shown"
        )),
    }
}

fn message(args: &Enqueue) -> Result<Message, Failure> {
    let payload = payload(args)?;
    let mut message = match args.content_type == JSON {
        true => {
            let text = String::from_utf8(payload).map_err(|_| not_json("it is not UTF-8"))?;
            Message::json_text(&args.topic, text).map_err(|error| not_json(&whole(&error)))?
        }
        false => Message::bytes(&args.topic, &args.content_type, payload),
    };
    for (name, value) in &args.headers {
        message = message.header(name, value);
    }
    if let Some(key) = &args.key {
        message = message.ordering_key(key);
    }
    if let Some(key) = &args.dedupe_key {
        message = message.dedupe_key(key);
    }
    if let Some(id) = args.id {
        message = message.id(id);
    }
    if let Some(namespace) = &args.namespace {
        message = message.namespace(namespace);
    }
    if let Some(tenant) = args.tenant {
        message = message.tenant(tenant);
    }
    if let Some(aggregate) = &args.aggregate {
        let Some(id) = &aggregate.id else {
            return Err(Failure::usage(
                "an aggregate has a type and an id: --aggregate TYPE/ID",
            ));
        };
        message = message.aggregate(&aggregate.kind, id);
    }
    if let Some(event_type) = &args.event_type {
        message = message.event_type(event_type);
    }
    if let Some(delay) = args.delay {
        message = message.deliver_after(delay);
    }
    Ok(message)
}

fn payload(args: &Enqueue) -> Result<Vec<u8>, Failure> {
    if args.payload != "-" {
        return Ok(args.payload.clone().into_bytes());
    }
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        eprintln!("reading the payload until Ctrl-D");
    }
    let mut payload = Vec::new();
    input.read_to_end(&mut payload)?;
    Ok(payload)
}

fn not_json(why: &str) -> Failure {
    Failure::usage(format!(
        "{why}. If it is to be no JSON, say what it is: --content-type text/plain"
    ))
}

/// What was typed is wrong, or the database would not have it.
fn refused(outbox: &Outbox, error: EnqueueError) -> Failure {
    match error {
        EnqueueError::Database(said) => match said.downcast::<StoreError>() {
            Ok(error) => Failure::to_reach(outbox, *error),
            Err(other) => Failure::Other(whole(&*other)),
        },
        EnqueueError::TopicInvalid { .. } => {
            Failure::usage(format!("{error}, or add --relaxed-topic"))
        }
        error => Failure::usage(whole(&error)),
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}
