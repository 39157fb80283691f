//! Reading a guide: its files, its commands, and what they should print.

/// One thing that a reader does.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Writes a file.
    File { name: String, text: String },
    /// Types a command, and looks at what it prints.
    Run {
        line: usize,
        command: String,
        expected: String,
    },
}

/// Everything that a reader of this guide does, in order.
pub(crate) fn steps(guide: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut note = "";
    let mut lines = guide.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                note = line.trim();
            }
            continue;
        };
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim() != "```")
            .map(|(at, line)| (at + 1, line))
            .collect();
        let file = note
            .strip_prefix("<!-- file: ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        match (file, language) {
            (Some(name), _) => steps.push(Step::File {
                name: name.to_owned(),
                text: joined(block.iter().map(|(_, line)| *line)),
            }),
            (None, "console") if note != "<!-- not run -->" => steps.extend(commands(&block)),
            _ => {}
        }
        note = "";
    }
    steps
}

fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, text) in block {
        match (text.strip_prefix("$ "), steps.last_mut()) {
            (Some(typed), _) => steps.push(Step::Run {
                line: *at,
                command: typed.to_owned(),
                expected: String::new(),
            }),
            (
                None,
                Some(Step::Run {
                    command, expected, ..
                }),
            ) => match command.ends_with('\\') && expected.is_empty() {
                true => *command += &format!("\n{text}"),
                false => *expected += &format!("{text}\n"),
            },
            _ => panic!("line {at}: a block of commands begins with `$ `"),
        }
    }
    steps
}

fn joined<'t>(lines: impl Iterator<Item = &'t str>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

/// Whether what was printed is what the guide shows.
pub(crate) fn matches(expected: &str, printed: &str) -> bool {
    let clean = |text: &str| -> Vec<String> { text.trim_end().lines().map(settled).collect() };
    lines_match(&clean(expected), &clean(printed))
}

/// A line without what is another each time: ids, times, how long something took, and so how far
/// columns are apart.
fn settled(line: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut settled = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = match part(first) {
            true => rest.find(|c| !part(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        settled.push_str(match word {
            _ if uuid::Uuid::parse_str(word).is_ok() => "<id>",
            _ if word.parse::<jiff::Timestamp>().is_ok() => "<time>",
            _ if word == "now" || is_duration(word) => "<duration>",
            word => word,
        });
        rest = after;
    }
    let words: Vec<&str> = settled.split_whitespace().collect();
    words.join(" ").replace("<duration> ago", "<duration>")
}

fn is_duration(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < word.len() && ["ms", "s", "m"].contains(&unit)
}

fn lines_match(expected: &[String], printed: &[String]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any.trim() == "…" => {
            (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..]))
        }
        (Some((one, expected)), Some((line, printed))) => {
            line_matches(one, line) && lines_match(expected, printed)
        }
        _ => false,
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    let places = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    places
        .into_iter()
        .any(|skip| line_matches(rest, &line[skip..]))
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(matches("1 event, … old\n", "1 event, 3 s old\n"));
    assert!(matches("first\n…\nlast\n", "first\nsecond\nthird\nlast\n"));
    assert!(matches("first\n…\n", "first\n"));
    assert!(!matches("1 event\n", "2 events\n"));
    assert!(!matches("first\n", "first\nsecond\n"));
    assert!(!matches("1 event, … old\n", "1 event\n"));
}

#[test]
fn ids_and_times_are_others_each_time() {
    let shown = "2026-11-16T07:34:44.897243Z  dead  2e1dee01-e889-4029-8d22-7e12c53bd37d  5s ago\n";
    let printed = "2027-01-02T03:04:05.6Z dead 01a1e347-a042-752d-ae43-86771b92ad11 now\n";
    assert!(matches(shown, printed));
    assert!(!matches(shown, &printed.replace("dead", "delivered")));
    assert!(!matches("5s ago\n", "5 events ago\n"));
}

#[test]
fn a_guide_is_read_as_files_and_commands() {
    let guide = "Text\n<!-- file: a.toml -->\n```toml\nx = 1\n```\n\n```console\n$ one \\\n  more\nout\n$ two\n```\n\
                 <!-- not run -->\n```console\n$ never\n```\n```rust\nlet x;\n```\n";
    let run = |line, command: &str, expected: &str| Step::Run {
        line,
        command: command.into(),
        expected: expected.into(),
    };
    let file = Step::File {
        name: "a.toml".into(),
        text: "x = 1\n".into(),
    };
    assert_eq!(
        steps(guide),
        [file, run(8, "one \\\n  more", "out\n"), run(11, "two", "")]
    );
}
