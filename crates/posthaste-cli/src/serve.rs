//! From an outbox of the configuration to a relay at work.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use posthaste::Store;
use posthaste_relay::{Relay, SettingsError};

use crate::admin::Served;
use crate::config::{self, Destination};
use crate::failure::Failure;
use crate::place;

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Relays one outbox until the future is ready.
pub(crate) async fn serve(
    outbox: config::Outbox,
    sinks: Arc<BTreeMap<String, Destination>>,
    served: Arc<Served>,
    until: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let mut until = std::pin::pin!(until);
    let store = tokio::select! {
        store = connect(&outbox, &served.name) => store?,
        () = &mut until => return Ok(()),
    };
    served.opened(store.clone());
    let destinations: Vec<&str> = outbox
        .routes
        .iter()
        .map(|route| route.sink.as_str())
        .collect();
    tracing::info!(
        table = served.name,
        deliver = outbox.settings.deliver,
        clean = outbox.settings.cleaning.enabled,
        destinations = destinations.join(", "),
        "serving an outbox"
    );
    let relay = relay(&outbox, &served.name, store, &sinks);
    let relay = relay.map_err(|error| Failure::usage(error.to_string()))?;
    served.relayed(relay.view());
    relay.run(until).await;
    Ok(())
}

/// Tries until the database answers. Any other trouble ends it at once: time does not mend that.
async fn connect(outbox: &config::Outbox, name: &str) -> Result<Arc<dyn Store>, Failure> {
    let mut pause = FIRST_PAUSE;
    loop {
        let failure = match open(outbox).await {
            Ok(store) => return Ok(store),
            Err(failure) => failure,
        };
        if !matches!(failure, Failure::Unavailable(_)) {
            return Err(failure);
        }
        // There is no relay yet that would tell of it.
        metrics::counter!(
            "outbox_store_errors_total",
            "table" => name.to_owned(),
            "result" => "store.unavailable"
        )
        .increment(1);
        tracing::warn!(table = %name, "{failure} Trying again in {pause:?}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn open(outbox: &config::Outbox) -> Result<Arc<dyn Store>, Failure> {
    let store = place::connect(outbox).await?;
    if outbox.settings.deliver {
        // Now rather than in the loop: who may not relay here should hear of it at once.
        store.take_over().await?;
    }
    Ok(store)
}

fn relay(
    outbox: &config::Outbox,
    name: &str,
    store: Arc<dyn Store>,
    sinks: &BTreeMap<String, Destination>,
) -> Result<Relay, SettingsError> {
    let mut builder = Relay::builder_on(store)
        .named(name)
        .settings(outbox.settings.clone());
    let mut added = Vec::new();
    for route in &outbox.routes {
        if let Some(destination) = sinks.get(&route.sink)
            && !added.contains(&&route.sink)
        {
            builder = builder.destination(&route.sink, destination.sink.clone());
            if let Some(deliveries) = destination.concurrency {
                builder = builder.concurrency(deliveries);
            }
            added.push(&route.sink);
        }
        builder = builder.route(route.matcher(), &route.sink);
    }
    builder.build()
}
