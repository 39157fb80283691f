//! `posthaste show`: all about one event.

mod payload;

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use posthaste::store::{Attempt, Audit, Content, Store};
use posthaste::{Record, StoreError, header};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::cli::Place;
use crate::failure::Failure;
use crate::filter::parse_id;
use crate::output::{BAD, BOLD, EventJson, Output, holder, paint, painted_status, visible};
use crate::{place, time};

/// More acts on one event than anybody reads.
const ACTS: u32 = 100;

/// A payload that is larger is shown as it is stored.
const MOST: usize = 64 * 1024 * 1024;

const EXAMPLES: &str = "\
Examples:
  posthaste show 01939a4c-…
  posthaste show 01939a4c-… --payload
  posthaste show 01939a4c-… --payload --json | jq .payload";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Show {
    /// The event
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: Uuid,
    /// The payload, too: indented if it is JSON, as a hex dump if it is no text
    #[arg(long)]
    payload: bool,
}

/// The event in JSON: its fields, what it says, and what was done to it.
#[derive(Serialize)]
struct Answer<'r> {
    #[serde(flatten)]
    event: EventJson<'r>,
    /// `null`: not to be seen by this user of the database.
    headers: Option<&'r BTreeMap<String, String>>,
    /// A payload that is JSON, to the letter: as it was before it was compressed, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'r RawValue>,
    /// A payload of another kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Who has leased it: machine and process.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_relay: Option<&'r str>,
    attempts_made: Vec<Tried<'r>>,
    audit: Vec<Entry<'r>>,
}

/// One attempt to deliver it.
#[derive(Serialize)]
struct Tried<'r> {
    number: u32,
    claimed_at: Option<String>,
    ended_at: Option<String>,
    seconds: Option<f64>,
    ending: &'static str,
    error: Option<&'r str>,
    relay: Option<&'r str>,
    sink: Option<&'r str>,
}

impl<'r> Tried<'r> {
    fn new(attempt: &'r Attempt) -> Self {
        Self {
            number: attempt.number,
            claimed_at: attempt.claimed_at.map(time::exact),
            ended_at: attempt.ended_at.map(time::exact),
            seconds: attempt.took.map(|took| took.as_secs_f64()),
            ending: attempt.ending.as_str(),
            error: attempt.error.as_deref(),
            relay: attempt.relay_name.as_deref(),
            sink: attempt.destination.as_deref(),
        }
    }
}

/// What is known about the event.
struct Known<'r> {
    record: &'r Record,
    content: Option<&'r Content>,
    history: &'r [Attempt],
    audit: &'r [Audit],
    /// Who has leased it.
    holder: Option<String>,
}

#[derive(Serialize)]
struct Entry<'r> {
    at: String,
    actor: &'r str,
    act: &'r str,
    why: &'r str,
}

pub(crate) async fn run(place: &Place, args: &Show) -> Result<(), Failure> {
    let store = place::open(place).await?;
    let missing = || {
        Failure::Other(format!(
            "there is no event {} in {}",
            args.id,
            store.table()
        ))
    };
    let record = store.show(args.id).await?.ok_or_else(missing)?;
    let content = match store.content(args.id).await {
        // A reader sees how things stand, and not what they say.
        Err(StoreError::Denied(_)) if !args.payload => None,
        content => Some(content?.ok_or_else(missing)?),
    };
    let relays = match record.lease_owner {
        // Who may not ask for its name sees its id.
        Some(_) => store.relays().await.unwrap_or_default(),
        None => Vec::new(),
    };
    let known = Known {
        holder: holder(&record, &relays),
        record: &record,
        content: content.as_ref(),
        history: &store.history(args.id).await?,
        audit: &store.audit(Some(args.id), ACTS).await?,
    };
    let output = Output::new(place.json);
    match output.json {
        true => as_json(&output, &*store, &known, args.payload),
        false => as_text(&output, &known, args.payload),
    }
}

fn as_json(
    output: &Output,
    store: &dyn Store,
    known: &Known<'_>,
    payload: bool,
) -> Result<(), Failure> {
    let Known {
        record,
        content,
        history,
        audit,
        ref holder,
    } = *known;
    let wanted = content.filter(|_| payload).map(decompressed);
    let json = wanted
        .as_ref()
        .and_then(|payload| serde_json::from_slice::<&RawValue>(payload).ok());
    output.json(&Answer {
        event: EventJson::new(store.table(), record),
        headers: content.map(|content| &content.headers),
        payload: json,
        payload_base64: wanted
            .as_ref()
            .filter(|_| json.is_none())
            .map(|payload| STANDARD.encode(payload)),
        lease_relay: holder.as_deref(),
        attempts_made: history.iter().map(Tried::new).collect(),
        audit: audit
            .iter()
            .map(|entry| Entry {
                at: time::exact(entry.at),
                actor: &entry.actor,
                act: &entry.act,
                why: &entry.why,
            })
            .collect(),
    })
}

