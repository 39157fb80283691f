//! `cargo xtask seeds`: what the five documents ask for, and which tests prove it, as one page; and in the readme of
//! each system, how each line is met there.
//!
//! `examples/*/requirements.toml` says what is asked for, and how it is met; a test proves a requirement by naming its id
//! in the comment above it, a documentation test in a hidden line (`# // farm-1.1`). Whether the test is
//! any good, no program can say.

mod page;
mod proof;
mod readme;
mod requirement;

use crate::cargo::root;
use crate::example::SYSTEMS;
use crate::{Failure, Result, is_command, usage};
use proof::Proofs;
use requirement::Document;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/seeds.md";
const ANEW: &str = "write it anew with `cargo xtask seeds`";

/// Writes the page and the readmes; with `--check`, only looks whether they are as they would be written.
pub(crate) fn seeds(arguments: &[String]) -> Result {
    match arguments {
        [] => run(&root(), &documented(), false),
        [only] if only == "--check" => run(&root(), &documented(), true),
        _ => Err(usage("seeds knows only --check")),
    }
}

/// The step of `cargo xtask check`.
pub(crate) fn check() -> Result {
    run(&root(), &documented(), true)
}

/// The systems that a document describes.
fn documented() -> Vec<&'static str> {
    let with_one = SYSTEMS.iter().filter(|system| system.has_document);
    with_one.map(|system| system.name).collect()
}

fn run(root: &Path, systems: &[&str], check: bool) -> Result {
    let documents = requirement::read_all(root, systems)?;
    let proofs = proof::read_all(root)?;
    let problems = problems(&documents, &proofs);
    if !problems.is_empty() {
        return Err(Failure::new(problems.join("\n")));
    }
    let mut files = vec![(PAGE.to_owned(), page::render(&documents, &proofs))];
    for document in &documents {
        let file = readme::file(document);
        let there = fs::read_to_string(root.join(&file))
            .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
        let text = readme::render(&there, document, &proofs).map_err(Failure::new)?;
        files.push((file, text));
    }
    for (file, text) in files {
        let path = root.join(&file);
        let is_there = fs::read_to_string(&path).is_ok_and(|there| there == text);
        if !is_there && check {
            return Err(Failure::new(format!("{file} is out of date: {ANEW}")));
        }
        if !is_there {
            fs::write(&path, text)
                .map_err(|error| Failure::new(format!("cannot write {file}: {error}")))?;
        }
    }
    if check {
        return Ok(());
    }
    let asked: usize = documents.iter().map(|d| d.requirements.len()).sum();
    eprintln!("{PAGE}: {asked} requirements");
    Ok(())
}

/// Everything that is wrong, each with what to do about it.
fn problems(documents: &[Document], proofs: &Proofs) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for document in documents {
        for requirement in &document.requirements {
            let place = format!("{}:{}", document.file, requirement.line);
            let id = &requirement.id;
            if let Some(first) = seen.insert(id, place.clone()) {
                problems.push(format!(
                    "{place}: {id} is at {first} already: give one of them another number"
                ));
            }
            for spec in &requirement.spec {
                if !proofs.contains_key(spec) {
                    problems.push(format!(
                        "{place}: {id} relies on {spec}, which no test names: correct it"
                    ));
                }
            }
            if let Some(command) = &requirement.by
                && !command.strip_prefix("cargo xtask ").is_some_and(is_command)
            {
                problems.push(format!(
                    "{place}: there is no command `{command}`: see `cargo xtask help`"
                ));
            }
            let excused = requirement.by.is_some() || requirement.deviation.is_some();
            if !proofs.contains_key(id) && !excused {
                problems.push(format!(
                    "{place}: nothing proves {id}: write `// {id}` above a test that does, name the \
                     command that does (by = \"cargo xtask …\"), or say why it is not so here \
                     (deviation = \"…\")"
                ));
            }
        }
    }
    for (id, proofs) in proofs {
        if is_of_a_system(id) && !seen.contains_key(id.as_str()) {
            let places: BTreeSet<&str> = proofs.iter().map(|proof| proof.file.as_str()).collect();
            let places: Vec<&str> = places.into_iter().collect();
            problems.push(format!(
                "{}: there is no requirement {id}: correct the comment, or add it to the \
                 requirements.toml of that system",
                places.join(", ")
            ));
        }
    }
    problems
}

