//! What was given, by file and environment, beside what holds if nothing was: one lookup for all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::keys::{self, Default as Otherwise, Key, Section, Shape};
use super::kind::{Kind, Refusal, Value};
use super::problem::{Place, Problem};
use super::profile;
use super::sinks::SinkType;

/// What was given, and what is wrong with it.
#[derive(Default)]
pub(crate) struct Values {
    given: BTreeMap<String, (Value, Place)>,
    /// Given, but refused: nothing more is to be said about them.
    broken: BTreeSet<String>,
    tables: BTreeMap<String, Place>,
    /// The types of sinks, as far as they are known.
    pub(crate) types: BTreeMap<String, &'static SinkType>,
    /// What files are relative to.
    pub(crate) folder: PathBuf,
    /// Variables with a meaning to every program, such as `OTEL_SERVICE_NAME`.
    pub(crate) standard: BTreeMap<String, String>,
    pub(crate) problems: Vec<Problem>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Origin {
    Default,
    /// The profile, and where its document says so.
    Profile(String, &'static str),
    Given(Place),
}

impl Values {
    /// Notes a value that was read, or why it was not.
    pub(crate) fn put(
        &mut self,
        path: &str,
        key: &Key,
        place: Place,
        read: Result<Value, Refusal>,
    ) {
        match read {
            Ok(value) => {
                if matches!(place, Place::Environment(_)) {
                    self.forget_alternative(path, key);
                }
                self.broken.remove(path);
                self.given.insert(path.to_owned(), (value, place));
            }
            Err(refusal) => {
                let help = refusal.help.unwrap_or_else(|| suggestion(key, &place));
                self.given.remove(path);
                self.broken.insert(path.to_owned());
                self.problems
                    .push(Problem::error(place, path, refusal.what, help));
            }
        }
    }

    /// The environment's `url` stands above the file's `url_file`, and the other way round.
    fn forget_alternative(&mut self, path: &str, key: &Key) {
        let Some((table, name)) = path.rsplit_once('.') else {
            return;
        };
        let other = match key.kind {
            Kind::File(of) => format!("{table}.{of}"),
            _ => format!("{table}.{name}_file"),
        };
        if matches!(self.given.get(&other), Some((_, Place::File(_)))) {
            self.given.remove(&other);
        }
    }

    /// Notes that there is something wrong with a key or table, which was said.
    pub(crate) fn put_broken(&mut self, path: &str) {
        self.broken.insert(path.to_owned());
    }

    /// Notes that there is a table, and where it was first said.
    pub(crate) fn put_table(&mut self, path: &str, place: Place) {
        self.tables.entry(path.to_owned()).or_insert(place);
    }

    /// Goes on as if a table was not there.
    pub(crate) fn forget_table(&mut self, path: &str) {
        let within = format!("{path}.");
        self.tables
            .retain(|table, _| table != path && !table.starts_with(&within));
    }

    /// Where a table is, if there is one.
    pub(crate) fn table(&self, path: &str) -> Option<&Place> {
        self.tables.get(path)
    }

    /// How many tables a list has.
    pub(crate) fn count(&self, list: &str) -> usize {
        let places = self.tables.keys().filter_map(|path| {
            let rest = path.strip_prefix(list)?.strip_prefix('.')?;
            rest.parse::<usize>().ok()
        });
        places.max().map_or(0, |last| last + 1)
    }

    /// The names of the sinks.
    pub(crate) fn sinks(&self) -> Vec<String> {
        let names = self
            .tables
            .keys()
            .filter_map(|path| path.strip_prefix("sink."));
        names.map(str::to_owned).collect()
    }

    /// What a key holds, and where that comes from. `None`: it holds nothing.
    pub(crate) fn get(&self, path: &str) -> (Option<Value>, Origin) {
        if let Some((value, place)) = self.given.get(path) {
            return (Some(value.clone()), Origin::Given(place.clone()));
        }
        let Some((key, kind)) = self.key(path).map(|key| (key, key.kind)) else {
            return (None, Origin::Default);
        };
        if let Some((profile, value, section)) = self.preset(path) {
            return (kind.parse(value).ok(), Origin::Profile(profile, section));
        }
        let value = match key.default {
            Otherwise::Is(text) => kind.parse(text).ok(),
            Otherwise::Unset | Otherwise::Required => None,
        };
        (value, Origin::Default)
    }

    /// What the outbox's profile says.
    fn preset(&self, path: &str) -> Option<(String, &'static str, &'static str)> {
        let (place, key) = path.strip_prefix("outbox.")?.split_once('.')?;
        let (profile, _) = self.given.get(&format!("outbox.{place}.profile"))?;
        let Value::Text(profile) = profile else {
            return None;
        };
        let (value, section) = profile::preset(profile, key)?;
        Some((profile.clone(), value, section))
    }

    fn key(&self, path: &str) -> Option<&'static Key> {
        match path
            .strip_prefix("sink.")
            .and_then(|rest| rest.split_once('.'))
        {
            Some((sink, name)) => {
                let section = Section::named("sink")?;
                let sink = self.types.get(sink).copied();
                section.keys(sink).find(|key| key.name == name)
            }
            None => keys::find(path).map(|(_, key)| key),
        }
    }

    pub(crate) fn is_broken(&self, path: &str) -> bool {
        self.broken.contains(path)
    }

    /// Where to point for a key: at itself, at the profile that set it, or at its table.
    pub(crate) fn place(&self, path: &str) -> Place {
        let outbox = || path.split('.').take(2).collect::<Vec<_>>().join(".");
        match self.get(path).1 {
            Origin::Given(place) => place,
            Origin::Profile(..) => self.place(&format!("{}.profile", outbox())),
            Origin::Default => {
                let mut table = path;
                while let Some((above, _)) = table.rsplit_once('.') {
                    if let Some(place) = self.tables.get(above) {
                        return place.clone();
                    }
                    table = above;
                }
                Place::Nowhere
            }
        }
    }

    /// Every key that there is now, in the order of the reference: its path and itself.
    pub(crate) fn paths(&self) -> Vec<(String, &'static Key)> {
        let mut paths = Vec::new();
        for section in Section::within("") {
            self.paths_of(section, section.path, &mut paths);
        }
        paths
    }

    fn paths_of(&self, section: &Section, path: &str, paths: &mut Vec<(String, &'static Key)>) {
        let places: Vec<String> = match section.shape {
            Shape::Once => vec![path.to_owned()],
            Shape::Listed => (0..self.count(path))
                .map(|n| format!("{path}.{n}"))
                .collect(),
            Shape::Named => self
                .sinks()
                .iter()
                .map(|name| format!("{path}.{name}"))
                .collect(),
        };
        for place in places {
            // What an outbox may override is shown only if it does.
            if section.path == "outbox.database" && self.table(&place).is_none() {
                continue;
            }
            let sink = place
                .strip_prefix("sink.")
                .and_then(|name| self.types.get(name));
            let keys = section.keys(sink.copied());
            paths.extend(keys.map(|key| (format!("{place}.{}", key.name), key)));
            for inner in Section::within(section.path) {
                self.paths_of(inner, &format!("{place}.{}", inner.name()), paths);
            }
        }
    }
}

fn suggestion(key: &Key, place: &Place) -> String {
    let value = key.kind.parse(key.example).ok();
    match (place, value) {
        (Place::File(_), Some(value)) => {
            format!("such as {} = {}", key.name, key.kind.toml(&value))
        }
        _ => format!("such as {}", key.example),
    }
}

/// One table, to be read key by key. What is missing is said once.
pub(crate) struct Group<'a> {
    pub(crate) values: &'a mut Values,
    pub(crate) path: String,
}

impl Group<'_> {
    /// A path within this table.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same, with empty as nothing.
    pub(crate) fn some_text(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub(crate) fn texts(&mut self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    /// The same of a key that is required; nothing if it was not given, which was said.
    pub(crate) fn required_texts(&mut self, name: &str) -> Option<Vec<String>> {
        match self.value(name)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn integer(&mut self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn count(&mut self, name: &str) -> Option<u32> {
        self.integer(name)
            .and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Boolean(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn ratio(&mut self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Ratio(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn duration(&mut self, name: &str) -> Option<Duration> {
        match self.value(name)? {
            Value::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    fn value(&mut self, name: &str) -> Option<Value> {
        let path = self.at(name);
        let key = self.values.key(&path)?;
        let file = self.at(&format!("{name}_file"));
        if self.values.is_broken(&path) || self.values.is_broken(&file) {
            // Go on with the default, so that the other mistakes are found.
            return match key.default {
                Otherwise::Is(text) => key.kind.parse(text).ok(),
                _ => None,
            };
        }
        let (value, _) = self.values.get(&path);
        match self.values.get(&file) {
            (Some(Value::Text(from)), Origin::Given(place)) => {
                self.read_file(key, &path, &file, &from, place, value)
            }
            _ if value.is_none() && key.default == Otherwise::Required => {
                self.miss(name, key);
                None
            }
            _ => value,
        }
    }

    /// The value that a file holds.
    fn read_file(
        &mut self,
        key: &Key,
        path: &str,
        file: &str,
        from: &str,
        place: Place,
        beside: Option<Value>,
    ) -> Option<Value> {
        let refuse =
            |message: String, help: &str| Problem::error(place.clone(), file, message, help);
        let problem = if beside.is_some() {
            let name = key.name;
            refuse(
                format!("both {name} and {name}_file are given"),
                "leave one of them out",
            )
        } else {
            match std::fs::read_to_string(self.values.folder.join(from)) {
                Ok(text) => match key.kind.parse(text.trim_end_matches(['\r', '\n'])) {
                    Ok(value) => return Some(value),
                    Err(why) => {
                        let message = format!("what is in {from:?} cannot be used: {}", why.what);
                        refuse(message, why.help.as_deref().unwrap_or_default())
                    }
                },
                Err(error) => refuse(
                    format!("{from:?} cannot be read: {error}"),
                    "a file that this user may read; a relative path begins at the configuration file",
                ),
            }
        };
        self.values.broken.insert(path.to_owned());
        self.values.problems.push(problem);
        None
    }

    fn miss(&mut self, name: &str, key: &Key) {
        let path = self.at(name);
        let mut help = suggestion(key, &Place::File(0..0)).replace("such as", "add");
        help.push_str(&format!(", or set {}", keys::variable(&path)));
        let place = self.values.place(&path);
        self.values.broken.insert(path.clone());
        let message = format!("{name} is missing");
        self.values
            .problems
            .push(Problem::error(place, path, message, help));
    }
}
