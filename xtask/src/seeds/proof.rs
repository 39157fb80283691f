//! Which tests name which ids: reads the comments above tests, and documentation tests. Knows nothing of
//! documents.

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
        let found = scan(&file, &text);
        if !found.is_empty() && !is_compiled(&path) {
            return Err(Failure::new(format!(
                "{file} is part of no crate: name it with `mod`, or remove it"
            )));
        }
        for (id, test) in found {
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

/// Whether a file is a crate of its own, or another one names it as a module: else nobody runs it.
fn is_compiled(path: &Path) -> bool {
    let (Some(stem), Some(folder)) = (path.file_stem(), path.parent()) else {
        return false;
    };
    let stem = stem.to_string_lossy();
    if folder.ends_with("tests") || ["lib", "main", "mod"].contains(&&*stem) {
        return true;
    }
    let named = format!("mod {stem};");
    let roots = ["lib.rs", "main.rs", "mod.rs"].map(|root| folder.join(root));
    let mut parents = roots.into_iter().chain([folder.with_extension("rs")]);
    parents.any(|parent| {
        let text = fs::read_to_string(parent).unwrap_or_default();
        text.lines().any(|line| line.trim().ends_with(&named))
    })
}

/// Every id that is named above a test, or in a documentation test, with the test.
fn scan(file: &str, text: &str) -> Vec<(String, String)> {
    let is_suite = SUITES.iter().any(|suite| file.starts_with(suite));
    let mut found = Vec::new();
    let mut above = Above::default();
    // An attribute may go over several lines.
    let mut depth = 0;
    for line in text.lines().map(str::trim) {
        if depth > 0 || line.starts_with("#[") {
            above.attribute(line);
            depth += line.matches('[').count() as i64 - line.matches(']').count() as i64;
            continue;
        }
        if let Some(comment) = line.strip_prefix("//") {
            above.comment(comment);
            continue;
        }
        let Above {
            ids,
            documented,
            is_test,
            is_ignored,
            ..
        } = std::mem::take(&mut above);
        if let Some(test) = function(line)
            && !is_ignored
            && (is_test || is_suite || is_listed(test, file, text))
        {
            found.extend(ids.into_iter().map(|id| (id, test.to_owned())));
        }
        let what = item(line).unwrap_or(file);
        let named = |id| (id, format!("documentation of {what}"));
        found.extend(documented.into_iter().map(named));
    }
    found
}

/// What stands above an item, up to it.
#[derive(Default)]
struct Above {
    ids: Vec<String>,
    /// Those that hidden lines of documentation tests name.
    documented: Vec<String>,
    /// Within a block of code of the documentation; and whether that is a test.
    block: Option<bool>,
    is_test: bool,
    is_ignored: bool,
}

impl Above {
    fn attribute(&mut self, line: &str) {
        let path = line.trim_start_matches("#[");
        let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
        let path = &path[..end.unwrap_or(path.len())];
        self.is_test |= path == "test" || path.ends_with("::test");
        self.is_ignored |= path == "ignore";
    }

    fn comment(&mut self, comment: &str) {
        let Some(documentation) = comment.strip_prefix(['/', '!']) else {
            self.ids.extend(ids_of(comment));
            return;
        };
        let line = documentation.trim();
        match (line.strip_prefix("```"), self.block) {
            (Some(_), Some(_)) => self.block = None,
            (Some(kind), None) => self.block = Some(!kind.contains("ignore") && kind != "text"),
            // What is for readers of the documentation names no ids.
            (None, Some(true)) => {
                let hidden = line.strip_prefix("# //").map(ids_of);
                self.documented.extend(hidden.into_iter().flatten());
            }
            (None, _) => {}
        }
    }
}

/// Whether a macro of the file makes tests of functions, this one among them: on a line of its own, or as
/// the only one.
fn is_listed(function: &str, file: &str, text: &str) -> bool {
    let alone = format!("!({function});");
    let mut lines = text.lines().map(|line| line.trim().trim_end_matches(','));
    file.contains("/tests/") && lines.any(|line| line == function || line.ends_with(&alone))
}

/// What a line of code begins to define.
fn item(line: &str) -> Option<&str> {
    let known = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "async",
        "fn",
        "struct",
        "enum",
        "trait",
    ];
    let mut words = line.split_whitespace().peekable();
    words.peek().filter(|first| known.contains(first))?;
    let name = words.find(|word| !known.contains(word))?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
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
    use super::{is_compiled, scan};
    use std::fs;

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
    fn functions_that_macros_make_tests_of_count_and_helpers_do_not() {
        let text = "// F9: why\npub async fn an_outage(bed: &impl Bed) {}\n// M1\nlet x = 1;\n";
        let suite = "crates/posthaste-testkit/src/conformance/claim.rs";
        assert_eq!(found(suite, text), ["F9 an_outage"]);
        assert!(found("crates/a/src/a.rs", text).is_empty());
        assert!(found("crates/a/tests/a/b.rs", text).is_empty());
        let listed = format!("on_every_store! {{\n    an_outage,\n}}\n{text}");
        assert_eq!(found("crates/a/tests/a/b.rs", &listed), ["F9 an_outage"]);
        let listed = format!("on_every_store!(an_outage);\n{text}");
        assert_eq!(found("crates/a/tests/a/b.rs", &listed), ["F9 an_outage"]);
    }

    #[test]
    fn what_is_ignored_or_only_looks_like_a_test_proves_nothing() {
        for attributes in [
            "#[test]\n#[ignore = \"slow\"]",
            "#[cfg(test)]",
            "#[allow(test)]",
        ] {
            let text = format!("// M1\n{attributes}\nfn one() {{}}\n");
            let found = found("examples/a/tests/a.rs", &text);
            assert!(found.is_empty(), "{attributes}: {found:?}");
        }
    }

    #[test]
    fn a_documentation_test_names_ids_in_a_hidden_line() {
        let text = "\
            /// org-1.1 is not what this says.\n///\n/// ```compile_fail\n/// # // org-5.2.8, org-9.3\n\
            /// let x = M1;\n/// ```\n/// ```text\n/// # // M2\n/// ```\n/// # // M3\n\
            #[derive(Default)]\npub struct Bus {\n}\n";
        let expected = [
            "org-5.2.8 documentation of Bus",
            "org-9.3 documentation of Bus",
        ];
        assert_eq!(found("crates/a/src/a.rs", text), expected);
    }

    #[test]
    fn a_file_that_no_other_names_is_not_compiled() {
        let root = std::env::temp_dir().join(format!("posthaste-proof-{}", std::process::id()));
        let tests = root.join("tests/shop");
        fs::create_dir_all(&tests).unwrap();
        fs::write(tests.join("main.rs"), "mod order;\npub mod bill;\n").unwrap();
        fs::write(root.join("tests/shop.rs"), "mod crate_of_its_own;\n").unwrap();
        for (file, compiled) in [
            ("tests/shop/main.rs", true),
            ("tests/shop/order.rs", true),
            ("tests/shop/bill.rs", true),
            ("tests/shop/crate_of_its_own.rs", true),
            ("tests/shop/forgotten.rs", false),
            ("tests/alone.rs", true),
        ] {
            assert_eq!(is_compiled(&root.join(file)), compiled, "{file}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_id_named_twice_above_one_test_counts_once() {
        let text = "// M1 M1\n#[test]\nfn one() {}\n";
        assert_eq!(found("examples/a/tests/a.rs", text), ["M1 one"]);
    }
}
