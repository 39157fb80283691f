//! What `posthaste.toml` and the environment say, checked and complete.
//!
//! The settings are the library's own types, so that what a relay refuses is written once.
//! Everything about a single key is in [`keys`].

mod address;
mod admin;
mod assemble;
mod check;
mod environment;
mod explain;
mod file;
mod keys;
mod kind;
pub(crate) mod measure;
mod problem;
mod profile;
mod reference;
mod schema;
mod sinks;
mod trace;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste::Table;
use posthaste_relay::sink::Sink;
use posthaste_relay::{Matcher, Settings};

pub(crate) use address::without_password;
pub(crate) use admin::{Admin, Thresholds};
pub(crate) use explain::{explain, explain_key, settings_as_json};
pub(crate) use problem::Problems;
pub(crate) use reference::reference;
pub(crate) use schema::schema;
pub(crate) use trace::Tracing;

use problem::{Place, Problem, Source};
use values::Values;

/// Everything that is configured.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) log: Log,
    pub(crate) admin: Admin,
    /// Where spans go. `None`: nowhere.
    pub(crate) tracing: Option<Tracing>,
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) sinks: BTreeMap<String, Destination>,
    /// What works, but is probably not what was meant.
    pub(crate) warnings: Problems,
}

/// What the program says about itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    /// Such as `info`.
    pub(crate) level: String,
    pub(crate) json: bool,
}

/// Where a database is.
#[derive(Clone, PartialEq)]
pub(crate) struct Database {
    /// May hold a password: never shown.
    pub(crate) url: String,
    pub(crate) max_connections: u32,
}

/// One outbox, and how it is relayed.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    pub(crate) table: Table,
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    /// Whether enqueueing wakes relays by NOTIFY.
    pub(crate) notify: bool,
    /// With one sink and no route, one that sends everything there.
    pub(crate) routes: Vec<Route>,
}

/// Which events go where: those that match in all that is given. The first match wins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    /// A pattern: `*` stands for anything.
    pub(crate) topic: String,
    /// A pattern.
    pub(crate) namespace: Option<String>,
    pub(crate) tenant: Option<uuid::Uuid>,
    /// A pattern.
    pub(crate) aggregate_type: Option<String>,
    /// The name of a sink.
    pub(crate) sink: String,
}

/// A sink, and what a relay has to know about it.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) sink: Arc<dyn Sink>,
    /// How many deliveries at the same time. `None`: as many as are in flight.
    pub(crate) concurrency: Option<usize>,
}

impl Route {
    /// Every event, to nowhere yet.
    pub(crate) fn everything() -> Self {
        Self {
            topic: "*".to_owned(),
            namespace: None,
            tenant: None,
            aggregate_type: None,
            sink: String::new(),
        }
    }

    /// What the relay's builder takes.
    pub(crate) fn matcher(&self) -> Matcher {
        let mut matcher = Matcher::from(&self.topic);
        if let Some(pattern) = &self.namespace {
            matcher = matcher.namespace(pattern);
        }
        if let Some(tenant) = self.tenant {
            matcher = matcher.tenant(tenant);
        }
        if let Some(pattern) = &self.aggregate_type {
            matcher = matcher.aggregate_type(pattern);
        }
        matcher
    }

    /// Whether the topic alone decides.
    pub(crate) fn is_by_topic(&self) -> bool {
        self.namespace.is_none() && self.tenant.is_none() && self.aggregate_type.is_none()
    }
}

/// The environment of this process. What is not text is told as it can be.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |it: std::ffi::OsString| it.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

/// Whether the environment configures anything.
pub(crate) fn has_variables(environment: impl Iterator<Item = (String, String)>) -> bool {
    !environment::ours(environment).is_empty()
}

/// What was read, before it was checked as a whole.
pub(crate) struct Reading {
    values: Values,
    source: Source,
    is_toml: bool,
}

