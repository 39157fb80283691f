//! `run`: the daemon. Relays every configured outbox until it is told to stop.

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin::{self, Recorder, Served};
use crate::cli::Place;
use crate::config::{Config, Outbox};
use crate::failure::Failure;
use crate::supervisor::Supervisor;
use crate::trace::Export;
use crate::{log, place, serve};

const EXAMPLES: &str = "\
Examples:
  posthaste run                                # all that posthaste.toml in this folder names
  posthaste run --config /etc/posthaste.toml
  posthaste run --table billing.outbox         # only this one of them

SIGTERM and SIGINT (Ctrl-C) stop it: it finishes what is under way and hands the rest back. Once
more stops it at once, with exit code 130. The configuration is read at the start, and never again.
Logs go to standard error: standard output may be a destination.";

/// What was asked for.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Run;

/// The exit code of a process that a second signal ended.
pub(super) const IMPATIENT: i32 = 130;

/// Runs until SIGTERM or SIGINT, or until an outbox cannot be served.
pub(crate) fn run(place: &Place) -> Result<(), Failure> {
    let config = place::load(place)?;
    let mut outboxes = place::selected(&config, place)?;
    let aimless = |outbox: &&Outbox| outbox.settings.deliver && outbox.routes.is_empty();
    if let Some(outbox) = outboxes.iter().find(aimless) {
        return Err(Failure::usage(format!(
            "nothing says where the events of {} go: write a posthaste.toml with this [[outbox]] and a [sink]",
            outbox.table
        )));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let export = match &config.tracing {
        Some(tracing) => Some(Export::start(tracing, runtime.handle())?),
        None => None,
    };
    log::start(&config.log, export.as_ref());
    if let Some(tracing) = &config.tracing {
        tracing::info!(endpoint = tracing.endpoint, "exporting spans");
        for outbox in &mut outboxes {
            outbox.settings.trace = Some(posthaste_relay::OPENTELEMETRY);
        }
    }
    let ended = runtime.block_on(serve_all(config, outboxes));
    // While the runtime still runs: the last spans leave through it.
    if let Some(export) = export {
        export.end();
    }
    ended
}

async fn serve_all(config: Config, wanted: Vec<Outbox>) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let (stop, stopped) = watch::channel(false);
    let sinks = Arc::new(config.sinks);
    let served = Served::all(&wanted);
    let server = admin::Server::start(&config.admin, served.clone(), Recorder::install()?).await?;
    let supervisor = Supervisor::from_environment();
    supervisor.ready(wanted.len());
    let mut outboxes = JoinSet::new();
    for (outbox, served) in wanted.into_iter().zip(served) {
        let mut stopped = stopped.clone();
        let until = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        outboxes.spawn(serve::serve(outbox, sinks.clone(), served, until));
    }
    let finish = || {
        supervisor.stopping();
        server.iter().for_each(admin::Server::stops);
        let _ = stop.send(true);
    };
    let (mut result, mut was_asked) = (Ok(()), false);
    loop {
        let ended = tokio::select! {
            ended = outboxes.join_next() => ended,
            () = supervisor.keep_alive() => continue,
            asked = signals.asked_to_stop() => {
                if was_asked {
                    tracing::warn!("stopping at once: what is under way is delivered again later");
                    std::process::exit(IMPATIENT);
                }
                tracing::info!(signal = asked, "stopping: finishing what is under way; once more to stop at once");
                was_asked = true;
                finish();
                continue;
            }
        };
        match ended {
            None => {
                // Last of all, so that the last of the numbers can still be fetched.
                if let Some(server) = server {
                    server.end().await;
                }
                return result;
            }
            Some(Ok(Ok(()))) => {}
            // One that cannot be served ends all: half a daemon would go unnoticed.
            Some(Ok(Err(failure))) => {
                if !outboxes.is_empty() {
                    tracing::error!("stopping all outboxes, because of one: {failure}");
                }
                finish();
                result = result.and(Err(failure));
            }
            Some(Err(panic)) => {
                finish();
                result = result.and(Err(Failure::Other(format!("a relay broke: {panic}"))));
            }
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let catch = |kind| {
            signal(kind).map_err(|error| Failure::Other(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    async fn asked_to_stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hang_up.recv() => {
                    tracing::warn!("SIGHUP does nothing: to read the configuration anew, restart");
                }
            }
        }
    }
}
