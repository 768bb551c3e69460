//! Schemas by name.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::paths::gvk_extension;
use super::{PublishedKind, PublishedSchema, meta};
use crate::builtin::{self, OBJECT_META, descriptions};

const GVK: &str = "x-kubernetes-group-version-kind";
const PREFIX: &str = "#/components/schemas/";

type Schemas = Map<String, Value>;

/// Adds the schemas of a kind and of its lists.
pub(super) fn add(kind: &PublishedKind, schemas: &mut Schemas) {
    let Some(name) = kind.schema_name() else {
        return;
    };
    let mut schema = match &kind.schema {
        PublishedSchema::BuiltIn(_) => published(&name),
        PublishedSchema::Custom(schema, selectable) => custom(schema, selectable),
    };
    if let Some(keywords) = schema.as_object_mut() {
        keywords.insert(GVK.to_owned(), json!([gvk_extension(&kind.gvk)]));
    }
    schemas.insert(name.clone(), schema);
    if let (Some(list_name), true) = (kind.list_name(), kind.can("list")) {
        let gvk =
            json!({"group": kind.gvk.group, "kind": kind.list_kind, "version": kind.gvk.version});
        let mut list = json!({
            "type": "object",
            "description": format!("Objects of kind {}.", kind.gvk.kind),
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": {"$ref": format!("{PREFIX}{name}")}},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": format!("{PREFIX}{}", meta::LIST_META)}]},
            },
            GVK: [gvk],
        });
        let fields = list.get_mut("properties").and_then(Value::as_object_mut);
        for (name, field) in fields.into_iter().flatten() {
            let text = match name.as_str() {
                "metadata" => Some("The version of the list, and how to get the rest of it."),
                name => descriptions::of_common_field(name),
            };
            describe(field, text);
        }
        schemas.insert(list_name, list);
    }
}

/// Adds built-in definitions until every reference resolves.
pub(super) fn complete(schemas: &mut Schemas, wanted: BTreeSet<String>) {
    let mut queue: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = queue.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let schema = published(&name);
        let mut found = BTreeSet::new();
        references(&schema, &mut found);
        queue.extend(found);
        schemas.insert(name, schema);
    }
}

/// Lists the kinds of delete options: of each group-version, and of none.
pub(super) fn name_options(schemas: &mut Schemas, kinds: &[PublishedKind]) {
    let Some(options) = schemas
        .get_mut(meta::DELETE_OPTIONS)
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let mut scopes: BTreeSet<(&str, &str)> = BTreeSet::from([("", "v1")]);
    scopes.extend(
        kinds
            .iter()
            .map(|kind| (kind.gvk.group.as_str(), kind.gvk.version.as_str())),
    );
    let name = |(group, version): (&str, &str)| json!({"group": group, "kind": "DeleteOptions", "version": version});
    options.insert(GVK.to_owned(), scopes.into_iter().map(name).collect());
}

/// Collects the names that are referred to.
pub(super) fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            found.extend(
                reference
                    .and_then(|it| it.strip_prefix(PREFIX))
                    .map(str::to_owned),
            );
            map.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// --- built-in ---

/// A definition of the data file as documents have it; an unknown one is an object of any content.
fn published(name: &str) -> Value {
    let Some(definition) = builtin::definition_text(name) else {
        return json!({"type": "object"});
    };
    let mut published = expand(&definition);
    let Some(described) = descriptions::of_definition(name) else {
        return published;
    };
    describe(&mut published, Some(described.text));
    let fields = published
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        describe(field, described.field(name));
    }
    published
}

/// Adds what a schema means, unless it says so itself. Nothing beside a bare reference has a meaning.
fn describe(schema: &mut Value, text: Option<&str>) {
    let (Some(keywords), Some(text)) = (schema.as_object_mut(), text) else {
        return;
    };
    if let Some(reference) = keywords.remove("$ref") {
        keywords.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    keywords.entry("description").or_insert_with(|| json!(text));
}

fn expand(schema: &Value) -> Value {
    let Some(keywords) = schema.as_object() else {
        return schema.clone();
    };
    let mut expanded = Map::new();
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "$ref" => {
                let name = value.as_str().unwrap_or_default();
                let reference = json!({"$ref": format!("{PREFIX}{name}")});
                if keywords.len() == 1 {
                    return reference;
                }
                expanded.insert("allOf".to_owned(), json!([reference]));
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties: Map<String, Value> = properties
                    .map(|(name, property)| (name.clone(), expand(property)))
                    .collect();
                expanded.insert(keyword.clone(), Value::Object(properties));
            }
            "items" | "additionalProperties" => {
                expanded.insert(keyword.clone(), expand(value));
            }
            "x-kubernetes-int-or-string" => {}
            _ => drop(expanded.insert(keyword.clone(), value.clone())),
        }
    }
    match keywords.get("format").and_then(Value::as_str) {
        Some("quantity") => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Some("int-or-string") => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        _ => Value::Object(expanded),
    }
}

// --- custom ---

/// The schema of a definition, with the fields of every resource.
fn custom(schema: &Value, selectable: &[String]) -> Value {
    let mut published = schema.clone();
    add_embedded(&mut published);
    resource_fields(&mut published);
    if let (Some(keywords), false) = (published.as_object_mut(), selectable.is_empty()) {
        let fields = selectable
            .iter()
            .map(|path| json!({"fieldPath": path}))
            .collect();
        keywords.insert("x-kubernetes-selectable-fields".to_owned(), fields);
    }
    published
}

/// Gives embedded resources the fields of every resource too.
fn add_embedded(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    for child in ["items", "additionalProperties"] {
        keywords.get_mut(child).into_iter().for_each(add_embedded);
    }
    let properties = keywords
        .get_mut("properties")
        .and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flat_map(Map::values_mut)
        .for_each(add_embedded);
    if keywords.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        resource_fields(schema);
    }
}

/// Metadata is what it is, whatever the schema restricts; the type is text.
fn resource_fields(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else {
        return;
    };
    keywords.entry("type").or_insert_with(|| json!("object"));
    let properties = keywords.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    for name in ["apiVersion", "kind"] {
        let field = properties
            .entry(name)
            .or_insert_with(|| json!({"type": "string"}));
        describe(field, descriptions::of_common_field(name));
    }
    let mut metadata = json!({"allOf": [{"$ref": format!("{PREFIX}{OBJECT_META}")}]});
    describe(&mut metadata, descriptions::of_common_field("metadata"));
    properties.insert("metadata".to_owned(), metadata);
}
