//! Whether an endpoint answers at all.
//!
//! Calls share no connection whose end would say that the server is gone, and one that is frozen still takes
//! connections. So once a call got no answer, the endpoint is asked for something that is no event: if it does
//! not answer to that either, it is down, and the event is not to blame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reqwest::{Client, Response};

use super::causes;
use crate::sink::link::{Link, Shared};

/// After this many questions in vain the next event is the question: some never answer to a `HEAD`.
const IN_VAIN: u32 = 10;

/// Where calls go, and whether somebody is there.
pub(super) struct Endpoint {
    pub(super) client: Client,
    /// Scheme, host and port.
    pub(super) origin: String,
    /// How long it may take to be greeted.
    patience: Duration,
    alive: Shared<Alive>,
    in_vain: AtomicU32,
}

/// It answers, as far as is known.
pub(super) struct Alive {
    /// It did not, when it was asked, and gets the benefit of the doubt.
    pub(super) is_presumed: bool,
}

impl Link for Alive {
    fn is_alive(&self) -> bool {
        true
    }
}

impl Endpoint {
    /// One that answers, until a call shows otherwise.
    pub(super) fn new(client: Client, origin: String, patience: Duration) -> Self {
        Self {
            client,
            origin,
            patience,
            alive: Shared::holding(Alive { is_presumed: false }),
            in_vain: AtomicU32::new(0),
        }
    }

    /// Whether it answers: it is asked only if there is doubt about it.
    pub(super) async fn answers(&self) -> Result<Arc<Alive>, String> {
        self.alive.get(|| self.greet()).await
    }

    /// It did not answer to a call.
    pub(super) fn doubt(&self, alive: &Arc<Alive>) {
        self.alive.forget(alive);
    }

    /// A call that is no event. Any answer to it will do.
    pub(super) async fn ask(&self) -> Result<Response, String> {
        let asked = self.client.head(&self.origin).send().await;
        asked.map_err(|error| causes(&error.without_url()))
    }

    async fn greet(&self) -> Result<Alive, String> {
        let why = match tokio::time::timeout(self.patience, self.ask()).await {
            Ok(Ok(_)) => {
                self.in_vain.store(0, Ordering::Relaxed);
                return Ok(Alive { is_presumed: false });
            }
            Ok(Err(why)) => why,
            Err(_) => format!("nothing within {:?}", self.patience),
        };
        if self.in_vain.fetch_add(1, Ordering::Relaxed) >= IN_VAIN {
            self.in_vain.store(0, Ordering::Relaxed);
            return Ok(Alive { is_presumed: true });
        }
        Err(format!("the endpoint does not answer: {why}"))
    }
}
