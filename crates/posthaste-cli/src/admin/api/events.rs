//! Events: pages of them, one with all that befell it, and what it says.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste::store::{Attempt, Audit, Order};
use posthaste::{StoreError, Table};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::desk::ask;
use super::super::fault::{Answer, Fault};
use super::{At, Id, Params, select};
use crate::output::EventJson;
use crate::time;

/// As much of a payload as is shown.
const SHOWN: usize = 1024 * 1024;
/// What operators did to one event.
const AUDIT: u32 = 100;

/// A page.
#[derive(Serialize)]
pub(in super::super) struct EventsPage {
    events: Vec<Value>,
    /// What to ask for to get the next page. `None`: that was all.
    next: Option<String>,
}

/// An event as the API tells it.
pub(super) fn event(table: &Table, record: &posthaste::Record) -> Value {
    serde_json::to_value(EventJson::new(table, record)).expect("our own types are JSON")
}

pub(in super::super) async fn page(
    At(served): At,
    mut params: Params,
) -> Result<Answer<EventsPage>, Fault> {
    let limit = params.number("limit", 50, 1..=500)?;
    let from = params.take("cursor").map(|text| select::mark(&text));
    let order = match params.take("order").as_deref() {
        None | Some("newest") => Order::NewestFirst,
        Some("oldest") => Order::OldestFirst,
        Some(_) => return Err(Fault::new("admin.query", "order is newest or oldest")),
    };
    let filter = select::filter(params.rest())?;
    let store = served.store()?;
    let page = ask(store.browse(&filter, order, from.transpose()?, limit)).await?;
    let events = page.records.iter();
    Ok(Answer(EventsPage {
        events: events.map(|it| event(&served.table, it)).collect(),
        next: page.next.map(select::cursor),
    }))
}

/// One event.
#[derive(Serialize)]
pub(in super::super) struct EventStory {
    event: Value,
    /// Where it goes, or would go now.
    destination: Option<String>,
    attempts: Vec<AttemptJson>,
    audit: Vec<AuditJson>,
}

#[derive(Serialize)]
struct AttemptJson {
    number: u32,
    claimed_at: Option<String>,
    ended_at: Option<String>,
    took_seconds: Option<f64>,
    ending: &'static str,
    error: Option<String>,
    relay: Option<Uuid>,
    relay_name: Option<String>,
    destination: Option<String>,
}

impl AttemptJson {
    fn of(attempt: Attempt) -> Self {
        Self {
            number: attempt.number,
            claimed_at: attempt.claimed_at.map(time::exact),
            ended_at: attempt.ended_at.map(time::exact),
            took_seconds: attempt.took.map(|took| took.as_secs_f64()),
            ending: attempt.ending.as_str(),
            error: attempt.error,
            relay: attempt.relay,
            relay_name: attempt.relay_name,
            destination: attempt.destination,
        }
    }
}

/// What an operator did.
#[derive(Serialize)]
pub(super) struct AuditJson {
    at: String,
    actor: String,
    act: String,
    /// `None`: to no single event.
    event_id: Option<Uuid>,
    topic: String,
    why: String,
}

impl AuditJson {
    pub(super) fn of(audit: Audit) -> Self {
        Self {
            at: time::exact(audit.at),
            actor: audit.actor,
            act: audit.act,
            event_id: Some(audit.event_id).filter(|id| !id.is_nil()),
            topic: audit.topic,
            why: audit.why,
        }
    }
}

fn gone() -> Fault {
    Fault::new("admin.no_event", "there is no such event in this outbox")
}

pub(in super::super) async fn show(
    At(served): At,
    Id(id): Id,
) -> Result<Answer<EventStory>, Fault> {
    let store = served.store()?;
    let record = ask(store.show(id)).await?.ok_or_else(gone)?;
    let attempts = ask(store.history(id)).await?;
    // A daemon that may only relay does not see what operators did; the rest it does.
    let audit = async {
        match store.audit(Some(id), AUDIT).await {
            Err(StoreError::Denied(_)) => Ok(Vec::new()),
            audit => audit,
        }
    };
    let audit = ask(audit).await?;
    Ok(Answer(EventStory {
        event: event(&served.table, &record),
        destination: served.destination_of(&record).map(str::to_owned),
        attempts: attempts.into_iter().map(AttemptJson::of).collect(),
        audit: audit.into_iter().map(AuditJson::of).collect(),
    }))
}

/// What an event says.
#[derive(Serialize)]
pub(in super::super) struct ContentJson {
    content_type: String,
    headers: BTreeMap<String, String>,
    bytes: usize,
    /// Whether only the beginning is told.
    truncated: bool,
    /// `utf-8` or `base64`.
    encoding: &'static str,
    payload: String,
}

pub(in super::super) async fn content(
    At(served): At,
    Id(id): Id,
) -> Result<Answer<ContentJson>, Fault> {
    let store = served.store()?;
    let content = ask(store.content(id)).await?.ok_or_else(gone)?;
    let shown = &content.payload[..content.payload.len().min(SHOWN)];
    let (encoding, payload) = match std::str::from_utf8(shown) {
        Ok(text) => ("utf-8", text.to_owned()),
        // Cut within a character.
        Err(error) if content.payload.len() > SHOWN && error.error_len().is_none() => {
            let whole = &shown[..error.valid_up_to()];
            ("utf-8", String::from_utf8_lossy(whole).into_owned())
        }
        Err(_) => ("base64", STANDARD.encode(shown)),
    };
    Ok(Answer(ContentJson {
        content_type: content.content_type,
        headers: content.headers,
        bytes: content.payload.len(),
        truncated: content.payload.len() > SHOWN,
        encoding,
        payload,
    }))
}

pub(in super::super) async fn audit(
    At(served): At,
    mut params: Params,
) -> Result<Answer<Value>, Fault> {
    let limit = params.number("limit", 100, 1..=1000)?;
    let event = match params.take("event").map(|id| Uuid::try_parse(&id)) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(Fault::new("admin.query", "event is no uuid")),
    };
    let from = params.take("cursor").map(|text| select::mark(&text));
    let from = from.transpose()?;
    let entries = ask(served.store()?.audit_from(event, from, limit)).await?;
    let is_full = entries.len() >= limit as usize;
    let next = Audit::last(&entries, from).filter(|_| is_full);
    let entries: Vec<AuditJson> = entries.into_iter().map(AuditJson::of).collect();
    Ok(Answer(
        json!({ "entries": entries, "next": next.map(select::cursor) }),
    ))
}
