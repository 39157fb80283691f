//! The configuration as a JSON schema, for editors and other tools.

use serde_json::{Map, Value as Json, json};

use super::explain::{default, example};
use super::keys::{Default as Otherwise, Key, Section, Shape};
use super::kind::{Kind, Value};
use super::sinks::{SINKS, SinkType};

/// JSON schema, draft 2020-12.
pub(crate) fn schema() -> Json {
    let tables = Section::within("");
    let properties: Map<String, Json> = tables
        .map(|table| (table.name().to_owned(), section(table)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "posthaste.toml",
        "description": "The configuration of Posthaste, a transactional outbox",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn section(section: &Section) -> Json {
    match section.shape {
        Shape::Once => table(section, None),
        Shape::Listed => json!({
            "description": section.doc,
            "type": "array",
            "items": table(section, None),
        }),
        Shape::Named => json!({
            "description": section.doc,
            "type": "object",
            "propertyNames": { "pattern": "^[a-z][a-z0-9]*(_[a-z0-9]+)*$" },
            "additionalProperties": {
                "type": "object",
                "oneOf": SINKS.iter().map(|sink| table(section, Some(sink))).collect::<Vec<_>>(),
            },
        }),
    }
}

fn table(section: &Section, sink: Option<&SinkType>) -> Json {
    let mut properties = Map::new();
    for key in section.keys(sink) {
        properties.insert(key.name.to_owned(), property(key));
    }
    if let Some(sink) = sink {
        let only = json!({ "description": sink.doc, "const": sink.name });
        properties.insert("type".to_owned(), only);
    }
    for inner in Section::within(section.path) {
        properties.insert(inner.name().to_owned(), self::section(inner));
    }
    let alternatives: Vec<(&str, &str)> = section
        .keys(sink)
        .filter_map(|key| match key.kind {
            Kind::File(of) => Some((of, key.name)),
            _ => None,
        })
        .collect();
    // What a file may hold, or the environment set, is not required here.
    let required: Vec<&str> = section
        .keys(sink)
        .filter(|key| key.default == Otherwise::Required)
        .filter(|key| alternatives.iter().all(|(of, _)| *of != key.name))
        .map(|key| key.name)
        .collect();
    let mut schema = json!({
        "description": sink.map_or(section.doc, |sink| sink.doc),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    if let [(of, file)] = alternatives[..] {
        schema["not"] = json!({ "required": [of, file] });
    }
    schema
}

fn property(key: &Key) -> Json {
    let mut schema = match key.kind {
        Kind::Text | Kind::Secret | Kind::File(_) => json!({ "type": "string" }),
        Kind::Listen => json!({ "type": "string", "pattern": "^.+:[0-9]+$" }),
        Kind::Texts | Kind::Tokens => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Ratio => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Duration => json!({
            "type": "string",
            "pattern": "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
        }),
        Kind::Size => json!({ "oneOf": [
            { "type": "integer", "minimum": 0 },
            { "type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)?$" },
        ] }),
        Kind::Word(words) => json!({ "type": "string", "enum": words }),
        Kind::Table => json!({ "type": "string", "minLength": 1 }),
        Kind::Uuid => json!({ "type": "string", "pattern": "^([0-9a-fA-F-]{32,36})?$" }),
        Kind::Database => json!({ "type": "string", "pattern": "^(postgres(ql)?://|sqlite:).+" }),
    };
    let about = match key.default {
        Otherwise::Is(_) => format!("{} Default: {}.", key.doc, default(key)),
        _ => format!("{} Example: {}.", key.doc, example(key)),
    };
    schema["description"] = Json::from(about);
    if let Otherwise::Is(text) = key.default {
        schema["default"] = as_json(key, text);
    }
    schema["examples"] = json!([as_json(key, key.example)]);
    schema
}

fn as_json(key: &Key, text: &str) -> Json {
    match key.kind.parse(text).expect("tested for every key") {
        Value::Integer(number) if key.kind != Kind::Size => Json::from(number),
        Value::Boolean(value) => Json::from(value),
        Value::Ratio(number) => Json::from(number),
        Value::Texts(texts) => Json::from(texts),
        value => Json::from(key.kind.show(&value)),
    }
}
