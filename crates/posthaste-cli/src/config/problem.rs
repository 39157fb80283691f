//! What is wrong with a configuration: where, what, and what would be right; all at once.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Value as Json, json};

use super::keys;

/// One mistake.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    pub(crate) place: Place,
    /// Such as `outbox.0.relay.batch_size`.
    pub(crate) key: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Severity {
    /// It cannot work.
    Error,
    /// It works, but is probably not what was meant.
    Warning,
}

/// Where something was said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// Bytes of the file.
    File(Range<usize>),
    /// A variable.
    Environment(String),
    /// Nowhere: it is missing.
    Nowhere,
}

/// A configuration file as it was read.
#[derive(Clone, Default)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// All mistakes of a configuration, in the order of their places.
#[derive(Clone, Default)]
pub(crate) struct Problems {
    source: Source,
    list: Vec<Problem>,
}

impl Problem {
    pub(crate) fn error(
        place: Place,
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            place,
            key: key.into(),
            message: message.into(),
            help: Some(help.into()).filter(|help| !help.is_empty()),
        }
    }

    pub(crate) fn warning(self) -> Self {
        Self {
            severity: Severity::Warning,
            ..self
        }
    }
}

impl Source {
    /// Line and column, counted from one, and the line itself with where it begins.
    pub(crate) fn position(&self, at: usize) -> (usize, usize, usize, &str) {
        let at = self.text.floor_char_boundary(at);
        let begin = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[..begin].matches('\n').count() + 1;
        let column = self.text[begin..at].chars().count() + 1;
        let text = self.text[begin..].lines().next().unwrap_or_default();
        (line, column, begin, text)
    }

    /// Such as `posthaste.toml:12`.
    pub(crate) fn locate(&self, place: &Place) -> String {
        match place {
            Place::File(span) => format!("{}:{}", self.name, self.position(span.start).0),
            Place::Environment(variable) => variable.clone(),
            Place::Nowhere => "nowhere".to_owned(),
        }
    }
}

impl Problems {
    pub(crate) fn new(source: Source, mut list: Vec<Problem>) -> Self {
        list.sort_by_key(|problem| match &problem.place {
            Place::File(span) => (0, span.start, String::new()),
            Place::Environment(variable) => (1, 0, variable.clone()),
            Place::Nowhere => (2, 0, String::new()),
        });
        list.dedup();
        Self { source, list }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// How many of them cannot be worked with.
    pub(crate) fn errors(&self) -> usize {
        let errors = self.list.iter().filter(|p| p.severity == Severity::Error);
        errors.count()
    }

    /// For scripts.
    pub(crate) fn json(&self) -> Json {
        self.list
            .iter()
            .map(|problem| self.one_as_json(problem))
            .collect()
    }

    fn one_as_json(&self, problem: &Problem) -> Json {
        let (file, line, column) = match &problem.place {
            Place::File(span) => {
                let (line, column, _, _) = self.source.position(span.start);
                (Some(&self.source.name), Some(line), Some(column))
            }
            _ => (None, None, None),
        };
        let variable = match &problem.place {
            Place::Environment(variable) => Some(variable),
            _ => None,
        };
        json!({
            "severity": problem.severity.name(),
            "file": file,
            "line": line,
            "column": column,
            "variable": variable,
            "key": problem.key,
            "message": problem.message,
            "help": problem.help,
        })
    }

    /// For people, with how many there are.
    pub(crate) fn report(&self, colours: bool) -> String {
        let many = match self.errors() {
            1 => "1 mistake".to_owned(),
            errors => format!("{errors} mistakes"),
        };
        let summary = format!("the configuration has {many}, and is not used");
        format!("{}{summary}\n", self.render(colours))
    }

    /// For people.
    pub(crate) fn render(&self, colours: bool) -> String {
        let paint = |code: &str, text: &str| match colours {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let mut out = String::new();
        for problem in &self.list {
            let colour = match problem.severity {
                Severity::Error => "1;31",
                Severity::Warning => "1;33",
            };
            let what = format!(": {}", problem.message);
            let name = paint(colour, problem.severity.name());
            let _ = writeln!(out, "{name}{}", paint("1", &what));
            let bar = paint("1;34", "|");
            let mut margin = 2;
            match &problem.place {
                Place::File(span) => {
                    let (line, column, begin, text) = self.source.position(span.start);
                    let number = line.to_string();
                    margin = number.len() + 1;
                    let arrow = paint("1;34", "-->");
                    let pad = " ".repeat(margin - 1);
                    let file = &self.source.name;
                    let _ = writeln!(out, "{pad}{arrow} {file}:{line}:{column}");
                    let (shown, caret) =
                        excerpt(text, span.start - begin..span.end.saturating_sub(begin));
                    let _ = writeln!(out, "{pad} {bar}");
                    let _ = writeln!(out, "{} {bar} {shown}", paint("1;34", &number));
                    let (before, under) = caret.split_at(caret.len() - caret.trim_start().len());
                    let label = match problem.key.as_str() {
                        "" => String::new(),
                        key => format!(" {key}"),
                    };
                    let mark = paint(colour, &format!("{under}{label}"));
                    let _ = writeln!(out, "{pad} {bar} {before}{mark}");
                }
                Place::Environment(variable) => {
                    let _ = writeln!(
                        out,
                        " {} {variable}, in the environment",
                        paint("1;34", "-->")
                    );
                }
                Place::Nowhere => {}
            }
            if let Some(help) = &problem.help {
                let sign = paint("1;34", "=");
                let _ = writeln!(
                    out,
                    "{}{sign} {} {help}",
                    " ".repeat(margin),
                    paint("1", "help:")
                );
            }
            out.push('\n');
        }
        out
    }
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A line as it may be shown, and the marks under it.
///
/// What is not known to be harmless may be a password: it is left out.
fn excerpt(line: &str, span: Range<usize>) -> (String, String) {
    let start = line.floor_char_boundary(span.start);
    let end = line.floor_char_boundary(span.end).max(start);
    let bare = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || " \t_-.\"'".contains(c))
    };
    // An address, or a name and a password before a host.
    let tells = |text: &str| text.contains("://") || text.contains('@');
    let (visible, left_out) = match line.split_once('=') {
        Some((name, _)) if !bare(name) => (0, true),
        Some((name, _)) if !is_harmless(name) => (name.len(), true),
        Some((name, value)) if tells(value) || value.contains('=') => (name.len(), true),
        None if !line.trim_start().starts_with('[') || tells(line) => (0, true),
        _ => (line.len(), false),
    };
    let mut shown = match (visible, left_out) {
        (_, false) => line.to_owned(),
        (0, true) => "…".to_owned(),
        (visible, true) => format!("{}= …", &line[..visible]),
    };
    shown = shown.replace('\t', " ").trim_end().to_owned();
    let width = shown.chars().count();
    let from = line[..start].chars().count().min(width.saturating_sub(1));
    let length = line[start..end]
        .chars()
        .count()
        .max(1)
        .min((width - from).max(1));
    (shown, format!("{}{}", " ".repeat(from), "^".repeat(length)))
}

/// Whether what a key of this name holds may be shown.
fn is_harmless(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name).trim();
    let mut known = keys::all().filter(|(_, key)| key.name == name).peekable();
    known.peek().is_some() && known.all(|(_, key)| !key.kind.is_secret())
}

impl std::fmt::Debug for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}
