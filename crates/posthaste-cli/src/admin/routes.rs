//! THE table: every route with its role, what it takes, what it answers and who answers it.
//! The router, the guard and the OpenAPI document follow from it.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use http::Method;

use super::api::{act, control, events, groups, jobs, overview, state};
use super::desk::Desk;
use super::fault::Fault;
use super::role::Role;
use super::{health, live, metrics, openapi, page};

/// One route.
pub(super) struct Route {
    pub(super) method: Verb,
    pub(super) path: &'static str,
    pub(super) need: Need,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) params: &'static [Param],
    /// The schema of what it takes.
    pub(super) body: Option<&'static str>,
    pub(super) answers: Answers,
    handler: fn() -> MethodRouter<Arc<Desk>>,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verb {
    Get,
    Post,
}

impl Verb {
    pub(super) fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
        }
    }
}

/// What a caller has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Need {
    /// Anybody: for probes, and to sign in.
    Nothing,
    Role(Role),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// For people: who is not known is sent to sign in.
    Page,
    /// For programs.
    Api,
}

/// What an answer that is no fault is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answers {
    /// JSON of this schema.
    Json(&'static str),
    /// The same, and with this one if it is taken up for later.
    Accepts(&'static str, &'static str),
    /// The same, also with status 503 if something is ill.
    Judges(&'static str),
    Text(&'static str),
    /// Sends elsewhere.
    Redirect,
}

/// What a path or a query may say.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) place: In,
    pub(super) kind: Holds,
    pub(super) about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum In {
    Path,
    Query,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Holds {
    Text,
    Uuid,
    Duration,
    Cursor,
    Number(u32, u32),
    OneOf(&'static [&'static str]),
    /// Some of these, with commas.
    SomeOf(&'static [&'static str]),
    Uuids,
}

const fn query(name: &'static str, kind: Holds, about: &'static str) -> Param {
    Param {
        name,
        place: In::Query,
        kind,
        about,
    }
}

const fn path(name: &'static str, kind: Holds, about: &'static str) -> Param {
    Param {
        name,
        place: In::Path,
        kind,
        about,
    }
}

const OUTBOX: Param = path(
    "outbox",
    Holds::Text,
    "The outbox, by the name that the overview tells.",
);
const EVENT: Param = path("id", Holds::Uuid, "The event.");
const JOB: Param = path("id", Holds::Uuid, "The job.");
const LIMIT: Param = query("limit", Holds::Number(1, 500), "At most this many.");

/// The statuses of events.
pub(super) const STATUSES: &[&str] = &["pending", "processing", "delivered", "dead"];
/// Why events are dead.
pub(super) const REASONS: &[&str] = &[
    "exhausted",
    "rejected",
    "crashed",
    "malformed",
    "parked",
    "discarded",
];

/// The words of a filter, in queries; in bodies the same.
macro_rules! filtered {
    ($($first:expr),* ; $($last:expr),*) => {
        &[
            $($first,)*
            query("status", Holds::SomeOf(STATUSES), "Only with one of these."),
            query("topic", Holds::Text, "Only of topics that match: * stands for any text, ? for one character."),
            query("namespace", Holds::Text, "Only of this namespace."),
            query("tenant", Holds::Uuid, "Only of this tenant."),
            query("event_type", Holds::Text, "Only of this type."),
            query("aggregate_type", Holds::Text, "Only of aggregates of this type."),
            query("aggregate_id", Holds::Text, "Only of aggregates with this id."),
            query("error", Holds::Text, "Only with this text in their last error."),
            query("fingerprint", Holds::Text, "Only of this group of errors."),
            query("reason", Holds::OneOf(REASONS), "Only dead for this reason."),
            query("older_than", Holds::Duration, "Only enqueued longer ago than this, such as 1h30m."),
            query("newer_than", Holds::Duration, "Only enqueued since this long ago."),
            query("id", Holds::Uuids, "Only these, with commas."),
            query("q", Holds::Text, "An id, or a part of a topic."),
            $($last,)*
        ]
    };
}

/// Those of a page of events.
pub(super) const EVENTS: &[Param] = filtered!(OUTBOX; LIMIT,
    query("order", Holds::OneOf(&["newest", "oldest"]), "Which end comes first: what ended, or is due, last or first."),
    query("cursor", Holds::Cursor, "Where to go on: `next` of the page before."));
const GROUPS: &[Param] = filtered!(OUTBOX; LIMIT);

const VIEW: Need = Need::Role(Role::NoPayload);
const READ: Need = Need::Role(Role::Viewer);
const ACT: Need = Need::Role(Role::Operator);

#[rustfmt::skip]
pub(super) static ROUTES: &[Route] = &[
    probe("/livez", "Whether the process works at all.", Need::Nothing, Answers::Judges("Probe"), || get(health::live)),
    probe("/readyz", "Whether every outbox is served.", Need::Nothing, Answers::Judges("Probe"), || get(health::ready)),
    probe("/healthz", "Every check with its value, threshold and remedy.", VIEW, Answers::Judges("Health"), || get(health::all)),
    probe("/metrics", "What relays count, for Prometheus.", VIEW, Answers::Text("text/plain"), || get(metrics::scrape)),
    shown("/", "The dashboard.", VIEW, || get(page::home)),
    shown("/login", "Where people sign in.", Need::Nothing, || get(page::login)),
    Route { params: &[path("file", Holds::OneOf(page::NAMES), "Its name.")],
            ..shown("/page/{file}", "A file that pages are made of. It holds nothing of any outbox.", Need::Nothing, || get(page::file)) },
    Route { method: Verb::Post, kind: Kind::Page, answers: Answers::Redirect, body: Some("Login"),
            ..shown("/login", "Begins a session with a token.", Need::Nothing, || post(page::sign_in)) },
    Route { method: Verb::Post, kind: Kind::Page, answers: Answers::Redirect,
            ..shown("/logout", "Ends the session.", Need::Nothing, || post(page::sign_out)) },
    asked("/api/v1/openapi.json", "This document.", &[], Answers::Json("Any"), || get(openapi::document)),
    asked("/api/v1/me", "Who you are, and what you may do.", &[], Answers::Json("Me"), || get(overview::me)),
    asked("/api/v1/overview", "How every outbox stands.", &[], Answers::Json("Overview"), || get(overview::all)),
    asked("/api/v1/live", "The same every second, as server-sent events.", &[], Answers::Text("text/event-stream"), || get(live::stream)),
    asked("/api/v1/outboxes/{outbox}", "One outbox: how it stands and is relayed.", &[OUTBOX], Answers::Json("Outbox"), || get(overview::one)),
    asked("/api/v1/outboxes/{outbox}/series", "Its last quarter of an hour, a point for each second.", &[OUTBOX], Answers::Json("Series"), || get(overview::series)),
    asked("/api/v1/outboxes/{outbox}/events", "A page of events.", EVENTS, Answers::Json("Events"), || get(events::page)),
    asked("/api/v1/outboxes/{outbox}/events/{id}", "One event, with every attempt and all that operators did to it.", &[OUTBOX, EVENT], Answers::Json("EventStory"), || get(events::show)),
    Route { need: READ,
            ..asked("/api/v1/outboxes/{outbox}/events/{id}/content", "What an event says: payload and headers.", &[OUTBOX, EVENT], Answers::Json("Content"), || get(events::content)) },
    asked("/api/v1/outboxes/{outbox}/groups", "Dead events by the kind of their error.", GROUPS, Answers::Json("Groups"), || get(groups::dead)),
    asked("/api/v1/outboxes/{outbox}/blocked", "Ordering keys whose first event keeps others waiting.", &[OUTBOX, LIMIT], Answers::Json("Blocked"), || get(groups::blocked)),
    asked("/api/v1/outboxes/{outbox}/relays", "The relays that work on it.", &[OUTBOX], Answers::Json("Relays"), || get(state::relays)),
    asked("/api/v1/outboxes/{outbox}/destinations", "Where it delivers to, and whether they take events.", &[OUTBOX], Answers::Json("Destinations"), || get(state::destinations)),
    asked("/api/v1/outboxes/{outbox}/database", "How its database copes.", &[OUTBOX], Answers::Json("Database"), || get(state::database)),
    asked("/api/v1/outboxes/{outbox}/audit", "What operators did, the latest first.", &[OUTBOX,
            query("event", Holds::Uuid, "Only to this event."), query("limit", Holds::Number(1, 1000), "At most this many."),
            query("cursor", Holds::Cursor, "Where to go on: `next` of the page before.")],
          Answers::Json("AuditLog"), || get(events::audit)),
    asked("/api/v1/outboxes/{outbox}/pauses", "What is paused, by whom and why.", &[OUTBOX], Answers::Json("Pauses"), || get(control::list)),
    asked("/api/v1/outboxes/{outbox}/jobs", "Redeliveries, those under way first.", &[OUTBOX, LIMIT], Answers::Json("Jobs"), || get(jobs::list)),
    asked("/api/v1/outboxes/{outbox}/jobs/{id}", "One redelivery.", &[OUTBOX, JOB], Answers::Json("Job"), || get(jobs::show)),
    done("/api/v1/outboxes/{outbox}/jobs/{id}", "Pauses, resumes or cancels a redelivery.", &[OUTBOX, JOB], "SetJob", Answers::Json("Job"), || post(jobs::set)),
    done("/api/v1/outboxes/{outbox}/preview", "What a redelivery would touch.", &[OUTBOX], "Which", Answers::Json("Preview"), || post(act::preview)),
    done("/api/v1/outboxes/{outbox}/redeliver", "Brings dead events back, or sends delivered ones again: those named at once, those of a filter, or with an id for it, as a job.",
         &[OUTBOX], "Redeliver", Answers::Accepts("Done", "Begun"), || post(act::redeliver)),
    done("/api/v1/outboxes/{outbox}/discard", "Gives events up for good.", &[OUTBOX], "Discard", Answers::Json("Done"), || post(act::discard)),
    done("/api/v1/outboxes/{outbox}/pause", "Leaves an outbox, or one destination, in peace.", &[OUTBOX], "Target", Answers::Json("Changed"), || post(control::pause)),
    done("/api/v1/outboxes/{outbox}/resume", "Ends a pause.", &[OUTBOX], "Target", Answers::Json("Changed"), || post(control::resume)),
];

const fn asked(
    path: &'static str,
    about: &'static str,
    params: &'static [Param],
    answers: Answers,
    handler: fn() -> MethodRouter<Arc<Desk>>,
) -> Route {
    Route {
        method: Verb::Get,
        path,
        need: VIEW,
        kind: Kind::Api,
        about,
        params,
        body: None,
        answers,
        handler,
    }
}

const fn probe(
    path: &'static str,
    about: &'static str,
    need: Need,
    answers: Answers,
    handler: fn() -> MethodRouter<Arc<Desk>>,
) -> Route {
    Route {
        need,
        ..asked(path, about, &[], answers, handler)
    }
}

const fn shown(
    path: &'static str,
    about: &'static str,
    need: Need,
    handler: fn() -> MethodRouter<Arc<Desk>>,
) -> Route {
    Route {
        need,
        kind: Kind::Page,
        ..asked(path, about, &[], Answers::Text("text/html"), handler)
    }
}

const fn done(
    path: &'static str,
    about: &'static str,
    params: &'static [Param],
    body: &'static str,
    answers: Answers,
    handler: fn() -> MethodRouter<Arc<Desk>>,
) -> Route {
    Route {
        method: Verb::Post,
        need: ACT,
        body: Some(body),
        ..asked(path, about, params, answers, handler)
    }
}

/// The route of a request. `HEAD` asks for what `GET` answers.
pub(super) fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let method = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    let mut routes = ROUTES.iter();
    routes.find(|route| route.path == path && route.method.method() == *method)
}

