//! What a document asks for: reads `examples/*/requirements.toml`. Knows nothing of tests.

use crate::{Failure, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One of the documents, as its system understands it.
#[derive(Debug)]
pub(super) struct Document {
    /// The folder in `examples/`, too.
    pub(super) title: String,
    /// The document's number.
    pub(super) source: String,
    /// Where the requirements are, from the root of the repository.
    pub(super) file: String,
    pub(super) requirements: Vec<Requirement>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Requirement {
    /// The heading of the document under which this one and the next are, if it is the first there.
    pub(super) section: Option<String>,
    /// `<system>-<number>`.
    pub(super) id: String,
    pub(super) text: String,
    /// How it is met here, where the tests do not say it already.
    pub(super) here: Option<String>,
    /// Lines of the specification that it belongs to, whose tests say more.
    pub(super) spec: Vec<String>,
    /// The command that proves it, where a test cannot.
    pub(super) by: Option<String>,
    /// Where this system differs on purpose, and why.
    pub(super) deviation: Option<String>,
    /// Where it is in its file.
    pub(super) line: usize,
}

impl Requirement {
    /// The id without the system.
    pub(super) fn number(&self) -> &str {
        self.id.rsplit('-').next().unwrap_or(&self.id)
    }
}

/// Whether this can be the part of an id after the system: letters, digits and dots, and at least
/// one digit.
pub(super) fn is_number(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.';
    text.chars().all(allowed) && text.contains(|c: char| c.is_ascii_digit())
}

/// The documents of these systems, in their order. All of them are there, and no other.
pub(super) fn read_all(root: &Path, systems: &[&str]) -> Result<Vec<Document>> {
    let mut folders: BTreeSet<String> = systems.iter().map(ToString::to_string).collect();
    let there = fs::read_dir(root.join("examples")).into_iter().flatten();
    for folder in there.flatten() {
        if folder.path().join("requirements.toml").exists() {
            folders.insert(folder.file_name().to_string_lossy().into_owned());
        }
    }
    let mut documents = Vec::new();
    for folder in folders {
        let file = format!("examples/{folder}/requirements.toml");
        if !systems.contains(&folder.as_str()) {
            return Err(Failure::new(format!(
                "{file}: there is no document for {folder}: name it in xtask/src/example.rs"
            )));
        }
        let text = fs::read_to_string(root.join(&file))
            .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
        let document = parse(&folder, &file, &text).map_err(Failure::new)?;
        documents.push(document);
    }
    documents.sort_by(|one, other| one.source.cmp(&other.source));
    Ok(documents)
}

/// An error names file and line, and what to do.
fn parse(folder: &str, file: &str, text: &str) -> std::result::Result<Document, String> {
    let at = |place: usize| text[..place.min(text.len())].matches('\n').count() + 1;
    let parsed = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| at(span.start));
        format!("{file}:{line}: this is not TOML: {}", error.message())
    })?;
    let mut top = Fields::new(parsed.into_inner(), file, 1);
    let title = top.text("title")?;
    if title != folder {
        return Err(format!(
            "{file}: write title = \"{folder}\", as its folder is called"
        ));
    }
    let source = top.text("source")?;
    let mut requirements = Vec::new();
    for entry in top.list("requirement")? {
        let line = at(entry.span().start);
        let DeValue::Table(table) = entry.into_inner() else {
            return Err(format!(
                "{file}:{line}: begin each one with [[requirement]]"
            ));
        };
        requirements.push(requirement(folder, Fields::new(table, file, line))?);
    }
    top.end()?;
    match requirements.first() {
        Some(Requirement {
            section: Some(_), ..
        }) => {}
        Some(first) => {
            return Err(format!(
                "{file}:{}: say where it begins in the document: section = \"1 Purpose\"",
                first.line
            ));
        }
        None => return Err(format!("{file}: it asks for nothing")),
    }
    Ok(Document {
        title,
        source,
        file: file.to_owned(),
        requirements,
    })
}

fn requirement(system: &str, mut fields: Fields<'_>) -> std::result::Result<Requirement, String> {
    let section = fields.optional_text("section")?;
    let id = fields.text("id")?;
    let number = id
        .strip_prefix(system)
        .and_then(|rest| rest.strip_prefix('-'));
    if !number.is_some_and(is_number) {
        return Err(fields.wrong(&format!("write the id \"{id}\" as {system}-<number>")));
    }
    let text = fields.text("text")?;
    let here = fields.optional_text("here")?;
    let mut spec = Vec::new();
    for line in fields.list("spec")? {
        match line.into_inner() {
            DeValue::String(line) => spec.push(line.into_owned()),
            _ => return Err(fields.wrong("write spec as a list of texts: spec = [\"M3\"]")),
        }
    }
    let by = fields.optional_text("by")?;
    let deviation = fields.optional_text("deviation")?;
    let line = fields.line;
    fields.end()?;
    Ok(Requirement {
        section,
        id,
        text,
        here,
        spec,
        by,
        deviation,
        line,
    })
}

