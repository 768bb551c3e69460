//! The versions of a kind: their names, columns, subresources and selectable fields. Schemas are judged in
//! [`super::keywords`].

use std::collections::HashSet;

use api::crd::{DefinitionSpec, DefinitionVersion, PrinterColumn, ScaleSubresource};
use api::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::keywords::{self, EachExpression};
use super::label;
use super::nodes::each_node;
use crate::structural::{Schema, ValueType};
use crate::validate::{Brackets, resolve_field_path};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// How many fields a version may be selected by. Source: `MaxSelectableFields`.
const SELECTABLE_FIELDS_MAX: usize = 8;
/// Source: `validateDeprecationWarning`.
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

/// What all versions have in common is judged once, and shown at the spec: so does Kubernetes, of which the older API
/// had it there.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts, each named at its use"
)]
struct Common {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable_fields: bool,
}

/// `path` is that of the spec. An update replaces `old`.
pub(super) fn validate(
    (spec, old): (&DefinitionSpec, Option<&DefinitionSpec>),
    path: &FieldPath,
) -> Vec<FieldError> {
    let versions_path = path.child("versions");
    let mut errors = Vec::new();
    for (index, version) in spec.versions.iter().enumerate() {
        if schema_of(version).is_none() {
            let place = versions_path
                .index(index)
                .child("schema")
                .child("openAPIV3Schema");
            errors.push(FieldError::required(&place, ""));
        }
    }
    let common = Common::of(&spec.versions);
    for (index, version) in spec.versions.iter().enumerate() {
        let place = versions_path.index(index);
        errors.extend(label(&version.name, &place.child("name"), ""));
        errors.extend(deprecation(version, &place.child("deprecationWarning")));
        errors.extend(validate_parts(
            (version, each_expression(version, old)),
            &common,
            has_status(version),
            Place::Version(&place),
        ));
    }
    if let Some(first) = spec.versions.first() {
        if !first.name.is_empty() {
            errors.extend(label(&first.name, &path.child("version"), ""));
        }
        let has_status = spec.versions.iter().any(has_status);
        errors.extend(validate_parts(
            (first, each_expression(first, old)),
            &common,
            has_status,
            Place::Spec(path),
        ));
    }
    // Without the schemas, which would drown the message.
    let shown = || {
        let versions = spec.versions.iter();
        let brief =
            versions.map(|it| json!({"name": it.name, "served": it.served, "storage": it.storage}));
        Value::Array(brief.collect())
    };
    let mut names = HashSet::new();
    if !spec
        .versions
        .iter()
        .all(|version| names.insert(version.name.as_str()))
    {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid(&versions_path, shown(), detail));
    }
    if spec
        .versions
        .iter()
        .filter(|version| version.storage)
        .count()
        != 1
    {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&versions_path, shown(), detail));
    }
    errors
}

/// Returns whether there is a default anywhere in the schemas of these versions.
pub(super) fn have_defaults(versions: &[DefinitionVersion]) -> bool {
    let mut found = false;
    for schema in versions.iter().filter_map(schema_of) {
        each_node(schema, &mut |keywords| {
            found |= keywords.get("default").is_some_and(|it| !it.is_null());
        });
    }
    found
}

