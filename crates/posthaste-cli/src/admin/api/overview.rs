//! How everything stands: all outboxes at a glance, one in full, and the last quarter of an hour.

use std::sync::Arc;

use axum::extract::State;
use posthaste::store::Ordering;
use posthaste_relay::Mode;
use serde::Serialize;

use super::super::desk::{Desk, Served, ask};
use super::super::fault::{Answer, Fault};
use super::super::health::{self, Verdict};
use super::super::live::{OutboxNow, Point};
use super::control::PauseJson;
use super::{At, By};
use crate::time;

/// All outboxes.
#[derive(Serialize)]
pub(in super::super) struct Overview {
    version: &'static str,
    started_at: String,
    uptime_seconds: u64,
    caller: Me,
    health: Verdict,
    outboxes: Vec<OutboxNow>,
}

/// Who asks.
#[derive(Serialize)]
pub(in super::super) struct Me {
    name: String,
    role: &'static str,
    /// Whether callers have to say who they are.
    tokens: bool,
    /// Whether to log out makes sense.
    session: bool,
}

pub(in super::super) async fn all(State(desk): State<Arc<Desk>>, by: By) -> Answer<Overview> {
    let checks = health::checks(&desk).await;
    Answer(Overview {
        version: env!("CARGO_PKG_VERSION"),
        started_at: time::exact(desk.began),
        uptime_seconds: desk.since.elapsed().as_secs(),
        caller: caller(&desk, by),
        health: Verdict::worst(&checks),
        outboxes: desk.live.outboxes().to_vec(),
    })
}

pub(in super::super) async fn me(State(desk): State<Arc<Desk>>, by: By) -> Answer<Me> {
    Answer(caller(&desk, by))
}

fn caller(desk: &Desk, By(caller): By) -> Me {
    Me {
        name: caller.name,
        role: caller.role.name(),
        tokens: desk.auth.has_tokens(),
        session: caller.by == super::super::auth::By::Session,
    }
}

/// One outbox, with how it is relayed.
#[derive(Serialize)]
pub(in super::super) struct OutboxJson {
    name: String,
    address: String,
    now: Option<OutboxNow>,
    pauses: Vec<PauseJson>,
    routes: Vec<RouteJson>,
    settings: SettingsJson,
}

#[derive(Serialize)]
struct RouteJson {
    topic: String,
    namespace: Option<String>,
    tenant: Option<String>,
    aggregate_type: Option<String>,
    destination: String,
}

#[derive(Serialize)]
struct SettingsJson {
    deliver: bool,
    mode: &'static str,
    ordering: &'static str,
    max_attempts: u32,
    lease_seconds: f64,
    dispatch_timeout_seconds: f64,
    batch_size: u32,
    in_flight: usize,
    clean: bool,
    retention_seconds: f64,
    dead_retention_seconds: Option<f64>,
}

pub(in super::super) async fn one(
    State(desk): State<Arc<Desk>>,
    At(served): At,
) -> Result<Answer<OutboxJson>, Fault> {
    let pauses = ask(served.store()?.pauses()).await?;
    let now = desk.live.outboxes();
    Ok(Answer(OutboxJson {
        name: served.name.clone(),
        address: served.address(),
        now: now.iter().find(|it| it.name == served.name).cloned(),
        pauses: pauses.iter().map(PauseJson::of).collect(),
        routes: served.routes.iter().map(route).collect(),
        settings: settings(&served),
    }))
}

fn route(route: &crate::config::Route) -> RouteJson {
    RouteJson {
        topic: route.topic.clone(),
        namespace: route.namespace.clone(),
        tenant: route.tenant.map(|tenant| tenant.to_string()),
        aggregate_type: route.aggregate_type.clone(),
        destination: route.sink.clone(),
    }
}

fn settings(served: &Served) -> SettingsJson {
    let settings = &served.settings;
    let cleaning = &settings.cleaning;
    SettingsJson {
        deliver: settings.deliver,
        mode: match settings.mode {
            Mode::SingleActive => "single-active",
            _ => "parallel",
        },
        ordering: match settings.ordering {
            Ordering::None => "none",
            Ordering::Key(_) => "key",
        },
        max_attempts: settings.max_attempts,
        lease_seconds: settings.lease.as_secs_f64(),
        dispatch_timeout_seconds: settings.dispatch_timeout.as_secs_f64(),
        batch_size: settings.batch_size,
        in_flight: settings.in_flight,
        clean: cleaning.enabled,
        retention_seconds: cleaning.retention.as_secs_f64(),
        dead_retention_seconds: cleaning.dead_retention.map(|it| it.as_secs_f64()),
    }
}

/// The last quarter of an hour, a point for each second.
#[derive(Serialize)]
pub(in super::super) struct Series {
    outbox: String,
    points: Vec<Point>,
}

pub(in super::super) async fn series(
    State(desk): State<Arc<Desk>>,
    At(served): At,
) -> Answer<Series> {
    let place = desk.served.iter().position(|it| Arc::ptr_eq(it, &served));
    Answer(Series {
        outbox: served.name.clone(),
        points: place.map_or_else(Vec::new, |place| desk.live.points(place)),
    })
}
