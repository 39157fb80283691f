//! How a request fails: a status for programs, a stable code, and what to do about it.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use posthaste::StoreError;
use serde::Serialize;

/// Why a request was not answered as asked. Callers depend on the codes: see `docs/admin.md`.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    told: Told,
    /// A header that goes with it.
    header: Option<(header::HeaderName, &'static str)>,
}

#[derive(Debug, Serialize)]
struct Told {
    code: &'static str,
    message: String,
    remedy: String,
}

/// Every code that is not a store's: its status, and what to do.
const CODES: &[(&str, StatusCode, &str)] = &[
    (
        "admin.unauthenticated",
        StatusCode::UNAUTHORIZED,
        "send `Authorization: Bearer TOKEN`, or log in at /login; `posthaste token create` makes tokens",
    ),
    (
        "admin.token_expired",
        StatusCode::UNAUTHORIZED,
        "make another one with `posthaste token create`",
    ),
    (
        "admin.forbidden",
        StatusCode::FORBIDDEN,
        "use a token with that role: `posthaste token create NAME --role ROLE` makes one",
    ),
    (
        "admin.cross_site",
        StatusCode::FORBIDDEN,
        "changes are only accepted from this site's own pages, or from programs with a token; if something before the daemon speaks TLS, put its address under allowed_hosts, such as https://ops.example",
    ),
    (
        "admin.host",
        StatusCode::MISDIRECTED_REQUEST,
        "call it by its address, or add the name to allowed_hosts under [admin]",
    ),
    (
        "admin.too_many",
        StatusCode::TOO_MANY_REQUESTS,
        "wait a second, or raise rate_limit under [admin]",
    ),
    (
        "admin.not_found",
        StatusCode::NOT_FOUND,
        "/api/v1/openapi.json tells what there is",
    ),
    (
        "admin.no_outbox",
        StatusCode::NOT_FOUND,
        "/api/v1/overview names the outboxes",
    ),
    (
        "admin.no_event",
        StatusCode::NOT_FOUND,
        "look for it with /events; it may have been cleaned away",
    ),
    (
        "admin.no_destination",
        StatusCode::NOT_FOUND,
        "/destinations names them",
    ),
    ("admin.no_job", StatusCode::NOT_FOUND, "/jobs names them"),
    (
        "admin.method",
        StatusCode::METHOD_NOT_ALLOWED,
        "/api/v1/openapi.json tells which methods there are",
    ),
    (
        "admin.query",
        StatusCode::BAD_REQUEST,
        "/api/v1/openapi.json tells which parameters there are",
    ),
    (
        "admin.body",
        StatusCode::BAD_REQUEST,
        "/api/v1/openapi.json tells what the body has to be",
    ),
    (
        "admin.media_type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "send JSON, with Content-Type: application/json",
    ),
    (
        "admin.too_large",
        StatusCode::PAYLOAD_TOO_LARGE,
        "send less: at most 256 KiB",
    ),
    (
        "admin.late",
        StatusCode::REQUEST_TIMEOUT,
        "send the body within ten seconds",
    ),
    (
        "admin.unfiltered",
        StatusCode::UNPROCESSABLE_ENTITY,
        "narrow it down, or say that you mean all with \"all\": true",
    ),
    (
        "admin.conflict",
        StatusCode::CONFLICT,
        "look at it again: it has changed meanwhile, or is another one",
    ),
    (
        "admin.not_connected",
        StatusCode::SERVICE_UNAVAILABLE,
        "the daemon goes on trying; is the database running, and its address right?",
    ),
    (
        "admin.slow",
        StatusCode::GATEWAY_TIMEOUT,
        "narrow the question down: by status, topic or time",
    ),
    (
        "admin.unsure",
        StatusCode::GATEWAY_TIMEOUT,
        "it may have been done, or be about to: look at /audit before you try again; a redelivery with the id of its job can be asked for again as it is",
    ),
];

impl Fault {
    /// One of the codes above.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        let (_, status, remedy) = CODES
            .iter()
            .find(|(known, ..)| *known == code)
            .expect("a code of the table");
        let header = match code {
            "admin.unauthenticated" | "admin.token_expired" => {
                Some((header::WWW_AUTHENTICATE, "Bearer"))
            }
            "admin.too_many" => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        Self {
            status: *status,
            told: Told {
                code,
                message: message.into(),
                remedy: (*remedy).to_owned(),
            },
            header,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = json(self.status, &self.told);
        if let Some((name, value)) = self.header {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// What a store says of itself is told by its code: what the driver said may be about addresses.
impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let (status, remedy) = match &error {
            StoreError::Unavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "is the database running? The daemon's log says more",
            ),
            StoreError::Schema(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "run `posthaste migrate`, then start the daemon again",
            ),
            StoreError::Denied(_) => (
                StatusCode::FORBIDDEN,
                "the daemon's database user may only relay: grant it the operator role as well, which `posthaste migrate --print --roles` makes",
            ),
            StoreError::Slow(_) => (
                StatusCode::GATEWAY_TIMEOUT,
                "narrow the question down: by status, topic or time",
            ),
            _ => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the daemon's log says more",
            ),
        };
        tracing::warn!(
            code = error.code(),
            "the store did not answer an operator: {}",
            crate::failure::whole(&error)
        );
        Self {
            status,
            told: Told {
                code: error.code(),
                message: error.to_string(),
                remedy: remedy.to_owned(),
            },
            header: None,
        }
    }
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let text = serde_json::to_vec(body).expect("our own types are JSON");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// All that went well, in JSON.
pub(super) struct Answer<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // B22
    #[test]
    fn every_code_is_told_in_the_guide() {
        let guide = include_str!("../../../../docs/admin.md");
        for (code, status, _) in CODES {
            let row = format!("| `{code}` | {} |", status.as_u16());
            assert!(guide.contains(&row), "docs/admin.md lacks {row}");
        }
    }
}
