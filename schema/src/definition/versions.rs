//! The versions of a kind: their names, columns, subresources and selectable fields. Schemas are judged in
//! [`super::keywords`].

use std::collections::HashSet;

use api::crd::{DefinitionSpec, DefinitionVersion, PrinterColumn, ScaleSubresource};
use api::{FieldError, FieldPath, go_format};
use serde_json::Value;

use super::{keywords, label};
use crate::structural::{Schema, ValueType};
use crate::validate::{Brackets, resolve_field_path};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// How many fields a version may be selected by. Source: `MaxSelectableFields`.
const SELECTABLE_FIELDS_MAX: usize = 8;
/// Source: `validateDeprecationWarning`.
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

pub(super) fn validate(spec: &DefinitionSpec, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, version) in spec.versions.iter().enumerate() {
        let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        if schema.is_none() {
            let place = path.index(index).child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(&place, ""));
        }
    }
    for (index, version) in spec.versions.iter().enumerate() {
        errors.extend(label(&version.name, &path.index(index).child("name"), ""));
        errors.extend(validate_version(version, &path.index(index)));
    }
    let shown = || serde_json::to_value(&spec.versions).unwrap_or_default();
    let mut names = HashSet::new();
    if !spec.versions.iter().all(|version| names.insert(version.name.as_str())) {
        errors.push(FieldError::invalid(path, shown(), "must contain unique version names"));
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(path, shown(), detail));
    }
    errors
}

fn validate_version(version: &DefinitionVersion, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = deprecation(version, &path.child("deprecationWarning"));
    let subresources = version.subresources.as_ref();
    let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
    let schema_path = path.child("schema").child("openAPIV3Schema");
    if let Some(schema) = schema {
        let has_status = subresources.is_some_and(|it| it.status.is_some());
        errors.extend(keywords::validate(schema, has_status, &schema_path));
    }
    if let Some(scale) = subresources.and_then(|it| it.scale.as_ref()) {
        errors.extend(validate_scale(scale, &path.child("subresources")));
    }
    for (index, column) in version.additional_printer_columns.iter().enumerate() {
        let column_path = path.child("additionalPrinterColumns").index(index);
        errors.extend(validate_column(column, &column_path));
    }
    let parsed = schema.and_then(|schema| Schema::from_openapi(schema).ok());
    if let (Some(schema), false) = (parsed, version.selectable_fields.is_empty()) {
        errors.extend(selectable_fields(version, &schema, &path.child("selectableFields")));
    }
    errors
}

fn deprecation(version: &DefinitionVersion, path: &FieldPath) -> Vec<FieldError> {
    let Some(warning) = version.deprecation_warning.as_deref() else { return Vec::new() };
    let mut details = Vec::new();
    if !version.deprecated {
        details.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
            details.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            details.push("must not be an empty string".to_owned());
        }
        let unprintable = warning.char_indices().find(|(_, it)| !go_format::is_print(*it));
        if let Some((index, _)) = unprintable {
            details.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    details.into_iter().map(|detail| FieldError::invalid(path, warning, detail)).collect()
}

fn validate_column(column: &PrinterColumn, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if column.name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.type_.is_empty() {
        errors.push(FieldError::required(&path.child("type"), types));
    } else if !COLUMN_TYPES.contains(&column.type_.as_str()) {
        errors.push(FieldError::invalid(&path.child("type"), column.type_.as_str(), types));
    }
    if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(&path.child("format"), column.format.as_str(), detail));
    }
    let json_path = path.child("JSONPath");
    if column.json_path.is_empty() {
        errors.push(FieldError::required(&json_path, ""));
    } else {
        errors.extend(simple_path(&column.json_path, &json_path));
    }
    errors
}

/// A path begins with a dot; whether it parses shows when the kind is served.
fn simple_path(text: &str, path: &FieldPath) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!text.starts_with('.')).then(|| FieldError::invalid(path, text, detail))
}

fn validate_scale(scale: &ScaleSubresource, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let required = [
        ("scale.specReplicasPath", &scale.spec_replicas_path, ".spec."),
        ("scale.statusReplicasPath", &scale.status_replicas_path, ".status."),
    ];
    for (field, text, prefix) in required {
        let place = path.child(field);
        if text.is_empty() {
            errors.push(FieldError::required(&place, ""));
        } else if let Some(error) = simple_path(text, &place) {
            errors.push(error);
        } else if !text.starts_with(prefix) {
            let below = prefix.trim_end_matches('.');
            let detail = format!("should be a json path under {below}");
            errors.push(FieldError::invalid(&place, text.as_str(), detail));
        }
    }
    if let Some(text) = scale.label_selector_path.as_deref().filter(|text| !text.is_empty()) {
        let place = path.child("scale.labelSelectorPath");
        if let Some(error) = simple_path(text, &place) {
            errors.push(error);
        } else if !text.starts_with(".spec.") && !text.starts_with(".status.") {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(&place, text, detail));
        }
    }
    errors
}

fn selectable_fields(
    version: &DefinitionVersion,
    schema: &Schema,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut unique = HashSet::new();
    for (index, field) in version.selectable_fields.iter().enumerate() {
        let place = path.index(index).child("jsonPath");
        let text = field.json_path.as_str();
        if text.is_empty() {
            errors.push(FieldError::required(&place, ""));
            continue;
        }
        let (found, node) = match resolve_field_path(text, schema, Brackets::Refused) {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                errors.push(FieldError::invalid(&place, text, detail));
                continue;
            }
        };
        if found.as_str() == "metadata" || found.as_str().starts_with("metadata.") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(&place, text, detail));
        }
        let is_scalar = matches!(
            node.value_type,
            Some(ValueType::String | ValueType::Boolean | ValueType::Integer)
        );
        if !is_scalar {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(&place, text, detail));
        }
        if !unique.insert(found) {
            errors.push(FieldError::duplicate(&place, Value::from(text)));
        }
    }
    if unique.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(path, unique.len(), SELECTABLE_FIELDS_MAX));
    }
    errors
}
