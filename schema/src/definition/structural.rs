//! Whether a schema is structural: every value has one place in the schema that says what it is, and combinators only
//! restrict it.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go`.

use api::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::structural::Pattern;

/// Which kind of node is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

type Keywords = Map<String, Value>;

/// What is not structural about a schema, sorted.
pub(super) fn validate(schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(schema) = schema.as_object() {
        node(schema, Level::Root, path, &mut errors);
        completeness(schema, Some(schema), (path, path), &mut errors);
    }
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The first keyword that has no meaning in a structural schema, which is then not judged further.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let keywords = schema.as_object()?;
    for (keyword, name) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        let is_used = keywords.get(keyword).is_some_and(|value| match value {
            // Anything at all is an additional item.
            value if keyword == "additionalItems" => !value.is_null(),
            value => !is_zero(value),
        });
        if is_used {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if keywords
        .get("items")
        .is_some_and(|items| items.as_array().is_some_and(|it| !it.is_empty()))
    {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if keywords.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let error =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(error.to_owned());
    }
    let single = ["items", "additionalProperties", "not"]
        .iter()
        .filter_map(|it| keywords.get(*it));
    let lists = ["allOf", "anyOf", "oneOf"]
        .iter()
        .filter_map(|it| keywords.get(*it)?.as_array());
    let properties = object(keywords, "properties")
        .into_iter()
        .flat_map(Map::values);
    single
        .chain(lists.flatten())
        .chain(properties)
        .find_map(unsupported)
}

fn text<'v>(keywords: &'v Keywords, name: &str) -> &'v str {
    keywords
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn flag(keywords: &Keywords, name: &str) -> bool {
    keywords.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn object<'v>(keywords: &'v Keywords, name: &str) -> Option<&'v Keywords> {
    keywords.get(name).and_then(Value::as_object)
}

fn children<'v>(
    keywords: &'v Keywords,
    name: &str,
) -> impl Iterator<Item = (&'v String, &'v Keywords)> {
    let entries = object(keywords, name).into_iter().flatten();
    entries.filter_map(|(name, child)| Some((name, child.as_object()?)))
}

fn branches<'v>(keywords: &'v Keywords, name: &str) -> impl Iterator<Item = (usize, &'v Keywords)> {
    let entries = keywords
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    entries
        .enumerate()
        .filter_map(|(index, branch)| Some((index, branch.as_object()?)))
}

fn node(schema: &Keywords, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let items = object(schema, "items");
    if value_type == "array" && items.is_none() {
        errors.push(FieldError::required(
            &path.child("items"),
            "must be specified",
        ));
    }
    if let Some(items) = items {
        node(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in children(schema, "properties") {
        node(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    let additional_path = path.child("additionalProperties");
    let additional = schema
        .get("additionalProperties")
        .filter(|it| !it.is_null());
    if additional.is_some() && level == Level::Root {
        errors.push(FieldError::forbidden(
            &additional_path,
            "must not be used at the root",
        ));
    }
    if let Some(element) = additional.and_then(Value::as_object) {
        node(element, Level::Field, &additional_path, errors);
    }
    extensions(schema, path, errors);
    let skip_any_of = is_int_or_string(schema.get("anyOf"));
    let first_all_of = branches(schema, "allOf").next();
    let skip_all_of = first_all_of.is_some_and(|(_, first)| is_int_or_string(first.get("anyOf")));
    value_validation(schema, (skip_any_of, skip_all_of), path, errors);
    types(schema, level, path, errors);
    meta_fields(schema, level, path, errors);
}

fn types(schema: &Keywords, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let type_path = path.child("type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && value_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if value_type.is_empty() {
            FieldError::required(&type_path, detail)
        } else {
            FieldError::invalid(&type_path, value_type, detail)
        });
    } else if value_type.is_empty() && !flag(schema, "x-kubernetes-int-or-string") && !preserves {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, detail));
    }
    let has_additional = schema
        .get("additionalProperties")
        .is_some_and(|it| !it.is_null());
    if embedded && has_additional {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(
            &path.child("additionalProperties"),
            detail,
        ));
    }
    if level == Level::Root && !value_type.is_empty() && value_type != "object" {
        errors.push(FieldError::invalid(
            &type_path,
            value_type,
            "must be object at the root",
        ));
    }
    let has_properties = object(schema, "properties").is_some_and(|it| !it.is_empty());
    if embedded && !preserves && !has_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

