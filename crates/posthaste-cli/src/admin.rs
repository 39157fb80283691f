//! What `run` answers operators with: metrics, health, the API and pages, behind one guard.
//!
//! It looks at relays and asks stores; it never delivers anything, and nothing waits for it.

mod api;
mod auth;
mod desk;
mod fault;
mod guard;
pub(crate) mod health;
pub(crate) mod host;
mod limit;
mod listen;
mod live;
mod metrics;
mod openapi;
mod page;
mod patient;
pub(crate) mod role;
mod routes;
mod session;
pub(crate) mod token;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::config::Admin;
use crate::failure::Failure;

pub(crate) use desk::{Desk, Served};
pub(crate) use metrics::Recorder;

/// A server at work. Dropped, it ends at once.
pub(crate) struct Server {
    desk: Arc<Desk>,
    url: String,
    serving: JoinHandle<()>,
    watching: JoinHandle<()>,
}

impl Server {
    /// Starts to answer. `None`: it is switched off, or its usual address is taken, which is said.
    pub(crate) async fn start(
        admin: &Admin,
        served: Vec<Arc<Served>>,
        recorder: Recorder,
    ) -> Result<Option<Self>, Failure> {
        // Also without a listener: a relay counts all the same, and no histogram may grow for ever.
        if !admin.enabled {
            tokio::spawn(recorder.keep_up());
            return Ok(None);
        }
        let listener = match listen::Listener::bind(admin.listen, admin.tls.as_ref()).await {
            Ok(listener) => listener,
            Err(failure) if admin.chosen => return Err(failure),
            Err(failure) => {
                tracing::warn!("{failure}, or enabled = false. Going on without");
                tokio::spawn(recorder.keep_up());
                return Ok(None);
            }
        };
        let url = listener.url();
        let desk = Arc::new(Desk::new(admin, served, recorder.clone()));
        let router = routes::router()
            .layer(axum::middleware::from_fn_with_state(
                desk.clone(),
                guard::guard,
            ))
            .with_state(desk.clone());
        let serving = tokio::spawn(listener.serve(router, desk.closing()));
        let watched = desk.clone();
        let watching = tokio::spawn(async move {
            tokio::join!(watched.live.look(&watched.served), recorder.keep_up());
        });
        tracing::info!(url, "answering operators");
        Ok(Some(Self {
            desk,
            url,
            serving,
            watching,
        }))
    }

    /// Such as `http://127.0.0.1:7411`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The daemon is stopping: no longer ready, but still there to be asked.
    pub(crate) fn stops(&self) {
        self.desk.stops();
    }

    /// Ends, within a moment.
    pub(crate) async fn end(mut self) {
        self.desk.close();
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
        self.watching.abort();
    }
}