/// Where a part of a version is shown.
#[derive(Clone, Copy)]
enum Place<'a> {
    Spec(&'a FieldPath),
    Version(&'a FieldPath),
}

fn schema_of(version: &DefinitionVersion) -> Option<&Value> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

/// What is stored already may stay, whatever its rules cost.
fn each_expression(version: &DefinitionVersion, old: Option<&DefinitionSpec>) -> EachExpression {
    let stored = old.map(|old| old.versions.as_slice()).unwrap_or_default();
    let stored = stored.iter().find(|it| it.name == version.name);
    if stored.is_some_and(|it| schema_of(it) == schema_of(version)) {
        return EachExpression::Accepted;
    }
    EachExpression::Judged
}

fn has_status(version: &DefinitionVersion) -> bool {
    version
        .subresources
        .as_ref()
        .is_some_and(|it| it.status.is_some())
}

/// The parts of a version that are shown at this place.
fn validate_parts(
    (version, each_expression): (&DefinitionVersion, EachExpression),
    common: &Common,
    has_status: bool,
    place: Place<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let belongs = |is_common: bool| matches!(place, Place::Spec(_)) == is_common;
    let (path, schema_name) = match place {
        Place::Spec(path) => (path, "validation"),
        Place::Version(path) => (path, "schema"),
    };
    if let (Some(schema), true) = (schema_of(version), belongs(common.schema)) {
        let schema_path = path.child(schema_name).child("openAPIV3Schema");
        errors.extend(keywords::validate(
            schema,
            has_status,
            each_expression,
            &schema_path,
        ));
    }
    let scale = version
        .subresources
        .as_ref()
        .and_then(|it| it.scale.as_ref());
    if let (Some(scale), true) = (scale, belongs(common.subresources)) {
        errors.extend(validate_scale(scale, &path.child("subresources")));
    }
    if belongs(common.columns) {
        for (index, column) in version.additional_printer_columns.iter().enumerate() {
            let column_path = path.child("additionalPrinterColumns").index(index);
            errors.extend(validate_column(column, &column_path));
        }
    }
    if belongs(common.selectable_fields) && !version.selectable_fields.is_empty() {
        let fields_path = path.child("selectableFields");
        match schema_of(version).filter(|_| belongs(common.schema)) {
            Some(schema) => {
                let parsed = Schema::from_openapi(schema).ok();
                let found = parsed.map(|schema| selectable_fields(version, &schema, &fields_path));
                errors.extend(found.into_iter().flatten());
            }
            None => errors.push(FieldError::invalid(
                &fields_path,
                "",
                place.asks_for_schema(),
            )),
        }
    }
    errors
}

// === impl Place ===

impl Place<'_> {
    /// What a kube-apiserver says of selectable fields where there is no schema: also where all versions have the same schema and not the
    /// same fields, or the other way round.
    const fn asks_for_schema(self) -> &'static str {
        match self {
            Self::Spec(_) => "may only be set when validations.schema is included",
            Self::Version(_) => {
                "may only be set when `version.schema.openAPIV3Schema` is not included"
            }
        }
    }
}

// === impl Common ===

impl Common {
    fn of(versions: &[DefinitionVersion]) -> Self {
        let same = |differs: fn(&DefinitionVersion, &DefinitionVersion) -> bool| {
            versions
                .windows(2)
                .all(|pair| matches!(pair, [left, right] if !differs(left, right)))
        };
        Self {
            schema: same(|left, right| left.schema != right.schema),
            subresources: same(|left, right| left.subresources != right.subresources),
            columns: same(|left, right| {
                left.additional_printer_columns != right.additional_printer_columns
            }),
            selectable_fields: same(|left, right| {
                left.selectable_fields != right.selectable_fields
            }),
        }
    }
}

fn deprecation(version: &DefinitionVersion, path: &FieldPath) -> Vec<FieldError> {
    let Some(warning) = version.deprecation_warning.as_deref() else {
        return Vec::new();
    };
    let mut details = Vec::new();
    if version.deprecated {
        if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
            details.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            details.push("must not be an empty string".to_owned());
        }
        let unprintable = warning
            .char_indices()
            .find(|(_, it)| !dialect::is_print(*it));
        if let Some((index, _)) = unprintable {
            details.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    } else {
        details.push("can only be set for deprecated versions".to_owned());
    }
    details
        .into_iter()
        .map(|detail| FieldError::invalid(path, warning, detail))
        .collect()
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
        errors.push(FieldError::invalid(
            &path.child("type"),
            column.type_.as_str(),
            types,
        ));
    }
    if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(
            &path.child("format"),
            column.format.as_str(),
            detail,
        ));
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
        (
            "scale.specReplicasPath",
            &scale.spec_replicas_path,
            ".spec.",
        ),
        (
            "scale.statusReplicasPath",
            &scale.status_replicas_path,
            ".status.",
        ),
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
    if let Some(text) = scale
        .label_selector_path
        .as_deref()
        .filter(|text| !text.is_empty())
    {
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
        errors.push(FieldError::too_many(
            path,
            unique.len(),
            SELECTABLE_FIELDS_MAX,
        ));
    }
    errors
}
