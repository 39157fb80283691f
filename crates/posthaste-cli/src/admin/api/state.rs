//! Who works on an outbox, where it delivers to, and how its database copes.

use std::sync::Arc;

use axum::extract::State;
use posthaste::store::{Grade, Health, RelayInfo, Target};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::desk::{Desk, ask};
use super::super::fault::{Answer, Fault};
use super::At;
use super::control::PauseJson;
use crate::time;

/// A relay.
#[derive(Serialize)]
struct RelayJson {
    owner: Uuid,
    name: Option<String>,
    host: Option<String>,
    pid: Option<u32>,
    since: Option<String>,
    leases: u64,
    oldest_lease: Option<String>,
    leads: bool,
    alive: bool,
    /// Whether it is the one that answers here.
    this: bool,
}

impl RelayJson {
    fn of(relay: RelayInfo, owner: Uuid) -> Self {
        Self {
            owner: relay.owner,
            name: relay.name,
            host: relay.host,
            pid: relay.pid,
            since: relay.since.map(time::exact),
            leases: relay.leases,
            oldest_lease: relay.oldest_lease.map(time::exact),
            leads: relay.leads,
            alive: relay.alive,
            this: relay.owner == owner,
        }
    }
}

pub(in super::super) async fn relays(At(served): At) -> Result<Answer<Value>, Fault> {
    let store = served.store()?;
    let owner = store.owner();
    let relays = ask(store.relays()).await?.into_iter();
    let relays: Vec<RelayJson> = relays.map(|it| RelayJson::of(it, owner)).collect();
    Ok(Answer(json!({ "relays": relays })))
}

pub(in super::super) async fn destinations(
    State(desk): State<Arc<Desk>>,
    At(served): At,
) -> Result<Answer<Value>, Fault> {
    let pauses = ask(served.store()?.pauses()).await?;
    let now = desk.live.outbox(&served.name);
    let known = now.as_ref().map_or(&[][..], |now| &now.destinations);
    let told = known.iter().map(|destination| {
        let mut told = json!(destination);
        let is_it = |name: &str| name == destination.name;
        let pause = pauses.iter().find(|pause| match &pause.target {
            Target::Outbox => true,
            Target::Destination(name) => is_it(name),
        });
        told["paused"] = json!(pause.map(PauseJson::of));
        let routes = served.routes.iter().filter(|route| is_it(&route.sink));
        told["routes"] = routes.map(|route| route.topic.clone()).collect();
        told
    });
    Ok(Answer(json!({ "destinations": told.collect::<Vec<_>>() })))
}

/// How the database copes.
#[derive(Serialize)]
struct DatabaseJson {
    kind: &'static str,
    address: String,
    server: String,
    table_bytes: Option<u64>,
    index_bytes: Option<u64>,
    file_bytes: Option<u64>,
    live_rows: Option<u64>,
    dead_rows: Option<u64>,
    vacuumed_at: Option<String>,
    analyzed_at: Option<String>,
    oldest_transaction: Option<HolderJson>,
    connections: Option<u64>,
    connection_limit: Option<u64>,
    pages: Option<u64>,
    free_pages: Option<u64>,
    /// For how long the oldest due event has been due.
    oldest_pending_seconds: Option<f64>,
    findings: Vec<FindingJson>,
}

#[derive(Serialize)]
struct HolderJson {
    pid: i32,
    age_seconds: f64,
    state: String,
    application: String,
}

#[derive(Serialize)]
struct FindingJson {
    check: &'static str,
    grade: &'static str,
    found: String,
    remedy: String,
}

pub(in super::super) async fn database(
    State(desk): State<Arc<Desk>>,
    At(served): At,
) -> Result<Answer<Value>, Fault> {
    let store = served.store()?;
    let health: Health = ask(store.health()).await?;
    let findings = ask(store.examine()).await?.into_iter();
    let findings = findings.map(|finding| FindingJson {
        check: finding.check,
        grade: match finding.grade {
            Grade::Good => "good",
            Grade::Doubtful => "doubtful",
            Grade::Bad => "bad",
        },
        found: finding.found,
        remedy: finding.remedy,
    });
    Ok(Answer(json!(DatabaseJson {
        kind: served.database(),
        address: served.address(),
        server: health.server,
        table_bytes: health.table_bytes,
        index_bytes: health.index_bytes,
        file_bytes: health.file_bytes,
        live_rows: health.live_rows,
        dead_rows: health.dead_rows,
        vacuumed_at: health.vacuumed_at.map(time::exact),
        analyzed_at: health.analyzed_at.map(time::exact),
        oldest_transaction: health.oldest_transaction.map(|holder| HolderJson {
            pid: holder.pid,
            age_seconds: holder.age.as_secs_f64(),
            state: holder.state,
            application: holder.application,
        }),
        connections: health.connections,
        connection_limit: health.connection_limit,
        pages: health.pages,
        free_pages: health.free_pages,
        oldest_pending_seconds: desk.live.outbox(&served.name).map(|now| now.lag_seconds),
        findings: findings.collect(),
    })))
}