/// The keys of a table, each of which is taken once.
struct Fields<'t> {
    table: DeTable<'t>,
    file: &'t str,
    line: usize,
}

impl<'t> Fields<'t> {
    fn new(table: DeTable<'t>, file: &'t str, line: usize) -> Self {
        Self { table, file, line }
    }

    fn wrong(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.file, self.line)
    }

    fn text(&mut self, key: &str) -> std::result::Result<String, String> {
        self.optional_text(key)?
            .ok_or_else(|| self.wrong(&format!("give it a {key} = \"…\"")))
    }

    fn optional_text(&mut self, key: &str) -> std::result::Result<Option<String>, String> {
        match self.table.remove(key).map(Spanned::into_inner) {
            None => Ok(None),
            Some(DeValue::String(text)) if !text.trim().is_empty() => {
                Ok(Some(text.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
            Some(_) => Err(self.wrong(&format!("write {key} as a text: {key} = \"…\""))),
        }
    }

    fn list(&mut self, key: &str) -> std::result::Result<Vec<Spanned<DeValue<'t>>>, String> {
        match self.table.remove(key).map(Spanned::into_inner) {
            None => Ok(Vec::new()),
            Some(DeValue::Array(list)) => Ok(list.into_iter().collect()),
            Some(_) => Err(self.wrong(&format!("{key} is a list"))),
        }
    }

    /// What is left is a mistake.
    fn end(self) -> std::result::Result<(), String> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.wrong(&format!(
                "there is no key {}: a requirement has section, id, text, here, spec, by and deviation",
                key.get_ref()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const HEAD: &str = "title = \"org\"\nsource = \"001\"\n";

    #[test]
    fn everything_that_a_requirement_can_say_is_read() {
        let text = format!(
            "{HEAD}\n[[requirement]]\nsection = \"1 Goal\"\nid = \"org-2\"\ntext = \"\"\"\nTwo\n  lines.\"\"\"\n\
             here = \"So.\"\nspec = [\"B2\", \"B7\"]\ndeviation = \"Not so.\"\n\n\
             [[requirement]]\nid = \"org-1.3\"\ntext = \"Short.\"\nby = \"cargo xtask check\"\n"
        );
        let document = parse("org", "r.toml", &text).unwrap();
        assert_eq!((&*document.title, &*document.source), ("org", "001"));
        let [first, second] = &document.requirements[..] else {
            panic!("{document:?}");
        };
        assert_eq!(
            (&*first.text, first.line, first.number()),
            ("Two lines.", 4, "2")
        );
        assert_eq!(first.section.as_deref(), Some("1 Goal"));
        assert_eq!(first.spec, ["B2", "B7"]);
        assert_eq!((first.here.as_deref(), &second.here), (Some("So."), &None));
        assert_eq!(first.deviation.as_deref(), Some("Not so."));
        assert_eq!((second.number(), second.line), ("1.3", 14));
        assert_eq!((&second.spec[..], &second.deviation), (&[][..], &None));
        assert_eq!(
            (&second.section, second.by.as_deref()),
            (&None, Some("cargo xtask check"))
        );
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (entry, told) in [
            (
                "[[requirement]]\nid = \"farm-1\"\ntext = \"a\"",
                "r.toml:3: write the id",
            ),
            (
                "[[requirement]]\nid = \"org-one\"\ntext = \"a\"",
                "r.toml:3: write the id",
            ),
            (
                "[[requirement]]\nid = \"org-1\"",
                "r.toml:3: give it a text",
            ),
            (
                "[[requirement]]\nid = \"org-1\"\ntext = 3",
                "r.toml:3: write text as a text",
            ),
            (
                "[[requirement]]\nid = \"org-1\"\ntext = \"a\"\nspec = \"B1\"",
                "spec is a list",
            ),
            (
                "[[requirement]]\nid = \"org-1\"\ntext = \"a\"\nspec = [1]",
                "write spec as",
            ),
            (
                "[[requirement]]\nid = \"org-1\"\ntext = \"a\"\nwhy = \"b\"",
                "no key why",
            ),
            ("[[requirements]]\nid = \"org-1\"", "no key requirements"),
            ("requirement = [1]", "begin each one with"),
            ("[[requirement]\n", "r.toml:3: this is not TOML"),
            ("", "r.toml: it asks for nothing"),
            (
                "[[requirement]]\nid = \"org-1\"\ntext = \"a\"",
                "r.toml:3: say where it begins",
            ),
        ] {
            let text = format!("{HEAD}{entry}\n");
            let error = parse("org", "r.toml", &text).unwrap_err();
            assert!(error.contains(told), "{entry}: {error}");
        }
        let error = parse("farm", "r.toml", HEAD).unwrap_err();
        assert!(error.contains("title = \"farm\""), "{error}");
    }
}