impl Config {
    /// Reads the file, if there is one, and the environment, which stands above it.
    pub(crate) fn load(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Problems> {
        Reading::new(path, environment)?.check()
    }

    /// The outbox that a command is about: the only one, or the one of this table, and of several
    /// of this name the one in this database. With a table and a database nothing else needs to be
    /// configured.
    pub(crate) fn outbox(
        &self,
        database: Option<&str>,
        table: Option<&str>,
    ) -> Result<Outbox, String> {
        let wanted = table
            .map(Table::parse)
            .transpose()
            .map_err(|error| error.to_string())?;
        let known = || {
            let names: Vec<String> = self.outboxes.iter().map(|o| o.table.to_string()).collect();
            names.join(", ")
        };
        if let (Some(table), Some(url)) = (&wanted, database)
            && let Some(there) = self.named(table).find(|it| it.database.is_at(url))
        {
            return Ok(there.clone());
        }
        let found = match (&wanted, &self.outboxes[..]) {
            (Some(table), _) if database.is_none() && self.named(table).count() > 1 => {
                let addresses = self
                    .named(table)
                    .map(|it| without_password(&it.database.url));
                return Err(format!(
                    "there are several outboxes {table}: name the database of one with --database ({})",
                    addresses.collect::<Vec<_>>().join(", ")
                ));
            }
            (Some(table), _) => self.named(table).next().cloned(),
            (None, [only]) => Some(only.clone()),
            (None, []) => None,
            (None, _) => {
                return Err(format!(
                    "there are several outboxes: name one with --table ({})",
                    known()
                ));
            }
        };
        let address = database
            .map(|url| Database::at(url).map_err(|why| format!("--database: {why}")))
            .transpose()?;
        match (found, wanted, address) {
            (Some(outbox), _, None) => Ok(outbox),
            (Some(outbox), _, Some(database)) => Ok(Outbox { database, ..outbox }),
            (None, Some(table), Some(database)) => Ok(Outbox::new(table, database)),
            (None, Some(table), None) if !self.outboxes.is_empty() => Err(format!(
                "the configuration has no outbox {table}: it has {}",
                known()
            )),
            _ => Err(
                "which outbox? Name it with --database and --table, or write a posthaste.toml"
                    .to_owned(),
            ),
        }
    }

    fn named<'c>(&'c self, table: &'c Table) -> impl Iterator<Item = &'c Outbox> {
        self.outboxes.iter().filter(move |it| it.table == *table)
    }

    /// What is configured if nothing is.
    pub(crate) fn empty() -> Self {
        Self {
            log: Log {
                level: "info".to_owned(),
                json: false,
            },
            admin: Admin::default(),
            tracing: None,
            outboxes: Vec::new(),
            sinks: BTreeMap::new(),
            warnings: Problems::default(),
        }
    }
}

impl Reading {
    /// Reads the file, if there is one, and the environment, which stands above it.
    pub(crate) fn new(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, Problems> {
        let source = match path {
            None => None,
            Some(path) => Some(Source {
                name: path.display().to_string(),
                text: std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?,
            }),
        };
        let folder = path.and_then(Path::parent).map(PathBuf::from);
        Ok(Self::of(source, folder.unwrap_or_default(), environment))
    }

    /// The same, of a file that was read; files that it names are relative to the folder.
    fn of(
        source: Option<Source>,
        folder: PathBuf,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Self {
        let mut values = Values::default();
        values.folder = folder;
        let (standard, others): (Vec<_>, Vec<_>) =
            environment.partition(|(name, _)| trace::is_standard(name));
        values.standard = standard.into_iter().collect();
        let variables = environment::ours(others.into_iter());
        environment::note_types(&variables, &mut values);
        let text = source.as_ref().map(|source| source.text.as_str());
        let is_toml = text.is_none_or(|text| file::read(text, &mut values));
        environment::read(&variables, &mut values);
        Self {
            values,
            source: source.unwrap_or_default(),
            is_toml,
        }
    }

    /// Checks everything, and makes a configuration of it.
    pub(crate) fn check(mut self) -> Result<Config, Problems> {
        // Of what is not TOML, parts are missing that are not missing.
        let config = match self.is_toml {
            true => assemble::assemble(&mut self.values, &self.source),
            false => None,
        };
        let problems = Problems::new(self.source, self.values.problems);
        match config {
            Some(config) if problems.errors() == 0 => Ok(Config {
                warnings: problems,
                ..config
            }),
            _ => Err(problems),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problems {
    let message = format!("{} cannot be read: {error}", path.display());
    let help = "name the configuration file with --config or POSTHASTE_CONFIG";
    let problem = Problem::error(Place::Nowhere, "", message, help);
    Problems::new(Source::default(), vec![problem])
}

impl Database {
    /// The database at this address, with the defaults.
    pub(crate) fn at(url: &str) -> Result<Self, String> {
        match kind::Kind::Database.parse(url) {
            Ok(_) => Ok(Self {
                url: url.to_owned(),
                max_connections: 8,
            }),
            Err(why) => Err(format!("{}; {}", why.what, why.help.unwrap_or_default())),
        }
    }

    /// Whether this is its address, be it without the password, as it is shown.
    fn is_at(&self, url: &str) -> bool {
        self.url == url || without_password(&self.url) == url
    }

    pub(crate) fn is_postgres(&self) -> bool {
        !self.url.starts_with("sqlite:")
    }
}

impl Outbox {
    /// An outbox with the defaults, and nowhere to deliver to.
    pub(crate) fn new(table: Table, database: Database) -> Self {
        Self {
            table,
            database,
            settings: Settings::default(),
            notify: false,
            routes: Vec::new(),
        }
    }
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Destination")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("url", &without_password(&self.url))
            .field("max_connections", &self.max_connections)
            .finish()
    }
}

#[cfg(test)]
mod tests;
