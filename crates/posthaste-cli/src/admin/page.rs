//! Pages for people: where they sign in, and the dashboard, whose files are in this program.
//!
//! The files hold nothing of any outbox: what pages show they ask the API for, as anybody does.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};

use super::api;
use super::auth::{Peer, Secure};
use super::desk::Desk;
use super::fault::Fault;

const HOME: &str = include_str!("page/index.html");
const LOGIN: &str = include_str!("page/login.html");

/// What the pages are made of.
macro_rules! files {
    ($($name:literal)*) => {
        /// The names of the files under `/page/`.
        pub(super) const NAMES: &[&str] = &[$($name),*];
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("page/", $name)))),*];
    };
}

files! {
    "api.js" "app.js" "audit.js" "chart.js" "database.js" "dead.js" "destinations.js" "dialog.js"
    "dom.js" "event.js" "events.js" "format.js" "icon.svg" "icons.svg" "json.js" "live.js"
    "overview.js" "parts.css" "payload.js" "redeliver.js" "relays.js" "style.css" "theme.js"
}

const HTML: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
/// More than a token ever is.
const BODY: usize = 4096;

pub(super) async fn home() -> Response {
    (HTML, HOME).into_response()
}

pub(super) async fn login() -> Response {
    (HTML, LOGIN).into_response()
}

/// `/page/{file}`.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Fault> {
    let file = FILES.iter().find(|(it, _)| *it == name);
    let (name, text) =
        file.ok_or_else(|| Fault::new("admin.not_found", "there is no such file"))?;
    Ok(([(header::CONTENT_TYPE, kind(name))], *text).into_response())
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// Begins a session: the token comes in a form, and a cookie goes back.
pub(super) async fn sign_in(
    State(desk): State<Arc<Desk>>,
    Extension(secure): Extension<Secure>,
    request: Request,
) -> Result<Response, Fault> {
    let peer = Peer::key(request.extensions().get::<Peer>().copied());
    let body = api::body(request.into_body(), BODY).await?;
    let form = std::str::from_utf8(&body).unwrap_or_default();
    let caller = match desk.auth.by_secret(&token(form)) {
        Ok(caller) => caller,
        Err(fault) => {
            tracing::warn!(peer, "somebody could not sign in");
            return Ok((fault.status(), HTML, refused()).into_response());
        }
    };
    tracing::info!(token = caller.name, "signed in");
    let cookie = desk
        .auth
        .sessions
        .begin(&caller.name, secure, Instant::now());
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, http::HeaderValue::from_static("/")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Ends the session.
pub(super) async fn sign_out(
    State(desk): State<Arc<Desk>>,
    Extension(secure): Extension<Secure>,
    headers: HeaderMap,
) -> Response {
    let cookie = desk.auth.sessions.end(&headers, secure);
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, http::HeaderValue::from_static("/login")),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The field `token` of a form.
fn token(form: &str) -> String {
    let uri = http::Uri::builder()
        .path_and_query(format!("/?{form}"))
        .build();
    let pairs = uri
        .ok()
        .and_then(|uri| Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
    let pairs = pairs.map(|Query(pairs)| pairs).unwrap_or_default();
    let mut tokens = pairs.into_iter().filter(|(name, _)| name == "token");
    tokens
        .next()
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

fn refused() -> String {
    LOGIN.replace(
        "<!-- why -->",
        "<p class=\"bad\" role=\"alert\">This token is not known here, or has expired.</p>",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_form_is_read() {
        assert_eq!(token("token=phst_abc-_1"), "phst_abc-_1");
        assert_eq!(token("a=b&token=+x%20"), "x");
        for odd in ["", "tokens=x", "token", "%", "token=%ff"] {
            assert!(
                token(odd).is_empty() || token(odd).contains('\u{fffd}'),
                "{odd}"
            );
        }
    }

    #[test]
    fn no_page_holds_script_or_style_or_names_anything_elsewhere() {
        for page in [HOME, LOGIN] {
            for odd in [
                "<script>", "style=", "<style", "http:", "https:", "onclick", "\"//",
            ] {
                assert!(!page.contains(odd), "{odd}");
            }
        }
        assert!(LOGIN.contains("<!-- why -->") && !LOGIN.contains("<script"));
    }

    #[test]
    fn no_file_makes_markup_of_text_or_asks_anybody_else() {
        for (name, text) in FILES {
            let own = text.replace("http://www.w3.org/", "");
            for odd in [
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "Function(",
                "http:",
                "https:",
                "@import",
                "url(",
            ] {
                assert!(!own.contains(odd), "{name}: {odd}");
            }
        }
    }

    #[test]
    fn every_file_is_served_and_every_file_that_is_named_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/page");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".html"))
            .collect();
        there.sort();
        assert_eq!(there, NAMES);
        let all = FILES.iter().map(|(_, text)| *text).chain([HOME, LOGIN]);
        for text in all {
            let named = text.split("/page/").skip(1);
            let imported = text.split("from \"./").skip(1);
            for rest in named.chain(imported) {
                let name = rest.split(['"', '#']).next().unwrap();
                assert!(NAMES.contains(&name), "{name}");
            }
        }
    }
}