/// Schemas may restrict the type and the name of a resource, and nothing else of its metadata.
fn meta_fields(schema: &Keywords, level: Level, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let Some(properties) = object(schema, "properties") else {
        return;
    };
    let must_be = |name: &str, wanted: &str, errors: &mut Vec<FieldError>| {
        let Some(property) = properties.get(name).and_then(Value::as_object) else {
            return;
        };
        let found = text(property, "type");
        if is_resource && found != wanted {
            let place = path.child("properties").key(name).child("type");
            errors.push(FieldError::invalid(
                &place,
                found,
                format!("must be {wanted}"),
            ));
        }
    };
    must_be("kind", "string", errors);
    must_be("apiVersion", "string", errors);
    must_be("metadata", "object", errors);
    let metadata = properties.get("metadata").and_then(Value::as_object);
    if let (Some(metadata), Level::Root) = (metadata, level)
        && !restricts_names_alone(metadata)
    {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(
            &path.child("properties").key("metadata"),
            detail,
        ));
    }
}

fn restricts_names_alone(metadata: &Keywords) -> bool {
    metadata
        .iter()
        .all(|(keyword, value)| match keyword.as_str() {
            "type" | "default" => true,
            "properties" => value.as_object().is_some_and(|properties| {
                properties
                    .keys()
                    .all(|name| name == "name" || name == "generateName")
            }),
            _ => is_zero(value),
        })
}

/// Keywords with the zero value of their type are as good as absent.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        // Numbers are pointers, of which zero is a value.
        Value::Number(_) => false,
    }
}

fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn extensions(schema: &Keywords, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), true, detail));
        }
    }
}

/// Combinators and patterns; the two forms in which int-or-string is spelled out are passed over.
fn value_validation(
    schema: &Keywords,
    (skip_any_of, skip_all_of): (bool, bool),
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (index, branch) in branches(schema, "anyOf") {
            nested(branch, false, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, branch) in branches(schema, "allOf") {
        let skip = skip_all_of && index == 0;
        nested(branch, skip, &path.child("allOf").index(index), errors);
    }
    for (index, branch) in branches(schema, "oneOf") {
        nested(branch, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(not) = object(schema, "not") {
        nested(not, false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(error) = Pattern::new(pattern).check()
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// A branch of a combinator: it restricts values, and says nothing about what they are.
fn nested(schema: &Keywords, skip_any_of: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
    const FORBIDDEN: [(&str, &str); 12] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
    ];
    value_validation(schema, (skip_any_of, false), path, errors);
    if let Some(items) = object(schema, "items") {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in children(schema, "properties") {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    for (keyword, detail) in FORBIDDEN {
        let is_set = match (keyword, schema.get(keyword)) {
            // Anything but nothing is a value of these.
            ("additionalProperties" | "default", Some(value)) => {
                !value.is_null() && *value != Value::Bool(false)
            }
            (_, Some(value)) => !is_zero(value),
            (_, None) => false,
        };
        if is_set {
            errors.push(FieldError::forbidden(&path.child(keyword), detail));
        }
    }
    if schema
        .get("x-kubernetes-validations")
        .is_some_and(|rules| !is_zero(rules))
    {
        let place = path.child("x-kubernetes-validations");
        errors.push(FieldError::forbidden(
            &place,
            "must be empty to be structural",
        ));
    }
    if object(schema, "properties").is_some_and(|it| it.contains_key("metadata")) {
        let place = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(
            &place,
            "must not be specified in a nested context",
        ));
    }
}

/// Whatever a combinator restricts must be declared outside of it.
fn completeness(
    restricting: &Keywords,
    declaring: Option<&Keywords>,
    (declared_path, path): (&FieldPath, &FieldPath),
    errors: &mut Vec<FieldError>,
) {
    let mut branch = |branch: &Keywords, path: &FieldPath| {
        nested_completeness(branch, declaring, (declared_path, path), errors);
    };
    if let Some(not) = object(restricting, "not") {
        branch(not, &path.child("not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in branches(restricting, name) {
            branch(inner, &path.child(name).index(index));
        }
    }
}

fn nested_completeness(
    restricting: &Keywords,
    declaring: Option<&Keywords>,
    (declared_path, path): (&FieldPath, &FieldPath),
    errors: &mut Vec<FieldError>,
) {
    let Some(declaring) = declaring else {
        let detail = format!("because it is defined in {path}");
        errors.push(FieldError::required(declared_path, detail));
        return;
    };
    completeness(restricting, Some(declaring), (declared_path, path), errors);
    if let Some(items) = object(restricting, "items") {
        let places = (&declared_path.child("items"), &path.child("items"));
        nested_completeness(items, object(declaring, "items"), places, errors);
    }
    for (name, property) in children(restricting, "properties") {
        let declared = object(declaring, "properties").and_then(|it| it.get(name)?.as_object());
        let declared_path = declared_path.child("properties").key(name);
        let path = path.child("properties").key(name);
        nested_completeness(property, declared, (&declared_path, &path), errors);
    }
}