/// Everything that can be asked, without the guard.
pub(super) fn router() -> Router<Arc<Desk>> {
    let router = ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.handler)())
    });
    let nothing = async || Fault::new("admin.not_found", "there is nothing here").into_response();
    let not_so = async || Fault::new("admin.method", "not with this method").into_response();
    router.fallback(nothing).method_not_allowed_fallback(not_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_needs_an_operator_and_every_payload_a_viewer() {
        for route in ROUTES {
            let name = format!("{:?} {}", route.method, route.path);
            let signing = ["/login", "/logout"].contains(&route.path);
            match (route.method == Verb::Get, signing) {
                (_, true) => assert_eq!(route.need, Need::Nothing, "{name}"),
                (false, false) => assert_eq!(route.need, ACT, "{name}"),
                (true, false) if route.path.ends_with("/content") => {
                    assert_eq!(route.need, READ, "{name}");
                }
                (true, false) => assert_ne!(route.need, ACT, "{name}"),
            }
        }
        let open: Vec<&str> = ROUTES
            .iter()
            .filter(|route| route.need == Need::Nothing)
            .map(|route| route.path)
            .collect();
        assert_eq!(
            open,
            [
                "/livez",
                "/readyz",
                "/login",
                "/page/{file}",
                "/login",
                "/logout"
            ]
        );
    }

    #[test]
    fn every_part_of_a_path_is_told() {
        for route in ROUTES {
            let parts = route.path.split('/').filter_map(|part| {
                let part = part.strip_prefix('{')?;
                part.strip_suffix('}')
            });
            let told = route.params.iter().filter(|it| it.place == In::Path);
            let told: Vec<&str> = told.map(|param| param.name).collect();
            assert_eq!(parts.collect::<Vec<_>>(), told, "{}", route.path);
        }
    }
}
