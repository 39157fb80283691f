//! The one layer in front of every route: is the request meant for us, is it from us, who sends it,
//! may they, and not too often. What a browser has to know goes with every answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use super::auth::{By, Caller, Peer};
use super::desk::Desk;
use super::fault::Fault;
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
    let host = host(request.uri(), request.headers());
    let meant = host.as_deref().is_some_and(|host| desk.is_called(host));
    if !meant {
        let message = format!("this is not {}", host.as_deref().unwrap_or("any host"));
        return Err(refuse(Fault::new("admin.host", message)));
    }
    let path = request.extensions().get::<MatchedPath>();
    // What is not there answers for itself.
    let route = path.and_then(|path| routes::find(request.method(), path.as_str()));
    let Some(route) = route else {
        return Ok(());
    };
    let patient = |request: &Request| desk.signing_in.admits(&peer(request), Instant::now());
    let Need::Role(needed) = route.need else {
        return match is_change(request.method()) {
            true if !patient(request) => Err(refuse(too_many())),
            true => own_site(desk, request, None).map_err(refuse),
            false => Ok(()),
        };
    };
    let caller = match desk.auth.caller(request.headers()) {
        Ok(caller) => caller,
        Err(_) if route.kind == Kind::Page => return Err(Box::new(to_login())),
        Err(fault) => {
            // Who says nothing guesses nothing.
            let guess = request.headers().contains_key(header::AUTHORIZATION);
            return Err(refuse(match !guess || patient(request) {
                true => fault,
                false => too_many(),
            }));
        }
    };
    let key = match caller.by {
        By::Machine => peer(request),
        By::Token | By::Session => caller.name.clone(),
    };
    if !desk.asking.admits(&key, Instant::now()) {
        return Err(refuse(too_many()));
    }
    if is_change(request.method()) {
        own_site(desk, request, Some(&caller)).map_err(refuse)?;
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
    let peer = request.extensions().get::<Peer>();
    peer.map_or_else(String::new, |peer| format!("from {}", peer.0))
}

fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether a change comes from our own pages, or from no browser at all. Browsers say where a
/// request comes from, and no page can make them lie about it.
fn own_site(desk: &Desk, request: &Request, caller: Option<&Caller>) -> Result<(), Fault> {
    let headers = request.headers();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let origin = text("origin").map(|origin| {
        let scheme = if desk.secure { "https" } else { "http" };
        let host = host(request.uri(), headers).unwrap_or_default();
        origin.eq_ignore_ascii_case(&format!("{scheme}://{host}"))
    });
    let ours = match (text("sec-fetch-site"), origin) {
        (Some(site), None) => site == "same-origin",
        (Some(site), Some(same)) => site == "same-origin" && same,
        (None, Some(same)) => same,
        // No browser. A cookie is only for browsers.
        (None, None) => caller.is_none_or(|caller| caller.by != By::Session),
    };
    match ours {
        true => Ok(()),
        false => Err(Fault::new(
            "admin.cross_site",
            "this request comes from another site",
        )),
    }
}

/// The host that a request is for, with its port.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut given = headers.get_all(header::HOST).into_iter();
    match (given.next(), given.next()) {
        (Some(host), None) => host.to_str().ok().map(str::to_owned),
        (None, _) => uri.authority().map(ToString::to_string),
        (Some(_), Some(_)) => None,
    }
}

/// Whether a host of a request is one of ours: no page can call us by a name of its own that
/// leads here (DNS rebinding), as it has to have a name.
pub(super) fn is_ours(host: &str, allowed: &[String]) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => address,
        Some((address, port)) if port.strip_prefix(':').is_some_and(is_port) => address,
        Some(_) => return false,
        None => match host.split_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_and_bare_addresses_are_called() {
        let allowed = ["ops.example".to_owned()];
        for ours in [
            "localhost",
            "LOCALHOST:7411",
            "127.0.0.1:7411",
            "[::1]:7411",
            "10.1.2.3",
            "ops.example",
            "Ops.Example:443",
        ] {
            assert!(is_ours(ours, &allowed), "{ours}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:7411:x",
            "localhost:",
            "[::1",
            "[::1]x",
            "ops.example@evil.example",
            "ops.example.",
        ] {
            assert!(!is_ours(other, &allowed), "{other}");
        }
    }
}
