//! The OpenAPI document: written from the table of routes, so that it tells all of them.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};

use super::routes::{Answers, Holds, In, Kind, Need, Param, ROUTES, Route};

/// What bodies and answers look like.
const SCHEMAS: &str = include_str!("openapi/schemas.json");

const ABOUT: &str = "Looks after outboxes: what stands where, why, and what to do about it. \
                     Every answer that is no success is an Error with a stable code.";

/// `/api/v1/openapi.json`.
pub(super) async fn document() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| written().to_string());
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, TEXT.as_str()).into_response()
}

fn written() -> Value {
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("tested");
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| route.kind == Kind::Api) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        let method = route.method.method().as_str().to_lowercase();
        path[method] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Posthaste", "version": "1", "description": ABOUT },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "As `posthaste token create` printed it." },
                "session": { "type": "apiKey", "in": "cookie", "name": "posthaste", "description": "As /login set it." },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": id(route),
        "summary": route.about,
        "parameters": route.params.iter().map(parameter).collect::<Vec<_>>(),
        "responses": responses(route),
    });
    if let Need::Role(role) = route.need {
        operation["x-role"] = json!(role.name());
        operation["security"] = json!([{ "token": [] }, { "session": [] }]);
    }
    if let Some(body) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": typed("application/json", body) });
    }
    operation
}

/// Such as `get_outbox_events`.
fn id(route: &Route) -> String {
    let parts = route.path.trim_start_matches("/api/v1").split('/');
    let mut words = vec![route.method.method().as_str().to_lowercase()];
    words.extend(parts.filter(|part| !part.is_empty()).map(|part| {
        let name = part.trim_matches(['{', '}']);
        name.trim_end_matches(".json").to_owned()
    }));
    words.join("_")
}

fn responses(route: &Route) -> Value {
    let told = |about: &str, content: Value| json!({ "description": about, "content": content });
    let error = || {
        told(
            "Why not, and what to do",
            typed("application/json", "Error"),
        )
    };
    let mut responses = json!({ "4XX": error(), "500": error(), "503": error(), "504": error() });
    match route.answers {
        Answers::Json(schema) => {
            responses["200"] = told("Done", typed("application/json", schema));
        }
        Answers::Accepts(now, later) => {
            responses["200"] = told("Done", typed("application/json", now));
            responses["202"] = told("Under way", typed("application/json", later));
        }
        Answers::Judges(schema) => {
            responses["200"] = told("All is well", typed("application/json", schema));
            responses["503"] = told("Something is ill", typed("application/json", schema));
        }
        Answers::Text(kind) => {
            let text = json!({ kind: { "schema": { "type": "string" } } });
            responses["200"] = told("Text", text);
        }
        Answers::Redirect => responses["303"] = json!({ "description": "Go on there" }),
    }
    responses
}

fn typed(kind: &str, schema: &str) -> Value {
    json!({ kind: { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn parameter(param: &Param) -> Value {
    let text = || json!({ "type": "string" });
    let list = |items: Value| json!({ "type": "array", "items": items, "minItems": 1 });
    let uuid = || json!({ "type": "string", "format": "uuid" });
    let schema = match param.kind {
        Holds::Text => text(),
        Holds::Uuid => uuid(),
        Holds::Uuids => list(uuid()),
        Holds::Duration => json!({
            "type": "string",
            "pattern": "^(?=.)([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$",
        }),
        Holds::Cursor => json!({ "type": "string", "pattern": "^[0-9]{1,16}_-?[0-9]{1,18}$" }),
        Holds::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Holds::OneOf(words) => json!({ "type": "string", "enum": words }),
        Holds::SomeOf(words) => list(json!({ "type": "string", "enum": words })),
    };
    let mut told = json!({
        "name": param.name,
        "description": param.about,
        "schema": schema,
        "required": param.place == In::Path,
        "in": match param.place {
            In::Path => "path",
            In::Query => "query",
        },
    });
    if matches!(param.kind, Holds::SomeOf(_) | Holds::Uuids) {
        told["style"] = json!("form");
        told["explode"] = json!(false);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_tells_every_route_and_every_schema_that_it_names_is_there() {
        let document = written();
        let paths = document["paths"].as_object().unwrap();
        let told: usize = paths
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum();
        let routes = ROUTES.iter().filter(|route| route.kind == Kind::Api);
        assert_eq!(told, routes.count());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50);
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        for name in schemas.keys() {
            let reference = format!("\"#/components/schemas/{name}\"");
            assert!(text.contains(&reference), "{name} is named by nothing");
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut names: Vec<String> = ROUTES.iter().map(id).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
