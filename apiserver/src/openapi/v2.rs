//! OpenAPI v2, made of the v3 documents: one for all groups, for clients that know no other.
//!
//! Version 2 says less: alternatives, nullability and defaults are left out, as Kubernetes leaves them out, because the
//! parsers of old clients cannot express them.
//!
//! Source: `apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go`, the Swagger 2.0 specification.

use serde_json::{Map, Value, json};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Keys of a schema that version 2 does not have, or that its clients cannot read.
const DROPPED: [&str; 6] = ["nullable", "oneOf", "anyOf", "allOf", "not", "default"];

/// One document out of those of all groups and versions.
pub(super) fn document(documents: &[Value]) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for document in documents {
        for (path, item) in objects(document.get("paths")) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, schema) in objects(document.pointer("/components/schemas")) {
            merge_definition(&mut definitions, name, schema_of(schema));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": crate::side::KUBERNETES_VERSION },
        "paths": paths,
        "definitions": definitions,
    })
}

/// Adds a definition. One that several groups share says in each which kinds of theirs it is: version 2 lists them all.
fn merge_definition(definitions: &mut Map<String, Value>, name: &str, schema: Value) {
    const KINDS: &str = "x-kubernetes-group-version-kind";
    let Some(known) = definitions.get_mut(name) else {
        definitions.insert(name.to_owned(), schema);
        return;
    };
    let more = schema.get(KINDS).and_then(Value::as_array).cloned();
    if let (Some(kinds), Some(more)) = (known.get_mut(KINDS).and_then(Value::as_array_mut), more) {
        for kind in more {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
}

fn objects(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn path_item(item: &Value) -> Value {
    let mut converted = Map::new();
    for (key, value) in objects(Some(item)) {
        if METHODS.contains(&key.as_str()) {
            converted.insert(key.clone(), operation(value));
        }
    }
    if let Some(parameters) = item.get("parameters").and_then(Value::as_array) {
        let parameters = parameters.iter().map(parameter).collect();
        converted.insert("parameters".to_owned(), parameters);
    }
    converted.into()
}

fn operation(operation: &Value) -> Value {
    let mut converted = Map::new();
    let mut parameters: Vec<Value> = operation
        .get("parameters")
        .and_then(Value::as_array)
        .map(|parameters| parameters.iter().map(parameter).collect())
        .unwrap_or_default();
    if let Some(body) = operation.get("requestBody") {
        let (types, schema) = content(body);
        let required = body.get("required").and_then(Value::as_bool) == Some(true);
        let mut parameter = json!({ "in": "body", "name": "body", "schema": schema });
        if required {
            parameter["required"] = json!(true);
        }
        parameters.push(parameter);
        converted.insert("consumes".to_owned(), json!(types));
    }
    let mut produced = Vec::new();
    let mut responses = Map::new();
    for (code, response) in objects(operation.get("responses")) {
        let (types, schema) = content(response);
        produced.extend(types);
        let description = response
            .get("description")
            .cloned()
            .unwrap_or_else(|| json!(""));
        let mut converted = json!({ "description": description });
        if !schema.is_null() {
            converted["schema"] = schema;
        }
        responses.insert(code.clone(), converted);
    }
    produced.sort();
    produced.dedup();
    for (key, value) in objects(Some(operation)) {
        if key.starts_with("x-") || key == "operationId" {
            converted.insert(key.clone(), value.clone());
        }
    }
    converted.insert("produces".to_owned(), json!(produced));
    converted.insert("parameters".to_owned(), parameters.into());
    converted.insert("responses".to_owned(), responses.into());
    converted.into()
}

/// The media types of a body, and the schema of the first, which is that of all.
fn content(body: &Value) -> (Vec<String>, Value) {
    let types = objects(body.get("content"))
        .map(|(name, _)| name.clone())
        .collect();
    let schema = objects(body.get("content"))
        .next()
        .and_then(|(_, content)| content.get("schema"))
        .map_or(Value::Null, schema_of);
    (types, schema)
}

/// A parameter, whose schema version 2 has in the parameter itself.
fn parameter(parameter: &Value) -> Value {
    let mut converted = parameter.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(schema)) = converted.remove("schema") {
        converted.extend(schema);
    }
    converted.into()
}

fn schema_of(schema: &Value) -> Value {
    let Some(fields) = schema.as_object() else {
        return schema.clone();
    };
    if let Some(reference) = reference_of(fields) {
        let mut converted = json!({ "$ref": reference });
        if let Some(description) = fields.get("description") {
            converted["description"] = description.clone();
        }
        return converted;
    }
    let is_set = |key: &str| fields.get(key).and_then(Value::as_bool) == Some(true);
    let is_untyped = is_set("nullable") || is_set("x-kubernetes-int-or-string");
    let is_open = is_set("x-kubernetes-preserve-unknown-fields");
    let mut converted = Map::new();
    for (key, value) in fields {
        let key_text = key.as_str();
        if DROPPED.contains(&key_text) || (key == "type" && is_untyped) {
            continue;
        }
        // What a subtree that takes anything says of its parts would make clients refuse the rest.
        if is_open
            && matches!(
                key_text,
                "items" | "properties" | "additionalProperties" | "type"
            )
        {
            continue;
        }
        let value = match key_text {
            "properties" => objects(Some(value))
                .map(|(name, schema)| (name.clone(), schema_of(schema)))
                .collect::<Map<_, _>>()
                .into(),
            "items" | "additionalProperties" => schema_of(value),
            _ => value.clone(),
        };
        converted.insert(key.clone(), value);
    }
    converted.into()
}

/// The reference that a schema is, or that it only wraps to add a default.
fn reference_of(fields: &Map<String, Value>) -> Option<String> {
    let reference =
        fields
            .get("$ref")
            .or_else(|| match fields.get("allOf")?.as_array()?.as_slice() {
                [only] => only.get("$ref"),
                _ => None,
            })?;
    let name = reference.as_str()?.strip_prefix("#/components/schemas/")?;
    Some(format!("#/definitions/{name}"))
}
