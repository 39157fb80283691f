//! The page: a table for each document, with what is asked for and what proves it.

use super::proof::{Proof, Proofs};
use super::requirement::{Document, Requirement};
use std::fmt::Write as _;

const HEAD: &str = "\
# Five systems, and what proves that they do as asked

<!-- Written by `cargo xtask seeds`: change examples/*/requirements.toml and the tests instead. -->

Posthaste was made for five services, each described by a document of its own. Each is a runnable example
(`cargo xtask example`), and each sentence of its document that asks for something is a row here: what is
asked for, what proves it, and where the example differs on purpose. Headings are the document's; the numbers of
rows are ours. A test that proves a row names its id, such as `farm-9.4`, in the comment above it; where there is
nothing to test, the row names a command. In brackets are lines of our specification (`M3`) that have more tests.
`cargo xtask check` fails if a row has neither proof nor deviation.
";

/// So many tests are named; the others are counted.
const SHOWN: usize = 3;

pub(super) fn render(documents: &[Document], proofs: &Proofs) -> String {
    let mut page = HEAD.to_owned();
    // Writing to a text does not fail, here and below.
    page.push_str(
        "\n| document | requirements | with tests | by a command | deviations |\n|---|---|---|---|---|\n",
    );
    for document in documents {
        let count = |wanted: &dyn Fn(&Requirement) -> bool| {
            document.requirements.iter().filter(|r| wanted(r)).count()
        };
        let _ = writeln!(
            page,
            "| [{title}](#{title}) | {} | {} | {} | {} |",
            count(&|_| true),
            count(&|requirement| proofs.contains_key(&requirement.id)),
            count(&|requirement| requirement.by.is_some()),
            count(&|requirement| requirement.deviation.is_some()),
            title = document.title,
        );
    }
    for document in documents {
        let (title, source) = (&document.title, &document.source);
        let _ = write!(
            page,
            "\n## {title}\n\nDocument {source}, in [`examples/{title}`](../examples/{title}).\n"
        );
        for requirement in &document.requirements {
            if let Some(section) = &requirement.section {
                let _ = write!(
                    page,
                    "\n### {section}\n\n| {title}- | asked for | proof | deviation |\n|---|---|---|---|\n"
                );
            }
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} |",
                requirement.number(),
                cell(&requirement.text),
                proof(requirement, proofs),
                cell(requirement.deviation.as_deref().unwrap_or_default()),
            );
        }
    }
    page
}

fn proof(requirement: &Requirement, proofs: &Proofs) -> String {
    let tests = proofs.get(&requirement.id).map_or(&[][..], Vec::as_slice);
    let mut shown: Vec<String> = tests.iter().take(SHOWN).map(link).collect();
    shown.extend(requirement.by.iter().map(|command| format!("`{command}`")));
    let mut text = shown.join(", ");
    if tests.len() > SHOWN {
        let _ = write!(text, " and {} more", tests.len() - SHOWN);
    }
    if !requirement.spec.is_empty() {
        let space = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{space}({})", requirement.spec.join(", "));
    }
    text
}

fn link(proof: &Proof) -> String {
    format!("[`{}`](../{})", proof.test, proof.file)
}

/// As a table can hold it.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::{Document, Proof, Proofs, Requirement, render};

    #[test]
    fn tests_that_name_the_row_are_shown_and_many_are_counted() {
        let test = |name: &str| Proof {
            test: name.to_owned(),
            file: "crates/a/tests/a.rs".to_owned(),
        };
        let proofs = Proofs::from([
            ("M3".to_owned(), vec![test("general")]),
            ("farm-2.1".to_owned(), ["a", "b", "c", "d"].map(test).into()),
        ]);
        let document = Document {
            title: "farm".to_owned(),
            source: "004".to_owned(),
            file: String::new(),
            requirements: vec![Requirement {
                section: Some("2 Guarantees".to_owned()),
                id: "farm-2.1".to_owned(),
                text: "Nothing is lost.".to_owned(),
                here: None,
                spec: vec!["M3".to_owned()],
                by: None,
                deviation: Some("Never.".to_owned()),
                line: 1,
            }],
        };
        let page = render(&[document], &proofs);
        let shown = ["a", "b", "c"].map(|name| format!("[`{name}`](../crates/a/tests/a.rs)"));
        let row = format!(
            "\n### 2 Guarantees\n\n| farm- | asked for | proof | deviation |\n|---|---|---|---|\n\
             | 2.1 | Nothing is lost. | {} and 1 more (M3) | Never. |",
            shown.join(", "),
        );
        assert!(page.contains(&row), "{page}");
        assert!(page.contains("| [farm](#farm) | 1 | 1 | 0 | 1 |"), "{page}");
    }
}
