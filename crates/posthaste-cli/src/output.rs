//! How answers look: tables in a terminal, tab-separated text in a pipe, JSON if asked for.
//!
//! Everything from a database passes [`visible`] before a person sees it: whoever can enqueue
//! could otherwise send control sequences to the operator's terminal.

mod event;

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::time;

pub(crate) use event::{
    DEAD_COLUMNS, EventJson, LEASED_COLUMNS, LIVE_COLUMNS, dead_row, holder, leased_row, live_row,
    painted_status,
};

/// How to answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    /// Whether a person reads along.
    pub(crate) terminal: bool,
}

/// One value of a table.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Text(String, Style),
    /// How far away in a terminal, exact in a pipe.
    Time(Option<SystemTime>),
    /// Brief in a terminal, seconds in a pipe.
    Duration(Duration, Style),
}

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BUSY: Style = AnsiColor::Cyan.on_default();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

impl Cell {
    pub(crate) fn text(text: impl std::fmt::Display) -> Self {
        Self::Text(text.to_string(), PLAIN)
    }

    pub(crate) fn maybe(text: Option<impl std::fmt::Display>) -> Self {
        Self::Text(text.map(|text| text.to_string()).unwrap_or_default(), PLAIN)
    }

    /// A number that is only looked at if it is not zero.
    pub(crate) fn count(count: u64, otherwise: Style) -> Self {
        let style = if count == 0 { DIM } else { otherwise };
        Self::Text(count.to_string(), style)
    }

    fn shown(&self, terminal: bool, now: SystemTime) -> (String, Style) {
        match self {
            Self::Text(text, style) => (visible(text).into_owned(), *style),
            Self::Time(None) => (String::new(), PLAIN),
            Self::Time(Some(at)) if terminal => (time::relative(*at, now), PLAIN),
            Self::Time(Some(at)) => (time::exact(*at), PLAIN),
            Self::Duration(duration, style) if terminal => (time::brief(*duration), *style),
            Self::Duration(duration, style) => (duration.as_secs_f64().to_string(), *style),
        }
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            terminal: std::io::stdout().is_terminal(),
        }
    }

    /// One line of JSON, which has no colours to take out.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            serde_json::to_string(value).map_err(|error| Failure::Other(error.to_string()))?;
        writeln!(std::io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// One line. What is in it must be fit to be seen.
    pub(crate) fn line(&self, line: &str) -> Result<(), Failure> {
        writeln!(anstream::stdout(), "{line}")?;
        Ok(())
    }

    /// Rows under their heads.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Vec<Cell>]) -> Result<(), Failure> {
        let width = self.terminal.then(terminal_width);
        let lines = lay_out(heads, rows, width, SystemTime::now());
        let mut out = anstream::stdout().lock();
        for line in lines {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

/// The lines of a table for people, wherever it is shown.
pub(crate) fn for_people(heads: &[&str], rows: &[Vec<Cell>]) -> Vec<String> {
    lay_out(heads, rows, Some(terminal_width()), SystemTime::now())
}

/// The lines of a table: aligned and cut to a width, or with tabs between the values.
fn lay_out(
    heads: &[&str],
    rows: &[Vec<Cell>],
    width: Option<usize>,
    now: SystemTime,
) -> Vec<String> {
    let heads = heads.iter().map(|head| (head.to_string(), BOLD)).collect();
    let shown = |row: &Vec<Cell>| {
        let cells = row.iter().map(|cell| cell.shown(width.is_some(), now));
        cells.collect::<Vec<_>>()
    };
    let rows: Vec<Vec<(String, Style)>> = std::iter::once(heads)
        .chain(rows.iter().map(shown))
        .collect();
    let Some(width) = width else {
        let line = |row: &Vec<(String, Style)>| {
            let cells: Vec<String> = row
                .iter()
                .map(|(text, style)| paint(text, *style))
                .collect();
            cells.join("\t")
        };
        return rows.iter().map(line).collect();
    };
    let columns = rows.first().map_or(0, Vec::len);
    let widest = |column: usize| {
        rows.iter()
            .map(|row| row[column].0.width())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let line = |row: &Vec<(String, Style)>| {
        let mut line = String::new();
        let mut left = width;
        for (column, (text, style)) in row.iter().enumerate() {
            let last = column + 1 == columns;
            let text = if last {
                cut(text, left)
            } else {
                Cow::from(text)
            };
            line.push_str(&paint(&text, *style));
            if !last {
                line.push_str(&" ".repeat(widths[column] + 2 - text.width()));
                left = left.saturating_sub(widths[column] + 2);
            }
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Text in a style. Where colours are not wanted, the stream takes them out again.
pub(crate) fn paint(text: &str, style: Style) -> String {
    match style == PLAIN || text.is_empty() {
        true => text.to_owned(),
        false => format!("{style}{text}{style:#}"),
    }
}

/// Text on one line, with control characters told instead of sent.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let odd = |c: char| c.is_control() || is_invisible(c);
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match odd(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Turns the direction of writing, or has no width: text that looks like another.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text of at most this width, with a sign that there was more. A line that cannot hold even a
/// few characters is left to the terminal.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width || width < 10 {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    for c in text.chars() {
        let mut buffer = [0; 4];
        if kept.width() + c.encode_utf8(&mut buffer).width() + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    Cow::Owned(kept)
}

/// Whether standard error is read by a person who likes colours.
pub(crate) fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    std::io::stderr().is_terminal() && !unwanted
}

fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(lines: Vec<String>) -> Vec<String> {
        lines
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen_and_the_last_is_cut() {
        let rows = vec![
            vec![Cell::text("日本"), Cell::text("a long error that goes on")],
            vec![Cell::text("x"), Cell::text("short")],
        ];
        let lines = plain(lay_out(
            &["TOPIC", "ERROR"],
            &rows,
            Some(22),
            SystemTime::now(),
        ));
        assert_eq!(
            lines,
            ["TOPIC  ERROR", "日本   a long error t…", "x      short"]
        );
        let lines = plain(lay_out(&["TOPIC", "ERROR"], &rows, None, SystemTime::now()));
        assert_eq!(lines[1], "日本\ta long error that goes on");
    }

    #[test]
    fn control_characters_are_told_and_not_sent() {
        let hostile = "a\x1b[2Jb\tc\nd\u{9b}e\u{202e}f\u{7f}\u{200b}";
        let shown = visible(hostile);
        assert_eq!(
            shown,
            "a\\u{1b}[2Jb\\tc\\nd\\u{9b}e\\u{202e}f\\u{7f}\\u{200b}"
        );
        assert!(matches!(visible("plain ünï 日本 😀"), Cow::Borrowed(_)));
    }

    #[test]
    fn times_are_near_in_a_terminal_and_exact_in_a_pipe() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let cell = Cell::Time(Some(now - Duration::from_secs(60)));
        assert_eq!(cell.shown(true, now).0, "1m ago");
        assert_eq!(cell.shown(false, now).0, "1970-01-12T13:45:40.000000Z");
        let cell = Cell::Duration(Duration::from_millis(1500), PLAIN);
        assert_eq!(cell.shown(false, now).0, "1.5");
    }
}
