//! Resources that are embedded in an object: their type and metadata.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/objectmeta/validation.go`.

use api::crd::Scope;
use api::validation::{self, NameRule};
use api::{FINDINGS_MAX, FieldError, FieldPath, GroupVersion, meta};
use serde_json::{Map, Value, json};

use crate::structural::Schema;

/// Judges the resources below the root of `object`.
pub(super) fn validate(object: &Value, schema: &Schema) -> Vec<FieldError> {
    validate_at(object, schema, &FieldPath::root())
}

/// Judges the resources in `value`, which is at `path`.
pub(super) fn validate_at(value: &Value, schema: &Schema, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, schema, path, &mut errors);
    errors
}

fn walk(value: &Value, schema: &Schema, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if !schema.below.embedded_resources || errors.len() >= FINDINGS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                resource(fields, path, errors);
            }
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    walk(field, property, &path.child(name), errors);
                } else if let Some(element) = schema.additional.schema() {
                    walk(field, element, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                walk(item, item_schema, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn resource(fields: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let place = path.child(name);
        match fields.get(name) {
            None => errors.push(FieldError::required(&place, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&place, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if let Err(error) = text.parse::<GroupVersion>() {
                    errors.push(FieldError::invalid(
                        &place,
                        text.as_str(),
                        error.to_string(),
                    ));
                }
            }
            Some(Value::String(text)) => {
                let wrong = validation::is_dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let detail = format!(
                        "may have mixed case, but should otherwise match: {}",
                        wrong.join(",")
                    );
                    errors.push(FieldError::invalid(&place, text.as_str(), detail));
                }
            }
            Some(other) => {
                errors.push(FieldError::invalid(
                    &place,
                    other.clone(),
                    "must be a string",
                ));
            }
        }
    }
    if let Some(metadata) = fields.get("metadata") {
        object_meta(metadata, &path.child("metadata"), errors);
    }
}

fn object_meta(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut metadata = metadata.clone();
    if let Some(fields) = metadata.as_object_mut() {
        // A name is not required of an embedded resource.
        if fields.get("name").is_none_or(|name| name == "") {
            fields.insert("name".to_owned(), Value::from("fakename"));
        }
    }
    let resource = json!({ "metadata": metadata });
    let scope = if meta::namespace(&resource).is_empty() {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    errors.extend(validation::validate_object_meta(
        &resource,
        scope,
        NameRule::PathSegment,
        path,
    ));
}
