//! Webhooks: each event is one POST, signed as Standard Webhooks says.
//!
//! An answer of 2xx is what makes an event delivered. It never follows a redirect, uses no proxy,
//! and dials no address that is not of the internet, unless it is allowed to.

mod alive;
mod answer;
mod guard;
mod settings;
mod sign;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use posthaste::Event;
use posthaste::header::CONTENT_ENCODING;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub use settings::HttpBuilder;

use self::alive::{Alive, Endpoint};
use self::answer::Told;
use self::sign::{Secret, signatures};
use super::suspects::Suspects;
use super::{Outcome, Sink};
use crate::envelope::{Binding, Envelope, Sealed};
use crate::escape::is_unreserved;
use crate::template::{Otherwise, Rule, Template};

/// Posts events to an endpoint. See [`Http::builder`].
pub struct Http {
    endpoint: Endpoint,
    /// What follows scheme, host and port is made of the event.
    path: Template,
    /// The whole URL, if it is the same for every event.
    fixed: Option<Url>,
    envelope: Envelope,
    secrets: Vec<Secret>,
    headers: HeaderMap,
    /// What was configured and must be in no error.
    untold: Vec<String>,
    suspects: Suspects,
}

/// Path and query of a URL. Fields of events cannot leave their place in it.
const PATH: Rule = Rule {
    what: "a URL",
    allows: |field, c| is_unreserved(c) || (field.is_none() && "/?:@!$&'()*+,;=%".contains(c)),
    otherwise: Otherwise::Escape,
    longest: 8 * 1024,
    whole: |path| {
        let path = path.split('?').next().unwrap_or_default();
        let climbs =
            |part: &str| matches!(&*part.to_ascii_lowercase().replace("%2e", "."), "." | "..");
        match path.split('/').any(climbs) {
            true => Err("a part of the path is . or .."),
            false => Ok(()),
        }
    },
};

impl Http {
    /// Sets up an endpoint. Path and query may have fields of the event in them:
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste_relay::sink::SinkError> {
    /// use posthaste_relay::sink::Http;
    ///
    /// let sink = Http::builder("https://hooks.example/orders/{topic}")
    ///     .secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: impl Into<String>) -> HttpBuilder {
        HttpBuilder::new(url.into())
    }

    /// Where an event goes.
    fn url(&self, event: &Event) -> Result<Url, String> {
        if let Some(url) = &self.fixed {
            return Ok(url.clone());
        }
        let path = self
            .path
            .render(event, &PATH)
            .map_err(|error| error.to_string())?;
        url(&self.endpoint.origin, &path)
    }

    fn headers(&self, event: &Event, sealed: &Sealed<'_>) -> Result<HeaderMap, String> {
        let mut headers = self.headers.clone();
        for (name, value) in sealed.headers(Binding::Http) {
            let refuse = || format!("header {name:?} cannot be carried");
            let key = HeaderName::try_from(&*name).map_err(|_| refuse())?;
            let value = HeaderValue::try_from(value.into_owned()).map_err(|_| refuse())?;
            if headers.insert(key, value).is_some() {
                return Err(format!(
                    "header {name:?} is one that this destination sets itself"
                ));
            }
        }
        if !self.secrets.is_empty() {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let (id, timestamp) = (event.id.to_string(), now.as_secs().to_string());
            let signatures = signatures(&self.secrets, &id, &timestamp, &sealed.body);
            for (name, value) in [
                ("webhook-id", id),
                ("webhook-timestamp", timestamp),
                ("webhook-signature", signatures),
            ] {
                let value = HeaderValue::try_from(value).expect("digits and base64");
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        Ok(headers)
    }

    /// What became of a call that got no answer.
    async fn unanswered(
        &self,
        alive: &Arc<Alive>,
        event: &Event,
        error: reqwest::Error,
    ) -> Outcome {
        // It was never sent, or so it seems: the URL is not in it, as it may have fields in it.
        let error = error.without_url();
        let why = causes(&error);
        if error.is_connect() {
            return Outcome::Unavailable(format!("cannot connect: {why}"));
        }
        if error.is_builder() {
            return Outcome::Reject(format!("cannot be sent: {why}"));
        }
        let why = match error.is_timeout() {
            true => format!("no answer in time: {why}"),
            false => format!("the connection broke: {why}"),
        };
        self.endpoint.doubt(alive);
        if alive.is_presumed {
            return self.suspects.disconnected(event, why);
        }
        match self.endpoint.answers().await {
            Err(_) => Outcome::Unavailable(why),
            // To this event alone it does not answer.
            Ok(_) if error.is_timeout() => Outcome::Retry(why),
            Ok(_) => self.suspects.disconnected(event, why),
        }
    }
}

#[async_trait]
impl Sink for Http {
    fn system(&self) -> &'static str {
        "http"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let sealed = match self.envelope.seal(&event) {
            Ok(sealed) => sealed,
            Err(error) => return Outcome::Reject(error.to_string()),
        };
        let (url, headers) = match (self.url(&event), self.headers(&event, &sealed)) {
            (Ok(url), Ok(headers)) => (url, headers),
            (Err(why), _) | (_, Err(why)) => return Outcome::Reject(why),
        };
        let alive = match self.endpoint.answers().await {
            Ok(alive) => alive,
            Err(why) => return Outcome::Unavailable(why),
        };
        let request = self.endpoint.client.post(url).headers(headers);
        let request = request.body(sealed.body.clone());
        match request.send().await {
            Ok(response) => {
                self.suspects.cleared(&event);
                let told = Told {
                    secrets: &self.untold,
                    body: &sealed.body,
                    payload: &event.payload,
                    is_compressed: event.headers.contains_key(CONTENT_ENCODING),
                };
                answer::outcome(response, told).await
            }
            Err(error) => self.unanswered(&alive, &event, error).await,
        }
    }

    /// Nothing is posted, so nothing can be told from it about events.
    async fn check(&self) -> Result<String, String> {
        let origin = &self.endpoint.origin;
        match self.endpoint.ask().await {
            Ok(response) => Ok(format!(
                "{origin} answers by {:?}; an event is delivered once its endpoint says 2xx, and how safe it \
                 is then is up to it",
                response.version()
            )),
            Err(why) => Err(format!("{origin} does not answer: {why}")),
        }
    }
}

fn url(origin: &str, path: &str) -> Result<Url, String> {
    Url::parse(&format!("{origin}{path}")).map_err(|error| format!("no URL: {error}"))
}

/// An error with all that led to it, as the first often says little.
fn causes(error: &reqwest::Error) -> String {
    let first = std::error::Error::source(error);
    let mut causes: Vec<String> = std::iter::successors(first, |cause| cause.source())
        .map(ToString::to_string)
        .collect();
    causes.dedup();
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Http({}{})", self.endpoint.origin, self.path)
    }
}

#[cfg(test)]
mod tests;
