//! Pages for people: where they sign in, and where they are then. No script, nothing from elsewhere.

use std::sync::Arc;
use std::time::Instant;

use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};

use super::desk::Desk;
use super::fault::Fault;

const HOME: &str = include_str!("page/home.html");
const LOGIN: &str = include_str!("page/login.html");
const STYLE: &str = include_str!("page/style.css");

const HTML: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
/// More than a token ever is.
const BODY: usize = 4096;

pub(super) async fn home() -> Response {
    (HTML, HOME).into_response()
}

pub(super) async fn login() -> Response {
    (HTML, LOGIN).into_response()
}

pub(super) async fn style() -> Response {
    let css = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (css, STYLE).into_response()
}

/// Begins a session: the token comes in a form, and a cookie goes back.
pub(super) async fn sign_in(
    State(desk): State<Arc<Desk>>,
    request: Request,
) -> Result<Response, Fault> {
    let body = to_bytes(request.into_body(), BODY).await;
    let body = body.map_err(|_| Fault::new("admin.too_large", "the form is too large"))?;
    let form = std::str::from_utf8(&body).unwrap_or_default();
    let caller = match desk.auth.by_secret(&token(form)) {
        Ok(caller) => caller,
        Err(fault) => {
            tracing::warn!("somebody could not sign in");
            return Ok((fault.status(), HTML, refused()).into_response());
        }
    };
    tracing::info!(token = caller.name, "signed in");
    let cookie = desk.auth.sessions.begin(&caller.name, Instant::now());
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, http::HeaderValue::from_static("/")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Ends the session.
pub(super) async fn sign_out(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    let cookie = desk.auth.sessions.end(&headers);
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
                "<script", "style=", "<style", "http:", "https:", "onclick", "//",
            ] {
                assert!(!page.contains(odd), "{odd}");
            }
        }
        assert!(LOGIN.contains("<!-- why -->"));
    }
}
