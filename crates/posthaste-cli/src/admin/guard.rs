//! The one layer in front of every route: is the request meant for us, is it from us, who sends it,
//! may they, and not too often. What a browser has to know goes with every answer.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use super::auth::{By, Caller, Peer, Secure};
use super::desk::Desk;
use super::fault::Fault;
use super::host::{self, Called};
use super::routes::{self, Kind, Need};

/// Without script, style or picture from elsewhere, nor inline; in nobody's frame.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
                   frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CSP),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Not `no-referrer`: browsers would then tell of no origin when a form is sent.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

pub(super) async fn guard(
    State(desk): State<Arc<Desk>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match admit(&desk, &mut request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => *refusal,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What operators see is nobody else's, also on disk.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets a request pass, with its caller noted, or gives the answer to it.
fn admit(desk: &Desk, request: &mut Request) -> Result<(), Box<Response>> {
    let refuse = |fault: Fault| Box::new(fault.into_response());
    let host = host::of(request.uri(), request.headers());
    let Some(called) = host.as_deref().and_then(|host| desk.called(host)) else {
        let message = format!("this is not {}", host.as_deref().unwrap_or("any host"));
        return Err(refuse(Fault::new("admin.host", message)));
    };
    let host = host.unwrap_or_default();
    let secure = Secure(desk.secure || called != Called::Here);
    request.extensions_mut().insert(secure);
    let site = Site {
        // Something before us that speaks TLS has its own address; by any other name, it is ours.
        origin: match called {
            Called::Through(origin) => origin.to_owned(),
            Called::Here if desk.secure => format!("https://{host}"),
            Called::Here => format!("http://{host}"),
        },
    };
    let path = request.extensions().get::<MatchedPath>();
    // What is not there answers for itself.
    let route = path.and_then(|path| routes::find(request.method(), path.as_str()));
    let Some(route) = route else {
        return Ok(());
    };
    // Who guesses tokens keeps nobody from signing in.
    let patient = |request: &Request, what: &str| {
        let key = format!("{what} {}", peer(request));
        desk.signing_in.admits(&key, Instant::now())
    };
    let Need::Role(needed) = route.need else {
        return match is_change(request.method()) {
            true if !patient(request, "login") => Err(refuse(too_many())),
            true => site.sends(request, None).map_err(refuse),
            false => Ok(()),
        };
    };
    let caller = match desk.auth.caller(request.headers(), secure) {
        Ok(caller) => caller,
        Err(_) if route.kind == Kind::Page => return Err(Box::new(to_login())),
        Err(fault) => {
            // Who says nothing guesses nothing.
            let guess = request.headers().contains_key(header::AUTHORIZATION);
            return Err(refuse(match !guess || patient(request, "token") {
                true => fault,
                false => too_many(),
            }));
        }
    };
    let from = request.extensions().get::<Peer>().copied();
    if !desk.asking.admits(&caller.key(from), Instant::now()) {
        return Err(refuse(too_many()));
    }
    if is_change(request.method()) {
        site.sends(request, Some(&caller)).map_err(refuse)?;
    }
    if caller.role < needed {
        let message = format!("this needs the role {needed}, and you have {}", caller.role);
        return Err(refuse(Fault::new("admin.forbidden", message)));
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

fn too_many() -> Fault {
    Fault::new("admin.too_many", "you ask too often")
}

fn to_login() -> Response {
    let to = [(header::LOCATION, "/login")];
    (StatusCode::SEE_OTHER, to).into_response()
}

fn peer(request: &Request) -> String {
    Peer::key(request.extensions().get::<Peer>().copied())
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Where our own pages come from, as a browser tells it.
struct Site {
    origin: String,
}

impl Site {
    /// Whether a change comes from our own pages, or from no browser at all. Browsers say where a
    /// request comes from, and no page can make them lie about it.
    fn sends(&self, request: &Request, caller: Option<&Caller>) -> Result<(), Fault> {
        let headers = request.headers();
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let origin = text("origin").map(|origin| origin.eq_ignore_ascii_case(&self.origin));
        let ours = match (text("sec-fetch-site"), origin) {
            (Some(site), None) => site == "same-origin",
            (Some(site), Some(same)) => site == "same-origin" && same,
            (None, Some(same)) => same,
            // No browser. A cookie is only for browsers.
            (None, None) => caller.is_none_or(|caller| caller.by != By::Session),
        };
        if ours {
            return Ok(());
        }
        let message = format!("this request comes from another site than {}", self.origin);
        Err(Fault::new("admin.cross_site", message))
    }
}
