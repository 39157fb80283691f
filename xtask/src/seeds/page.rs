//! The page: a table for each document, with what is asked for and what proves it.

use super::of;
use super::proof::{Proof, Proofs};
use super::requirement::{Document, Requirement};
use std::fmt::Write as _;

const HEAD: &str = "\
# Five systems, and what proves that they do as asked

<!-- Written by `cargo xtask seeds`: change examples/*/requirements.toml and the tests instead. -->

Posthaste was made for five services, each described by a document of its own. Each is a runnable example
(`cargo xtask example`), and each sentence of its document that asks for something is a row here: what is
asked for, which tests prove it, and where the example differs on purpose. Tests of the example itself come
first, then those of the library, which name the same lines of our specification (`M3`) in the comment above
them. `cargo xtask check` fails if a row has no proof.
";

/// So many tests are named; the others are counted.
const SHOWN: usize = 3;

pub(super) fn render(documents: &[Document], proofs: &Proofs) -> String {
    let mut page = HEAD.to_owned();
    // Writing to a text does not fail, here and below.
    page.push_str(
        "\n| document | requirements | with tests of its own | deviations |\n|---|---|---|---|\n",
    );
    for document in documents {
        let count = |wanted: &dyn Fn(&Requirement) -> bool| {
            document.requirements.iter().filter(|r| wanted(r)).count()
        };
        let _ = writeln!(
            page,
            "| [{title}](#{title}) | {} | {} | {} |",
            count(&|_| true),
            count(&|requirement| proofs.contains_key(&requirement.id)),
            count(&|requirement| requirement.deviation.is_some()),
            title = document.title,
        );
    }
    for document in documents {
        let (title, source) = (&document.title, &document.source);
        let _ = write!(
            page,
            "\n## {title}\n\nDocument {source}, in [`examples/{title}`](../examples/{title}).\n\n\
             | | asked for | proof | deviation |\n|---|---|---|---|\n"
        );
        for requirement in &document.requirements {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} |",
                requirement.section(),
                cell(&requirement.text),
                proof(requirement, proofs),
                cell(requirement.deviation.as_deref().unwrap_or_default()),
            );
        }
    }
    page
}

fn proof(requirement: &Requirement, proofs: &Proofs) -> String {
    let tests = of(requirement, proofs);
    let shown: Vec<String> = tests.iter().take(SHOWN).map(|test| link(test)).collect();
    let mut text = shown.join(", ");
    if tests.len() > SHOWN {
        let _ = write!(text, " and {} more", tests.len() - SHOWN);
    }
    if !requirement.spec.is_empty() {
        let _ = write!(text, " ({})", requirement.spec.join(", "));
    }
    text
}

fn link(proof: &Proof) -> String {
    format!("[`{}`](../{})", proof.test, proof.file)
}

/// As a table can hold it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::{Document, Proof, Proofs, Requirement, render};

    #[test]
    fn own_tests_come_first_and_many_are_counted() {
        let test = |name: &str| Proof {
            test: name.to_owned(),
            file: "crates/a/tests/a.rs".to_owned(),
        };
        let proofs = Proofs::from([
            ("M3".to_owned(), ["a", "b", "own", "c"].map(test).into()),
            ("farm-2.1".to_owned(), vec![test("own")]),
        ]);
        let document = Document {
            title: "farm".to_owned(),
            source: "004".to_owned(),
            file: String::new(),
            requirements: vec![Requirement {
                id: "farm-2.1".to_owned(),
                text: "Nothing is lost.".to_owned(),
                spec: vec!["M3".to_owned()],
                deviation: Some("Never.".to_owned()),
                line: 1,
            }],
        };
        let page = render(&[document], &proofs);
        let own = "[`own`](../crates/a/tests/a.rs)";
        let row = format!(
            "| 2.1 | Nothing is lost. | {own}, {}, {} and 1 more (M3) | Never. |",
            own.replace("own", "a"),
            own.replace("own", "b")
        );
        assert!(page.contains(&row), "{page}");
        assert!(page.contains("| [farm](#farm) | 1 | 1 | 1 |"), "{page}");
    }
}
