//! No block of a guide goes without a test: how many there are in each language is listed here for each guide, with
//! who proves them. Whoever adds one has to say how it is proven.

use std::collections::BTreeMap;

use crate::repository;

/// A block of a guide.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

const RUN: &str = "this program runs guides";
const RUST: &str = "every_block_of_rust_in_the_guides_is_run (posthaste-relay)";
const CARGO: &str = "what_the_guides_do_with_cargo_can_be_done";
const CONFIGURED: &str = "the_program_accepts_every_configuration_of_the_guides";
const NOTHING: &str = "nothing to run";
const SHOWN: &str = "what the example prints; its own tests hold it to the last line";
const LANGUAGES: &str = "guide.rs of examples/producers";
const EXAMPLE: &str = "examples.rs runs it, with clients in Python for those that need Docker";
const OPERATED: &str = "what_the_guides_do_with_cargo_can_be_done, operators_of_the_examples_can_do_what_they_are_told";

/// Who proves the blocks of a language in a guide, and how many they are.
const PROVEN: &[(&str, &str, usize, &str)] = &[
    ("README.md", "sh", 1, CARGO),
    ("README.md", "console", 2, RUN),
    (
        "README.md",
        "toml",
        2,
        "the first is run; the second is this workspace's own",
    ),
    (
        "README.md",
        "rust",
        3,
        "every_block_of_the_readme_is_run (posthaste-relay)",
    ),
    ("docs/admin.md", "console", 1, RUN),
    (
        "docs/admin.md",
        "sh",
        1,
        "the_requests_of_the_admin_guide_are_answered",
    ),
    ("docs/admin.md", "toml", 2, CONFIGURED),
    (
        "docs/cli.md",
        "text",
        22,
        "the_reference_tells_what_the_program_does",
    ),
    ("docs/concepts.md", "text", 1, NOTHING),
    ("docs/concepts.md", "mermaid", 1, NOTHING),
    ("docs/configuration.md", "toml", 1, CONFIGURED),
    ("docs/consumer.md", "rust", 2, RUST),
    (
        "docs/consumer.md",
        "sql",
        1,
        "the_consumers_statement_finds_out_what_is_new_…",
    ),
    (
        "docs/dashboard.md",
        "sh",
        1,
        "the_demo_prints_an_address_where_a_living_dashboard_is",
    ),
    ("docs/dead-letters.md", "toml", 1, CONFIGURED),
    (
        "docs/deploy.md",
        "sh",
        3,
        "scripts.rs runs the first; guide.rs of tests/deploy holds the others to what is shipped",
    ),
    (
        "docs/deploy.md",
        "sql",
        1,
        "the_rights_that_the_guide_grants_are_all_that_a_daemon_needs",
    ),
    ("docs/library.md", "rust", 4, RUST),
    (
        "docs/metrics.md",
        "yaml",
        1,
        "prometheus_accepts_the_configuration_of_the_guide",
    ),
    ("docs/operations.md", "console", 10, RUN),
    ("docs/operations.md", "toml", 1, RUN),
    (
        "docs/other-languages.md",
        "sql",
        6,
        "other_languages.rs, on both databases",
    ),
    ("docs/other-languages.md", "go", 2, LANGUAGES),
    ("docs/other-languages.md", "java", 2, LANGUAGES),
    (
        "docs/other-languages.md",
        "python",
        3,
        "guide.rs of examples/producers, other_languages.rs",
    ),
    ("docs/other-languages.md", "typescript", 2, LANGUAGES),
    ("docs/sinks/http.md", "rust", 1, RUST),
    ("docs/sinks/kafka.md", "rust", 1, RUST),
    ("docs/sinks/kafka.md", "toml", 1, CONFIGURED),
    ("docs/sinks/nats.md", "rust", 1, RUST),
    (
        "docs/sinks/nats.md",
        "sh",
        1,
        "a_stream_acknowledges (posthaste-relay) makes the same stream",
    ),
    ("docs/sinks/rabbitmq.md", "rust", 1, RUST),
    ("docs/sinks/rabbitmq.md", "toml", 1, CONFIGURED),
    ("docs/sinks/redis.md", "rust", 1, RUST),
    (
        "docs/sinks/redis.md",
        "text",
        1,
        "what redis-cli prints; message.rs of the sink's tests",
    ),
    ("docs/tracing.md", "rust", 2, RUST),
    ("docs/tracing.md", "text", 1, NOTHING),
    ("docs/tracing.md", "toml", 1, CONFIGURED),
    ("examples/farm/README.md", "sh", 1, CARGO),
    ("examples/farm/README.md", "text", 1, SHOWN),
    ("examples/http/README.md", "sh", 1, EXAMPLE),
    ("examples/http/README.md", "python", 1, EXAMPLE),
    ("examples/kafka/README.md", "sh", 1, EXAMPLE),
    ("examples/logistics/README.md", "sh", 1, CARGO),
    ("examples/logistics/README.md", "text", 1, SHOWN),
    ("examples/mini-chat/README.md", "sh", 2, OPERATED),
    ("examples/mini-chat/README.md", "text", 1, SHOWN),
    ("examples/nats/README.md", "sh", 1, EXAMPLE),
    ("examples/order-service/README.md", "sh", 2, OPERATED),
    ("examples/order-service/README.md", "text", 1, SHOWN),
    ("examples/org/README.md", "sh", 1, CARGO),
    ("examples/org/README.md", "text", 1, SHOWN),
    ("examples/org/README.md", "toml", 1, RUN),
    ("examples/org/README.md", "console", 5, RUN),
    ("examples/org/README.md", "json", 2, RUN),
    ("examples/producers/README.md", "sh", 1, CARGO),
    ("examples/rabbitmq/README.md", "sh", 1, EXAMPLE),
    ("examples/redis/README.md", "sh", 1, EXAMPLE),
];

/// README, all of `docs/`, and what the examples say of themselves.
pub(crate) fn guides() -> Vec<String> {
    let files = |folder: &str| {
        let entries = std::fs::read_dir(repository().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    let mut guides = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/sinks"] {
        let found = files(folder)
            .into_iter()
            .filter(|name| name.ends_with(".md"));
        guides.extend(found.map(|name| format!("{folder}/{name}")));
    }
    let examples = files("examples").into_iter();
    let examples = examples.map(|name| format!("examples/{name}/README.md"));
    guides.extend(examples.filter(|guide| repository().join(guide).is_file()));
    guides.sort();
    guides
}

/// Every block of a guide, in order.
pub(crate) fn blocks_of(guide: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(repository().join(guide)).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim().strip_prefix("```") else {
            continue;
        };
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        blocks.push(Block {
            language: language.to_owned(),
            text: inside.map(|line| format!("{line}\n")).collect(),
        });
    }
    blocks
}

#[test]
fn every_block_of_a_guide_is_proven_by_somebody() {
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for guide in guides() {
        for block in blocks_of(&guide) {
            *found.entry((guide.clone(), block.language)).or_default() += 1;
        }
    }
    let listed = PROVEN.iter().map(|(guide, language, count, _)| {
        let which = (guide.to_string(), language.to_string());
        (which, *count)
    });
    let listed: BTreeMap<(String, String), usize> = listed.collect();
    let unproven: Vec<_> = found
        .iter()
        .filter(|(it, n)| listed.get(it) != Some(n))
        .collect();
    assert!(
        unproven.is_empty(),
        "run these in a test, and list them: {unproven:#?}"
    );
    let gone: Vec<_> = listed.keys().filter(|it| !found.contains_key(it)).collect();
    assert!(gone.is_empty(), "no longer there: {gone:?}");
}
