//! Where the outboxes are: from what was typed and configured to open stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste::Store;

use crate::cli::Place;
use crate::config::{self, Config, Outbox};
use crate::failure::Failure;
use crate::output::colours;

/// The configuration of this call: the file that was named, or is there, and the environment.
///
/// Warnings go to standard error. A command that was told database and table works without any.
pub(crate) fn load(place: &Place) -> Result<Config, Failure> {
    let path = path(place);
    if path.is_none() && !config::has_variables(config::environment()) {
        return match (&place.database, &place.table) {
            (Some(_), Some(_)) => Ok(Config::empty()),
            _ => Err(Failure::usage(
                "there is no posthaste.toml here: write one, name one with --config, or give --database and --table",
            )),
        };
    }
    let config = Config::load(path.as_deref(), config::environment()).map_err(|problems| {
        if path.is_none() {
            eprintln!(
                "there is no posthaste.toml in this folder, and --config names no other file"
            );
        }
        Failure::Configuration(problems)
    })?;
    eprint!("{}", config.warnings.render(colours()));
    Ok(config)
}

/// The file: the one that was named, or the usual one if it is there.
pub(crate) fn path(place: &Place) -> Option<PathBuf> {
    let usual = Path::new("posthaste.toml");
    let found = || usual.exists().then(|| usual.to_owned());
    place.config.clone().or_else(found)
}

/// Every outbox that a command is about: the one that was named, or all that are configured.
pub(crate) fn outboxes(place: &Place) -> Result<Vec<Outbox>, Failure> {
    selected(&load(place)?, place)
}

/// The same, of a configuration that is loaded.
pub(crate) fn selected(config: &Config, place: &Place) -> Result<Vec<Outbox>, Failure> {
    match (&place.database, &place.table) {
        (None, None) => Ok(config.outboxes.clone()),
        _ => Ok(vec![chosen(config, place)?]),
    }
}

/// The one outbox that a command is about.
pub(crate) async fn open(place: &Place) -> Result<Arc<dyn Store>, Failure> {
    connect(&outbox(place)?).await
}

/// The same, as it is configured.
pub(crate) fn outbox(place: &Place) -> Result<Outbox, Failure> {
    chosen(&load(place)?, place)
}

/// The same, of a configuration that is loaded.
pub(crate) fn chosen(config: &Config, place: &Place) -> Result<Outbox, Failure> {
    config
        .outbox(place.database.as_deref(), place.table.as_deref())
        .map_err(Failure::Usage)
}

/// The store of an outbox.
pub(crate) async fn connect(outbox: &Outbox) -> Result<Arc<dyn Store>, Failure> {
    let opened = posthaste::store::connect(&outbox.database.url, outbox.table.clone()).await;
    opened.map_err(|error| Failure::to_reach(outbox, error))
}
