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
    let rows: Vec<Shown> = std::iter::once(heads)
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
    Layout::fitting(&rows, width).lines(&rows, width)
}

type Shown = Vec<(String, Style)>;

/// A column narrower than this tells nothing.
const NARROWEST: usize = 12;
/// A head of its own width is at least as wide as this.
const SHORTEST_HEAD: usize = 4;
/// Text in the last column that has less room than this gets a line of its own.
const ROOM: usize = 20;
const INDENT: &str = "    ";

/// Which columns are shown, and how wide, so that lines fit.
struct Layout {
    columns: Vec<(usize, usize)>,
    /// The last column, if it goes below the others.
    below: Option<usize>,
}

impl Layout {
    fn fitting(rows: &[Shown], width: usize) -> Self {
        let count = rows.first().map_or(0, Vec::len);
        let widest = |rows: &[Shown], column: usize| {
            let widths = rows.iter().map(|row| row[column].0.width());
            widths.max().unwrap_or(0)
        };
        let mut layout = Self {
            columns: (0..count).map(|it| (it, widest(rows, it))).collect(),
            below: None,
        };
        let told = &rows[1.min(rows.len())..];
        // The last may be cut, if that leaves something of it.
        let room = |layout: &Self| width.saturating_sub(layout.without_last());
        if layout.total() <= width || told.is_empty() {
            return layout;
        }
        layout.columns.retain(|(it, _)| widest(told, *it) > 0);
        if layout.total() <= width || room(&layout) >= ROOM {
            return layout;
        }
        for (column, wide) in &mut layout.columns {
            *wide = widest(told, *column).max((*wide).min(SHORTEST_HEAD));
        }
        if layout.total() <= width || room(&layout) >= ROOM {
            return layout;
        }
        let is_long = layout.columns.last().is_some_and(|(_, wide)| *wide > ROOM);
        if is_long {
            layout.below = layout.columns.pop().map(|(column, _)| column);
        }
        // Not what is copied to name an event.
        let cut = |(column, wide): &&mut (usize, usize)| {
            *wide > NARROWEST
                && told
                    .iter()
                    .all(|row| uuid::Uuid::parse_str(&row[*column].0).is_err())
        };
        let over = layout.total().saturating_sub(width);
        let widest = layout
            .columns
            .iter_mut()
            .filter(cut)
            .max_by_key(|(_, wide)| *wide);
        let given_way = widest.map(|(column, wide)| {
            let before = *wide;
            *wide = before.saturating_sub(over).max(NARROWEST);
            (*column, before)
        });
        while layout.total() > width && layout.columns.len() > 2 {
            layout.columns.pop();
        }
        // What went left room for more of it.
        let spare = width.saturating_sub(layout.total());
        if let Some((column, before)) = given_way
            && let Some((_, wide)) = layout.columns.iter_mut().find(|(it, _)| *it == column)
        {
            *wide = before.min(*wide + spare);
        }
        layout
    }

    fn total(&self) -> usize {
        let last = self.columns.last().map_or(0, |(_, wide)| *wide);
        self.without_last() + last
    }

    fn without_last(&self) -> usize {
        let (_, others) = self.columns.split_last().unwrap_or((&(0, 0), &[]));
        others.iter().map(|(_, wide)| wide + 2).sum()
    }

    fn lines(&self, rows: &[Shown], width: usize) -> Vec<String> {
        let mut lines = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            let mut line = String::new();
            let mut left = width;
            for (at, (column, wide)) in self.columns.iter().enumerate() {
                let (text, style) = &row[*column];
                let last = at + 1 == self.columns.len();
                let text = match last {
                    true if left < ROOM => shortened(text, left.max(*wide)),
                    true => shortened(text, left),
                    false => shortened(text, *wide),
                };
                line.push_str(&paint(&text, *style));
                if !last {
                    line.push_str(&" ".repeat(wide + 2 - text.width()));
                    left = left.saturating_sub(wide + 2);
                }
            }
            lines.push(line.trim_end().to_owned());
            if let Some((text, style)) = self.below.map(|column| &row[column])
                && place > 0
                && !text.is_empty()
            {
                let text = shortened(text, width.saturating_sub(INDENT.len()));
                lines.push(format!("{INDENT}{}", paint(&text, *style)));
            }
        }
        lines
    }
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

/// Text of at most this width, with a sign that there was more.
fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
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
    let dumb = std::env::var_os("TERM").is_none_or(|it| it == "dumb");
    std::io::stderr().is_terminal() && !unwanted && !dumb
}

/// One that does not tell its width is taken to have room for everything.
fn terminal_width() -> usize {
    let width = terminal_size::terminal_size().map_or(u16::MAX, |(width, _)| width.0);
    usize::from(width)
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
            Some(30),
            SystemTime::now(),
        ));
        assert_eq!(
            lines,
            [
                "TOPIC  ERROR",
                "日本   a long error that goes…",
                "x      short"
            ]
        );
        let lines = plain(lay_out(&["TOPIC", "ERROR"], &rows, None, SystemTime::now()));
        assert_eq!(lines[1], "日本\ta long error that goes on");
    }

    /// What a list of events looks like in a terminal of this width.
    fn listed(width: usize, error: &str) -> Vec<String> {
        let id = "01a1eca3-42e4-72d0-9016-c14d791e1203";
        let texts = [
            "20001",
            id,
            "pending",
            "shop.order.placed.v1",
            "0",
            "54s ago",
            "50s ago",
            error,
        ];
        let row: Vec<Cell> = texts.iter().map(Cell::text).collect();
        let heads = &event::LIVE_COLUMNS;
        plain(lay_out(heads, &[row], Some(width), SystemTime::now()))
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let error = "connection refused by the broker, for the third time today";
        assert_eq!(listed(200, error).len(), 2);
        let full = listed(140, error);
        assert!(full[0].ends_with("NEXT ATTEMPT  ERROR"), "{full:#?}");
        assert!(
            full[1].contains("connection refused") && full[1].ends_with('…'),
            "{full:#?}"
        );
        // What is empty goes first, then heads give way, then topics, then the last columns.
        assert_eq!(
            listed(100, ""),
            [
                "SEQU…  ID                                    STATUS   TOPIC                 ATT…  CREATED  NEXT ATT…",
                "20001  01a1eca3-42e4-72d0-9016-c14d791e1203  pending  shop.order.placed.v1  0     54s ago  50s ago",
            ]
        );
        assert_eq!(
            listed(80, ""),
            [
                "SEQU…  ID                                    STATUS   TOPIC                 ATT…",
                "20001  01a1eca3-42e4-72d0-9016-c14d791e1203  pending  shop.order.placed.v1  0",
            ]
        );
        let narrow = listed(100, error);
        assert_eq!(narrow[2], format!("    {error}"));
        for width in [60, 80, 100, 120, 140] {
            for error in ["", error] {
                let lines = listed(width, error);
                assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
                assert!(lines[1].contains("01a1eca3-42e4-72d0-9016-c14d791e1203"));
            }
        }
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