/// Whether a word is of the form `<system>-<number>`, e.g. `mini-chat-6.1`. Prose such as
/// `farm-made` is not: a number has a digit.
fn is_of_a_system(word: &str) -> bool {
    SYSTEMS.iter().any(|system| {
        let number = word
            .strip_prefix(system.name)
            .and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(requirement::is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::{documented, is_of_a_system, run};
    use std::fs;
    use std::path::PathBuf;

    /// A repository with one system and one test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, requirements: &str, test: &str) -> Self {
            let unique = format!("posthaste-seeds-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(unique);
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("docs")).unwrap();
            for (file, text) in [
                ("examples/farm/requirements.toml", requirements),
                ("examples/farm/tests/show.rs", test),
                ("examples/farm/README.md", README),
                ("crates/posthaste/src/lib.rs", ""),
            ] {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }

        fn check(&self) -> std::result::Result<(), String> {
            run(&self.0, &["farm"], true).map_err(|failure| failure.message)
        }

        fn write(&self) -> std::result::Result<String, String> {
            run(&self.0, &["farm"], false).map_err(|failure| failure.message)?;
            Ok(fs::read_to_string(self.0.join("docs/seeds.md")).unwrap())
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const README: &str = "# Farm\n<!-- Written by `cargo xtask seeds`, from requirements.toml and the tests: change \
        those. -->\n<!-- The end of what is written by `cargo xtask seeds`. -->\n";

    const ASKED: &str = "title = \"farm\"\nsource = \"004\"\n\
        [[requirement]]\nsection = \"1 Cattle\"\nid = \"farm-1.1\"\ntext = \"Cows | calves are events.\"\nspec = [\"F1\"]\n";

    #[test]
    fn a_page_that_was_written_is_up_to_date_until_a_test_is_renamed() {
        let tree = Tree::new("stale", ASKED, "// farm-1.1, F1\n#[test]\nfn calves() {}\n");
        assert!(tree.check().unwrap_err().contains("cargo xtask seeds"));
        let page = tree.write().unwrap();
        assert!(
            page.contains("[`calves`](../examples/farm/tests/show.rs)"),
            "{page}"
        );
        assert!(page.contains("Cows \\| calves"), "{page}");
        tree.check().unwrap();
        let readme = tree.0.join("examples/farm/README.md");
        let table = fs::read_to_string(&readme).unwrap();
        assert!(table.contains("✓ [calves](tests/show.rs)"), "{table}");
        fs::write(&readme, table.replace("calves", "cows")).unwrap();
        let told = tree.check().unwrap_err();
        assert!(told.contains("README.md is out of date"), "{told}");
        fs::write(&readme, README).unwrap();
        tree.write().unwrap();
        let test = tree.0.join("examples/farm/tests/show.rs");
        fs::write(test, "// farm-1.1, F1\n#[test]\nfn cows() {}\n").unwrap();
        assert!(tree.check().unwrap_err().contains("out of date"));
    }

    #[test]
    fn what_nothing_proves_is_an_error_that_says_what_to_write() {
        // A test of the specification is none of the requirement's own.
        for test in [
            "#[test]\nfn calves() {}\n",
            "// F1\n#[test]\nfn calves() {}\n",
        ] {
            let asked = ASKED.replace("spec = [\"F1\"]\n", "");
            let tree = Tree::new("unproved", &asked, test);
            let problem = tree.check().unwrap_err();
            assert!(problem.contains("requirements.toml:3"), "{problem}");
            assert!(problem.contains("`// farm-1.1`"), "{problem}");
            let excused = format!("{asked}deviation = \"Cows only.\"\n");
            let tree = Tree::new("excused", &excused, test);
            assert!(tree.write().unwrap().contains("Cows only."));
        }
    }

    #[test]
    fn a_command_may_prove_what_no_test_can_if_there_is_such_a_command() {
        let asked = ASKED.replace("spec = [\"F1\"]", "by = \"cargo xtask check --fast\"");
        let tree = Tree::new("command", &asked, "");
        assert!(
            tree.write()
                .unwrap()
                .contains("| `cargo xtask check --fast` |")
        );
        let tree = Tree::new("no-command", &asked.replace("check", "chekc"), "");
        let problem = tree.check().unwrap_err();
        assert!(
            problem.contains("no command `cargo xtask chekc"),
            "{problem}"
        );
    }

    #[test]
    fn a_line_of_the_specification_that_no_test_names_is_an_error() {
        let tree = Tree::new("spec", ASKED, "// farm-1.1\n#[test]\nfn calves() {}\n");
        let problem = tree.check().unwrap_err();
        assert!(problem.contains("relies on F1"), "{problem}");
    }

    #[test]
    fn an_id_that_nobody_asked_for_and_one_given_twice_are_errors() {
        let test = "// farm-1.1 farm-9.9 F1\n#[test]\nfn calves() {}\n";
        let tree = Tree::new("unknown", ASKED, test);
        let problem = tree.check().unwrap_err();
        assert!(problem.contains("no requirement farm-9.9"), "{problem}");
        let (_, again) = ASKED.split_once("[[").unwrap();
        let twice = format!("{ASKED}[[{again}");
        let tree = Tree::new("twice", &twice, "// farm-1.1 F1\n#[test]\nfn calves() {}\n");
        let problem = tree.check().unwrap_err();
        assert!(problem.contains("toml:8: farm-1.1 is at"), "{problem}");
    }

    #[test]
    fn exactly_the_documents_of_the_systems_are_there() {
        let tree = Tree::new(
            "documents",
            ASKED,
            "// farm-1.1 F1\n#[test]\nfn calves() {}\n",
        );
        let of = |systems: &[&str]| run(&tree.0, systems, false).map_err(|failure| failure.message);
        assert_eq!(of(&["farm"]), Ok(()));
        let missing = of(&["farm", "org"]).unwrap_err();
        assert!(missing.contains("cannot read examples/org"), "{missing}");
        let unknown = of(&[]).unwrap_err();
        assert!(unknown.contains("no document for farm"), "{unknown}");
        let expected = ["mini-chat", "org", "order-service", "logistics", "farm"];
        assert_eq!(documented(), expected);
    }

    #[test]
    fn prose_is_no_id() {
        for id in ["mini-chat-6.1", "org-3", "order-service-A2", "farm-10.a"] {
            assert!(is_of_a_system(id), "{id}");
        }
        for word in ["farm-made", "org-wide", "order-42", "mini-chat", "farm-1-2"] {
            assert!(!is_of_a_system(word), "{word}");
        }
    }
}
