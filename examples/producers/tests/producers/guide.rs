//! The guide shows parts of the producers: word for word, so that what is read is what is run.

use std::fs;
use std::path::{Path, PathBuf};

use producers::LANGUAGES;

fn producers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The blocks of the guide that follow `<!-- from: FILE -->`, with their files.
fn shown() -> Vec<(String, String)> {
    let guide = producers().join("../../docs/other-languages.md");
    let guide = fs::read_to_string(guide).unwrap();
    let mut shown = Vec::new();
    for part in guide.split("<!-- from: ").skip(1) {
        let (file, rest) = part.split_once(" -->\n```").unwrap();
        let (_, block) = rest.split_once('\n').unwrap();
        let (block, _) = block.split_once("\n```").unwrap();
        shown.push((file.to_owned(), block.to_owned()));
    }
    shown
}

/// Lines without what they are all indented by, and without empty ones at both ends.
fn flush(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let margin = |line: &&str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.is_empty());
    let least = filled.map(margin).min().unwrap_or(0);
    let cut = |line: &&str| line.get(least..).unwrap_or_default().to_owned();
    lines.iter().map(cut).collect::<Vec<_>>().join("\n")
}

/// Whether the lines of `block` are in `file` one after the other, indented there by anything.
fn is_part(block: &str, file: &str) -> bool {
    let lines: Vec<&str> = file.lines().collect();
    let wanted = flush(block);
    let length = wanted.lines().count();
    lines
        .windows(length)
        .any(|window| flush(&window.join("\n")) == wanted)
}

// P1
#[test]
fn what_the_guide_shows_of_each_language_is_in_its_program() {
    let shown = shown();
    for language in LANGUAGES {
        let folder = format!("examples/producers/{}/", language.name());
        assert!(
            shown.iter().any(|(file, _)| file.starts_with(&folder)),
            "the guide shows nothing of {folder}"
        );
    }
    for (file, block) in shown {
        let text = fs::read_to_string(producers().join("../..").join(&file)).unwrap();
        assert!(is_part(&block, &text), "{file} has no such lines:\n{block}");
    }
}

#[test]
fn a_part_may_be_indented_but_not_changed() {
    let file = "a {\n\tb {\n\t\tc\n\t}\n}\n";
    assert!(is_part("b {\n\tc\n}", file));
    assert!(!is_part("b {\n\td\n}", file));
    assert!(!is_part("b {\nc\n}", file));
    assert!(!is_part("a {\n}", file));
}
