//! No block of a guide goes without a test: each language of each guide is listed here with who proves it.

use std::collections::BTreeSet;

use crate::repository;

/// Who proves the blocks of a language, in all guides or in one.
const PROVEN: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "sh",
        "CI runs both commands; demo.rs runs the demo",
    ),
    ("README.md", "console", "the_readme_runs"),
    (
        "README.md",
        "toml",
        "the_readme_runs writes the first; the second is this workspace's own",
    ),
    (
        "README.md",
        "rust,no_run",
        "every_block_of_the_readme_is_run (posthaste-relay)",
    ),
    (
        "docs/admin.md",
        "console",
        "the_guide_of_the_admin_api_runs",
    ),
    (
        "docs/admin.md",
        "sh",
        "its requests are those of tests/admin",
    ),
    (
        "docs/admin.md",
        "toml",
        "its keys are those of tests/config/good/admin.toml",
    ),
    (
        "docs/cli.md",
        "text",
        "the_reference_tells_what_the_program_does",
    ),
    ("docs/concepts.md", "text", "nothing to run"),
    ("docs/concepts.md", "mermaid", "nothing to run"),
    (
        "docs/configuration.md",
        "toml",
        "the_reference_in_docs_is_what_the_program_prints",
    ),
    (
        "docs/consumer.md",
        "rust",
        "compiled as a doctest (posthaste-relay)",
    ),
    (
        "docs/consumer.md",
        "rust,no_run",
        "compiled as a doctest (posthaste-relay)",
    ),
    (
        "docs/consumer.md",
        "sql",
        "the_consumers_statement_finds_out_what_is_new_…",
    ),
    (
        "docs/dashboard.md",
        "sh",
        "the_demo_prints_an_address_where_a_living_dashboard_is",
    ),
    (
        "docs/dead-letters.md",
        "toml",
        "its key is that of tests/config/good/with_warnings.toml",
    ),
    (
        "docs/deploy.md",
        "sh",
        "tests/deploy proves what the commands install",
    ),
    (
        "docs/deploy.md",
        "sql",
        "the_rights_that_the_guide_grants_are_all_that_a_daemon_needs",
    ),
    (
        "docs/library.md",
        "rust,no_run",
        "compiled as a doctest (posthaste-relay)",
    ),
    (
        "docs/metrics.md",
        "yaml",
        "prometheus.rs scrapes with the like",
    ),
    ("docs/operations.md", "console", "the_runbook_runs"),
    ("docs/operations.md", "toml", "the_runbook_runs writes it"),
    (
        "docs/other-languages.md",
        "sql",
        "other_languages.rs, on both databases",
    ),
    (
        "docs/other-languages.md",
        "go",
        "guide.rs of examples/producers",
    ),
    (
        "docs/other-languages.md",
        "java",
        "guide.rs of examples/producers",
    ),
    (
        "docs/other-languages.md",
        "python",
        "guide.rs of examples/producers, other_languages.rs",
    ),
    (
        "docs/other-languages.md",
        "typescript",
        "guide.rs of examples/producers",
    ),
    (
        "docs/tracing.md",
        "rust,no_run",
        "compiled as a doctest (posthaste-relay)",
    ),
    ("docs/tracing.md", "text", "nothing to run"),
    ("docs/tracing.md", "toml", "its keys are those of trace.rs"),
];

/// Each guide with each language of its blocks.
fn found() -> BTreeSet<(String, String)> {
    let docs = repository().join("docs");
    let guides = std::fs::read_dir(docs).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.ends_with(".md").then(|| format!("docs/{name}"))
    });
    let mut found = BTreeSet::new();
    for guide in guides.chain(["README.md".to_owned()]) {
        let text = std::fs::read_to_string(repository().join(&guide)).unwrap();
        let fences = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("```"));
        // Every other one ends a block.
        let languages = fences.step_by(2).map(|it| (guide.clone(), it.to_owned()));
        found.extend(languages);
    }
    found
}

#[test]
fn every_block_of_a_guide_is_proven_by_somebody() {
    let listed = PROVEN.iter();
    let listed = listed.map(|(guide, language, _)| (guide.to_string(), language.to_string()));
    let listed: BTreeSet<(String, String)> = listed.collect();
    let found = found();
    let unproven: Vec<_> = found.difference(&listed).collect();
    assert!(
        unproven.is_empty(),
        "run these in a test, and list them: {unproven:?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "no longer there: {gone:?}");
}
