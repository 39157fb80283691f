//! The readme of a system: every line of its document, how it is met there, and what proves it, between two marks.
//! All else in it is written by people.

use super::page::cell;
use super::proof::{Proof, Proofs};
use super::requirement::{Document, Requirement};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- Written by `cargo xtask seeds`, from requirements.toml and the tests: change those. -->\n";
const END: &str = "<!-- The end of what is written by `cargo xtask seeds`. -->\n";

/// So many tests are named; the others are counted.
const SHOWN: usize = 2;

/// Where the readme of a document's system is, from the root of the repository.
pub(super) fn file(document: &Document) -> String {
    format!("examples/{}/README.md", document.title)
}

/// The readme with its table written anew, or what is wrong with it.
pub(super) fn render(
    readme: &str,
    document: &Document,
    proofs: &Proofs,
) -> std::result::Result<String, String> {
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        return Err(format!(
            "{}: it has no place for the table: write these two lines where it belongs\n{BEGIN}{END}",
            file(document)
        ));
    };
    Ok(format!(
        "{before}{BEGIN}{}\n{END}{after}",
        table(document, proofs)
    ))
}

fn table(document: &Document, proofs: &Proofs) -> String {
    let mut text = String::new();
    for requirement in &document.requirements {
        // Writing to a text does not fail, here and below.
        if let Some(section) = &requirement.section {
            let _ = write!(
                text,
                "\n### {section}\n\n| | the document | here |\n|---|---|---|\n"
            );
        }
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            requirement.number(),
            cell(&requirement.text),
            here(document, requirement, proofs)
        );
    }
    text
}

/// How a line is met, where that differs on purpose, and the tests, whose names are sentences.
fn here(document: &Document, requirement: &Requirement, proofs: &Proofs) -> String {
    let mut parts = Vec::new();
    parts.extend(requirement.here.as_deref().map(cell));
    if let Some(deviation) = &requirement.deviation {
        parts.push(format!("*On purpose:* {}", cell(deviation)));
    }
    let tests = proofs.get(&requirement.id).map_or(&[][..], Vec::as_slice);
    let mut shown: Vec<String> = tests
        .iter()
        .take(SHOWN)
        .map(|test| link(document, test))
        .collect();
    shown.extend(requirement.by.iter().map(|command| format!("`{command}`")));
    if tests.len() > SHOWN {
        shown.push(format!("and {} more", tests.len() - SHOWN));
    }
    if !shown.is_empty() {
        parts.push(format!("✓ {}", shown.join(", ")));
    }
    parts.join(" ")
}

fn link(document: &Document, proof: &Proof) -> String {
    let folder = format!("examples/{}/", document.title);
    let place = match proof.file.strip_prefix(&folder) {
        Some(own) => own.to_owned(),
        None => format!("../../{}", proof.file),
    };
    format!("[{}]({place})", proof.test.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, Document, END, Proof, Proofs, Requirement, render};

    fn document() -> Document {
        Document {
            title: "farm".to_owned(),
            source: "004".to_owned(),
            file: String::new(),
            requirements: vec![Requirement {
                section: Some("2 Guarantees".to_owned()),
                id: "farm-2.1".to_owned(),
                text: "Nothing | nobody is lost.".to_owned(),
                here: Some("`Farm::save` sees to it.".to_owned()),
                spec: Vec::new(),
                by: None,
                deviation: Some("Cows may stray.".to_owned()),
                line: 1,
            }],
        }
    }

    #[test]
    fn the_table_stands_between_its_marks_and_the_rest_stays() {
        let test = |name: &str, file: &str| Proof {
            test: name.to_owned(),
            file: file.to_owned(),
        };
        let tests = vec![
            test("no_cow_is_lost", "examples/farm/tests/cows.rs"),
            test("no_event_is_lost", "crates/a/tests/a.rs"),
            test("c", "crates/a/tests/a.rs"),
        ];
        let proofs = Proofs::from([("farm-2.1".to_owned(), tests)]);
        let readme = format!("# Farm\n\n{BEGIN}old\n{END}\nMore.\n");
        let written = render(&readme, &document(), &proofs).unwrap();
        let row = "\n### 2 Guarantees\n\n| | the document | here |\n|---|---|---|\n\
            | 2.1 | Nothing \\| nobody is lost. | `Farm::save` sees to it. *On purpose:* Cows may stray. \
            ✓ [no cow is lost](tests/cows.rs), [no event is lost](../../crates/a/tests/a.rs), and 1 more |\n";
        assert_eq!(written, format!("# Farm\n\n{BEGIN}{row}\n{END}\nMore.\n"));
        let again = render(&written, &document(), &proofs).unwrap();
        assert_eq!(again, written);
    }

    #[test]
    fn a_readme_without_a_place_for_it_is_an_error() {
        for readme in [
            "# Farm\n".to_owned(),
            format!("{END}{BEGIN}"),
            BEGIN.to_owned(),
        ] {
            let told = render(&readme, &document(), &Proofs::new()).unwrap_err();
            assert!(told.contains("examples/farm/README.md"), "{told}");
            assert!(told.contains(BEGIN) && told.contains(END), "{told}");
        }
    }
}
