//! Which tests name which ids: reads the comments above tests. Knows nothing of documents.

use super::is_of_a_system;
use crate::{Failure, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A test that names an id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) test: String,
    /// From the root of the repository.
    pub(super) file: String,
}

/// By id: in the order of files and lines.
pub(super) type Proofs = BTreeMap<String, Vec<Proof>>;

/// Where tests are: in these folders of each package.
const PLACES: [(&str, &str); 4] = [
    ("crates", "src"),
    ("crates", "tests"),
    ("examples", "src"),
    ("examples", "tests"),
];

/// Functions of these have no attribute of a test: macros make tests of them.
const SUITES: [&str; 2] = [
    "crates/posthaste-testkit/src/conformance/",
    "crates/posthaste-testkit/src/sink_contract/",
];

pub(super) fn read_all(root: &Path) -> Result<Proofs> {
    let mut files = Vec::new();
    for (kind, folder) in PLACES {
        for package in entries(&root.join(kind)) {
            gather(&package.join(folder), &mut files);
        }
    }
    let mut proofs = Proofs::new();
    for path in files {
        let file = path.strip_prefix(root).unwrap_or(&path);
        let file = file.to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
        for (id, test) in scan(&file, &text) {
            let file = file.clone();
            proofs.entry(id).or_default().push(Proof { test, file });
        }
    }
    Ok(proofs)
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        match path.is_dir() {
            true => gather(&path, files),
            false if path.extension().is_some_and(|kind| kind == "rs") => files.push(path),
            false => {}
        }
    }
}

/// What is in a folder, in order; nothing, if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Every id that is named above a test, with the test.
fn scan(file: &str, text: &str) -> Vec<(String, String)> {
    let in_tests = file.contains("/tests/") || SUITES.iter().any(|suite| file.starts_with(suite));
    let mut found = Vec::new();
    let mut ids = Vec::new();
    let mut is_test = in_tests;
    // An attribute may go over several lines.
    let mut depth = 0;
    for line in text.lines().map(str::trim) {
        if depth > 0 || line.starts_with("#[") {
            is_test |= line.starts_with("#[") && line.contains("test");
            depth += line.matches('[').count() as i64 - line.matches(']').count() as i64;
            continue;
        }
        if let Some(comment) = line.strip_prefix("//") {
            // What is for readers of the documentation names no ids.
            if !comment.starts_with(['/', '!']) {
                ids.extend(ids_of(comment));
            }
            continue;
        }
        if let Some(test) = function(line).filter(|_| is_test) {
            found.extend(ids.drain(..).map(|id| (id, test.to_owned())));
        }
        ids.clear();
        is_test = in_tests;
    }
    found
}

fn ids_of(comment: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for word in comment.split(|c: char| c.is_whitespace() || c == ',' || c == '/') {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if (is_of_the_specification(word) || is_of_a_system(word))
            && !ids.iter().any(|id| id == word)
        {
            ids.push(word.to_owned());
        }
    }
    ids
}

/// A letter and a number of one or two digits.
fn is_of_the_specification(word: &str) -> bool {
    let number = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    number.is_some_and(|number| {
        matches!(number.len(), 1 | 2) && number.chars().all(|c| c.is_ascii_digit())
    })
}

/// The name of the function that begins on this line.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let known = ["pub", "pub(crate)", "pub(super)", "async"];
    if !before.split_whitespace().all(|word| known.contains(&word)) {
        return None;
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    after.get(..end?).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::scan;

    fn found(file: &str, text: &str) -> Vec<String> {
        let found = scan(file, text);
        found
            .iter()
            .map(|(id, test)| format!("{id} {test}"))
            .collect()
    }

    #[test]
    fn ids_are_named_in_the_comment_above_a_test() {
        let text = "\
            // mini-chat-6.1, mini-chat-6.2, M3: whatever else M12/B5. it says\n\
            #[tokio::test(\n    flavor = \"multi_thread\"\n)]\n\
            async fn one() {\n    // F1\n    let x = 1;\n}\n\n\
            // K6\n\n#[test]\nfn without_ids() {}\n\
            // UTF8, X123, B, 42\n#[test]\nfn no_ids() {}\n\
            /// B2 is documentation.\n// B7\n#[test]\npub(crate) fn two() {}\n";
        let expected = [
            "mini-chat-6.1 one",
            "mini-chat-6.2 one",
            "M3 one",
            "M12 one",
            "B5 one",
            "B7 two",
        ];
        assert_eq!(found("crates/a/src/a.rs", text), expected);
    }

    #[test]
    fn functions_that_macros_make_tests_of_count_where_only_tests_are() {
        let text = "// F9: why\npub async fn an_outage(bed: &impl Bed) {}\n// M1\nlet x = 1;\n";
        assert_eq!(found("crates/a/tests/a/b.rs", text), ["F9 an_outage"]);
        let suite = "crates/posthaste-testkit/src/conformance/claim.rs";
        assert_eq!(found(suite, text), ["F9 an_outage"]);
        assert!(found("crates/a/src/a.rs", text).is_empty());
    }

    #[test]
    fn an_id_named_twice_above_one_test_counts_once() {
        let text = "// M1 M1\nfn one() {}\n";
        assert_eq!(found("examples/a/tests/a.rs", text), ["M1 one"]);
    }
}
