//! `run`: the daemon. Relays every configured outbox until it is told to stop.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli::Place;
use crate::config::Config;
use crate::failure::Failure;
use crate::{log, place, serve};

/// The exit code of a process that a second signal ended.
const IMPATIENT: i32 = 130;

/// Runs until SIGTERM or SIGINT, or until an outbox cannot be served.
pub(crate) fn run(place: &Place) -> Result<(), Failure> {
    let config = place::load(place)?;
    if config.outboxes.is_empty() {
        return Err(Failure::usage(
            "there is nothing to relay: write a posthaste.toml with an [[outbox]]",
        ));
    }
    log::start(&config.log);
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve_all(config))
}

async fn serve_all(config: Config) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let (stop, stopped) = watch::channel(false);
    let sinks = Arc::new(config.sinks);
    let mut outboxes = JoinSet::new();
    for outbox in config.outboxes {
        let mut stopped = stopped.clone();
        let until = async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        outboxes.spawn(serve::serve(outbox, sinks.clone(), until));
    }
    let mut result = Ok(());
    loop {
        let ended = tokio::select! {
            ended = outboxes.join_next() => ended,
            asked = signals.asked_to_stop() => {
                if *stop.borrow() {
                    tracing::warn!("stopping at once: what is under way is delivered again later");
                    std::process::exit(IMPATIENT);
                }
                tracing::info!(signal = asked, "stopping: finishing what is under way; once more to stop at once");
                let _ = stop.send(true);
                continue;
            }
        };
        match ended {
            None => return result,
            Some(Ok(Ok(()))) => {}
            // One that cannot be served ends all: half a daemon would go unnoticed.
            Some(Ok(Err(failure))) => {
                let _ = stop.send(true);
                result = result.and(Err(failure));
            }
            Some(Err(panic)) => {
                let _ = stop.send(true);
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
