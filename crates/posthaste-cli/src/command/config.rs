//! `posthaste config`: checks the configuration, explains it, and prints its schema.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::cli::Place;
use crate::config::{self, Config, Outbox, Reading};
use crate::failure::Failure;
use crate::output::colours;
use crate::place::path;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Say all that is wrong with the configuration, with lines and remedies
    Check {
        /// The file [default: as for every command]
        file: Option<PathBuf>,
    },
    /// Print a JSON schema of the configuration, for editors
    Schema,
    /// Say what a key does, what it holds now, and where that comes from
    Explain {
        /// Such as outbox.relay.batch_size [default: all keys]
        key: Option<String>,
    },
    /// Print the reference of all keys, as Markdown
    #[command(hide = true)]
    Reference,
}

pub(crate) fn run(act: &Act, place: &Place) -> Result<(), Failure> {
    match act {
        Act::Check { file } => check(file.clone().or_else(|| path(place)).as_deref(), place.json),
        Act::Schema => {
            print(&format!("{:#}\n", config::schema()));
            Ok(())
        }
        Act::Explain { key } => explain(key.as_deref(), place),
        Act::Reference => {
            print(&config::reference());
            Ok(())
        }
    }
}

fn check(path: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let checked = Config::load(path, config::environment());
    if as_json {
        let problems = match &checked {
            Ok(config) => &config.warnings,
            Err(problems) => problems,
        };
        print(&format!("{:#}\n", problems.json()));
        return checked.map(|_| ()).map_err(|_| Failure::Told);
    }
    let config = checked.map_err(Failure::Configuration)?;
    eprint!("{}", config.warnings.render(colours()));
    let file = path.map_or("the environment".to_owned(), |path| {
        path.display().to_string()
    });
    let mut text = format!("{file} can be used: {}\n", summary(&config));
    for outbox in &config.outboxes {
        text.push_str(&format!("  {}\n", one_line(outbox)));
    }
    print(&text);
    Ok(())
}

fn summary(config: &Config) -> String {
    let count = |number: usize, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    let mut parts = vec![
        count(config.outboxes.len(), "outbox", "outboxes"),
        count(config.sinks.len(), "sink", "sinks"),
    ];
    match config.warnings.iter().count() {
        0 => {}
        warnings => parts.push(count(warnings, "warning", "warnings")),
    }
    parts.join(", ")
}

fn one_line(outbox: &Outbox) -> String {
    let database = config::without_password(&outbox.database.url);
    let what = match (outbox.settings.deliver, outbox.settings.cleaning.enabled) {
        (true, true) => "relayed and cleaned".to_owned(),
        (true, false) => "relayed, not cleaned".to_owned(),
        (false, true) => "not relayed, only cleaned".to_owned(),
        (false, false) => "neither relayed nor cleaned".to_owned(),
    };
    let routes: Vec<String> = outbox
        .routes
        .iter()
        .map(|route| format!("{} to {}", route.topic, route.sink))
        .collect();
    let mut line = format!("{} at {database}: {what}", outbox.table);
    if outbox.settings.deliver {
        line.push_str(&format!("; {}", routes.join(", ")));
    }
    line
}

fn explain(key: Option<&str>, place: &Place) -> Result<(), Failure> {
    let reading = Reading::new(path(place).as_deref(), config::environment());
    let text = match (&reading, key) {
        (Ok(reading), key) if place.json => {
            let settings = config::settings_as_json(reading, key).map_err(Failure::Usage)?;
            format!("{settings:#}\n")
        }
        (Err(problems), _) if place.json => return Err(Failure::Configuration(problems.clone())),
        (reading, Some(key)) => {
            config::explain_key(reading.as_ref().ok(), key).map_err(Failure::Usage)?
        }
        (Ok(reading), None) => config::explain(reading),
        (Err(problems), None) => return Err(Failure::Configuration(problems.clone())),
    };
    print(&text);
    // What is wrong is not hidden, but does not keep the rest from being explained.
    if let Err(problems) = reading.and_then(Reading::check) {
        let mistakes = match problems.errors() {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        };
        eprintln!("warning: the configuration has {mistakes}: see `posthaste config check`");
    }
    Ok(())
}

/// Who stops reading, as `head` does, has read enough.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
