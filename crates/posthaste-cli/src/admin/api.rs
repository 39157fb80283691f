//! `/api/v1`: one file for each theme. Here is what they read requests with.
//!
//! What a request says is checked against the table of routes, so that the document in `openapi.rs`
//! and the program cannot differ.

pub(super) mod act;
pub(super) mod control;
pub(super) mod events;
pub(super) mod groups;
pub(super) mod jobs;
pub(super) mod overview;
pub(super) mod select;
pub(super) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request};
use http::header;
use http::request::Parts;
use posthaste::store::Act;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::auth::Caller;
use super::desk::{Desk, Served};
use super::fault::Fault;
use super::routes::{self, In};

/// The largest body that is read.
const BODY: usize = 256 * 1024;
/// Who sends a body sends it in this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest reason that is kept.
const WHY: usize = 500;

/// The outbox that a path names.
pub(super) struct At(pub(super) Arc<Served>);

/// The event or job that a path names.
pub(super) struct Id(pub(super) Uuid);

/// The parameters of a query.
pub(super) struct Params(BTreeMap<String, String>);

/// What a body says.
pub(super) struct Said<T>(pub(super) T);

/// Who asks.
pub(super) struct By(pub(super) Caller);

/// A body, if it is no longer than this and comes in time.
pub(super) async fn body(body: Body, longest: usize) -> Result<Bytes, Fault> {
    match tokio::time::timeout(PATIENCE, to_bytes(body, longest)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(Fault::new("admin.too_large", "the body is too large")),
        Err(_) => Err(Fault::new("admin.late", "the body did not come in time")),
    }
}

async fn part(parts: &mut Parts, name: &str) -> Result<Option<String>, Fault> {
    let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, &()).await;
    let Path(mut path) =
        path.map_err(|_| Fault::new("admin.not_found", "there is no such path"))?;
    Ok(path.remove(name))
}

impl FromRequestParts<Arc<Desk>> for At {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Fault> {
        let name = part(parts, "outbox").await?.unwrap_or_default();
        desk.outbox(&name).cloned().map(Self)
    }
}

impl FromRequestParts<Arc<Desk>> for Id {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Desk>) -> Result<Self, Fault> {
        let id = part(parts, "id").await?.unwrap_or_default();
        let id = Uuid::try_parse(&id).map_err(|_| Fault::new("admin.query", "the id is no uuid"));
        id.map(Self)
    }
}

impl FromRequestParts<Arc<Desk>> for By {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Desk>) -> Result<Self, Fault> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let nobody = || Fault::new("admin.unauthenticated", "who calls is not known");
        caller.map(Self).ok_or_else(nobody)
    }
}

impl FromRequestParts<Arc<Desk>> for Params {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Desk>) -> Result<Self, Fault> {
        let path = parts.extensions.get::<MatchedPath>();
        let route = path.and_then(|path| routes::find(&parts.method, path.as_str()));
        let known = route.map_or(&[][..], |route| route.params);
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| Fault::new("admin.query", "the query cannot be read"))?;
        let mut params = BTreeMap::new();
        for (name, value) in pairs.0 {
            let is_known = |param: &&routes::Param| param.place == In::Query && param.name == name;
            if known.iter().find(is_known).is_none() {
                let message = format!("there is no parameter {name:?} here");
                return Err(Fault::new("admin.query", message));
            }
            if params.insert(name.clone(), value).is_some() {
                let message = format!("the parameter {name:?} is given twice");
                return Err(Fault::new("admin.query", message));
            }
        }
        Ok(Self(params))
    }
}

impl Params {
    /// What is left, after the others were taken.
    pub(super) fn rest(self) -> BTreeMap<String, String> {
        self.0
    }

    /// Takes a parameter, if it is given.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a number within these bounds.
    pub(super) fn number(
        &mut self,
        name: &str,
        default: u32,
        within: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, Fault> {
        let Some(text) = self.take(name) else {
            return Ok(default);
        };
        // No sign: what the document calls an integer has none here.
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse().ok().filter(|n| digits && within.contains(n)) {
            Some(number) => Ok(number),
            None => {
                let (least, most) = within.into_inner();
                let message = format!("{name} is a number from {least} to {most}");
                Err(Fault::new("admin.query", message))
            }
        }
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Desk>> for Said<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &Arc<Desk>) -> Result<Self, Fault> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(Fault::new("admin.media_type", "the body is not JSON"));
        }
        let body = body(request.into_body(), BODY).await?;
        let said = serde_json::from_slice(&body);
        said.map(Self)
            .map_err(|error| Fault::new("admin.body", format!("the body does not fit: {error}")))
    }
}

impl By {
    /// For the audit log: who, and why.
    pub(super) fn act(&self, why: &str) -> Result<Act, Fault> {
        let why = why.trim();
        if why.is_empty() || why.chars().count() > WHY {
            let message = format!("why has 1 to {WHY} characters: the audit log keeps it");
            return Err(Fault::new("admin.body", message));
        }
        Ok(Act {
            actor: self.0.name.clone(),
            why: why.to_owned(),
        })
    }
}