fn as_text(output: &Output, known: &Known<'_>, payload: bool) -> Result<(), Failure> {
    let Known {
        record,
        content,
        history,
        audit,
        ref holder,
    } = *known;
    let now = SystemTime::now();
    let when = |at: SystemTime| match output.terminal {
        true => format!("{} ({})", time::exact(at), time::relative(at, now)),
        false => time::exact(at),
    };
    let fields: [(&str, Option<String>); 23] = [
        ("id", Some(record.id.to_string())),
        ("sequence", Some(record.sequence.to_string())),
        ("status", Some(painted_status(record.status))),
        (
            "reason",
            record.dead_reason.map(|reason| paint(reason.as_str(), BAD)),
        ),
        ("error", record.last_error.as_deref().map(shown)),
        (
            "namespace",
            Some(shown(&record.namespace)).filter(|name| !name.is_empty()),
        ),
        ("topic", Some(shown(&record.topic))),
        ("tenant", record.tenant_id.map(|id| id.to_string())),
        (
            "aggregate type",
            record.aggregate_type.as_deref().map(shown),
        ),
        ("aggregate id", record.aggregate_id.as_deref().map(shown)),
        ("event type", record.event_type.as_deref().map(shown)),
        ("ordering key", record.ordering_key.as_deref().map(shown)),
        ("dedupe key", record.dedupe_key.as_deref().map(shown)),
        ("traceparent", record.traceparent.as_deref().map(shown)),
        ("attempts", Some(record.attempts.to_string())),
        (
            "next attempt",
            record
                .mark()
                .is_none()
                .then(|| when(record.next_attempt_at)),
        ),
        ("lease owner", record.lease_owner.map(|id| id.to_string())),
        ("relay", holder.as_deref().map(shown)),
        ("lease until", record.lease_until.map(when)),
        ("created", Some(when(record.created_at))),
        ("updated", Some(when(record.updated_at))),
        ("delivered", record.delivered_at.map(when)),
        ("died", record.dead_at.map(when)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            output.line(&format!("{} {value}", paint(&format!("{name:<15}"), BOLD)))?;
        }
    }
    let title = |title: &str| output.line(&format!("\n{}", paint(title, BOLD)));
    match content {
        None => output.line(&format!(
            "{} not to be seen by this user of the database",
            paint("headers        ", BOLD)
        ))?,
        Some(content) => {
            let kind = shown(&content.content_type);
            output.line(&format!("{} {kind}", paint("content type   ", BOLD)))?;
            if !content.headers.is_empty() {
                title("headers")?;
            }
            for (name, value) in &content.headers {
                output.line(&format!("  {}: {}", shown(name), shown(value)))?;
            }
        }
    }
    // One that the event itself tells of needs no list.
    let history = match history {
        [only] if only.claimed_at.is_none() => &[],
        history => history,
    };
    if !history.is_empty() {
        title("attempts")?;
    }
    for attempt in history {
        let at = attempt.ended_at.or(attempt.claimed_at);
        let mut line = format!(
            "  {}  {}: {}",
            at.map(when).unwrap_or_default(),
            attempt.number,
            attempt.ending.as_str().replace('_', " ")
        );
        if let Some(sink) = &attempt.destination {
            line.push_str(&format!(" at {}", shown(sink)));
        }
        if let Some(took) = attempt.took {
            line.push_str(&format!(" after {:.3} s", took.as_secs_f64()));
        }
        if let Some(relay) = &attempt.relay_name {
            line.push_str(&format!(", by {}", shown(relay)));
        }
        if let Some(error) = &attempt.error {
            line.push_str(&format!(": {}", shown(error)));
        }
        output.line(&line)?;
    }
    if !audit.is_empty() {
        title("audit")?;
    }
    for entry in audit {
        let (actor, act, why) = (shown(&entry.actor), shown(&entry.act), shown(&entry.why));
        output.line(&format!("  {}  {act} by {actor}: {why}", when(entry.at)))?;
    }
    if let Some(content) = content.filter(|_| payload) {
        let payload = decompressed(content);
        let stored = match content.payload.len() {
            same if same == payload.len() => String::new(),
            stored => format!(", compressed to {stored}"),
        };
        title(&format!("payload ({} bytes{stored})", payload.len()))?;
        for line in payload::lines(&payload) {
            output.line(&line)?;
        }
    }
    Ok(())
}

/// The payload as the producer wrote it, if that can be told.
fn decompressed(content: &Content) -> Bytes {
    let encoding = content.headers.get(header::CONTENT_ENCODING);
    let payload = content.payload.clone();
    posthaste::decompress(encoding.map(String::as_str), payload, MOST)
        .unwrap_or_else(|_| content.payload.clone())
}

fn shown(text: &str) -> String {
    visible(text).into_owned()
}
