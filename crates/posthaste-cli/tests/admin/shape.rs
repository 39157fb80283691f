//! Whether an answer is what the OpenAPI document says.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::scene::Daemon;

/// Asserts that an answer fits the schema of this name.
pub(crate) fn fits(daemon: &Daemon, schema: &str, answer: &Value) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| daemon.get("/api/v1/openapi.json").done());
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{schema}"),
        "components": document["components"],
    });
    let validator = jsonschema::validator_for(&whole).unwrap();
    let wrong: Vec<String> = validator
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(wrong.is_empty(), "not {schema}: {wrong:?}\n{answer:#}");
}
