//! Object metadata, at the root and in embedded resources: what it may hold, and in which form it is kept.
//!
//! Kubernetes decodes metadata into a Go struct and encodes it again, whatever the schema says. So unknown fields and
//! empty ones go, times become seconds in UTC, and a field of a wrong type is an error on writes and is dropped on
//! reads from storage.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`, `apimachinery/pkg/apis/meta/v1/types.go`.

use api::{FieldError, FieldPath};
use serde_json::{Map, Value};

use super::Schema;
use crate::path::Path;

/// The fields of a resource that its schema does not restrict.
pub(crate) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What becomes of metadata fields of a wrong type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MalformedFields {
    /// They are an error: in requests.
    Refused,
    /// They are dropped: in what was stored.
    Dropped,
}

/// A field of a wrong type, in the words of the decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MetadataError(String);

/// A Go type in metadata.
#[derive(Debug, Clone, Copy)]
enum GoType {
    Text,
    Integer,
    Flag,
    Time,
    /// `map[string]string`.
    Texts,
    TextList,
    /// A list of structs.
    Structs(&'static [GoField]),
    /// Any JSON.
    Raw,
}

/// A field of a Go struct.
#[derive(Debug, Clone, Copy)]
struct GoField {
    name: &'static str,
    go_type: GoType,
    /// `omitempty`.
    omit_empty: bool,
}

const fn field(name: &'static str, go_type: GoType) -> GoField {
    GoField {
        name,
        go_type,
        omit_empty: true,
    }
}

const fn kept(name: &'static str, go_type: GoType) -> GoField {
    GoField {
        name,
        go_type,
        omit_empty: false,
    }
}

/// `metav1.ObjectMeta`.
const OBJECT_META: &[GoField] = &[
    field("annotations", GoType::Texts),
    field("creationTimestamp", GoType::Time),
    field("deletionGracePeriodSeconds", GoType::Integer),
    field("deletionTimestamp", GoType::Time),
    field("finalizers", GoType::TextList),
    field("generateName", GoType::Text),
    field("generation", GoType::Integer),
    field("labels", GoType::Texts),
    field("managedFields", GoType::Structs(MANAGED_FIELDS_ENTRY)),
    field("name", GoType::Text),
    field("namespace", GoType::Text),
    field("ownerReferences", GoType::Structs(OWNER_REFERENCE)),
    field("resourceVersion", GoType::Text),
    field("selfLink", GoType::Text),
    field("uid", GoType::Text),
];

/// `metav1.OwnerReference`.
const OWNER_REFERENCE: &[GoField] = &[
    kept("apiVersion", GoType::Text),
    field("blockOwnerDeletion", GoType::Flag),
    field("controller", GoType::Flag),
    kept("kind", GoType::Text),
    kept("name", GoType::Text),
    kept("uid", GoType::Text),
];

/// `metav1.ManagedFieldsEntry`.
const MANAGED_FIELDS_ENTRY: &[GoField] = &[
    field("apiVersion", GoType::Text),
    field("fieldsType", GoType::Text),
    field("fieldsV1", GoType::Raw),
    field("manager", GoType::Text),
    field("operation", GoType::Text),
    field("subresource", GoType::Text),
    field("time", GoType::Time),
];

/// Brings the metadata of `object` and of the resources embedded in it into the form in which it is kept.
///
/// Unknown fields are removed without a word: see [`unknown_metadata_fields`].
///
/// # Errors
/// A field has a wrong type, unless those are dropped.
pub fn coerce_metadata(
    object: &mut Value,
    schema: &Schema,
    malformed: MalformedFields,
) -> Result<(), MetadataError> {
    coerce_resource(object, malformed).map_err(|(name, detail)| match name {
        "metadata" => MetadataError(detail),
        name => MetadataError(format!("{name}: {detail}")),
    })?;
    if schema.below.embedded_resources {
        coerce_part(object, schema, malformed, &FieldPath::root())
            .map_err(|error| MetadataError(error.to_string()))?;
    }
    Ok(())
}

/// The paths of unknown fields in the `metadata` of a resource, sorted.
pub fn unknown_metadata_fields(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    report_unknown(metadata, &Path::Field(&Path::Root, "metadata"), &mut found);
    found.sort();
    found
}

/// Reports unknown fields of metadata that is at `path`.
pub(super) fn report_unknown(metadata: &Value, path: &Path<'_>, found: &mut Vec<String>) {
    report_struct(metadata, OBJECT_META, path, found);
}

fn report_struct(value: &Value, fields: &[GoField], path: &Path<'_>, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        return;
    };
    for (name, inner) in object {
        let inner_path = Path::Field(path, name);
        match fields.iter().find(|field| field.name == name) {
            None => found.push(inner_path.to_string()),
            Some(GoField {
                go_type: GoType::Structs(fields),
                ..
            }) => {
                for (index, item) in inner.as_array().into_iter().flatten().enumerate() {
                    report_struct(item, fields, &Path::Index(&inner_path, index), found);
                }
            }
            Some(_) => {}
        }
    }
}

/// Like [`coerce_metadata`] for a value that is a resource only if its schema says so.
pub(crate) fn coerce_part(
    value: &mut Value,
    schema: &Schema,
    malformed: MalformedFields,
    path: &FieldPath,
) -> Result<(), FieldError> {
    if !schema.below.embedded_resources {
        return Ok(());
    }
    if schema.embedded_resource {
        // Errors show what was sent.
        let sent = (malformed == MalformedFields::Refused).then(|| value.clone());
        if let Err((name, detail)) = coerce_resource(value, malformed) {
            let shown = sent.and_then(|mut it| it.get_mut(name).map(Value::take));
            return Err(FieldError::invalid(
                &path.child(name),
                shown.unwrap_or_default(),
                detail,
            ));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if let Some(property) = schema.properties.get(name) {
                    coerce_part(field, property, malformed, &path.child(name))?;
                } else if let Some(element) = schema.additional.schema() {
                    coerce_part(field, element, malformed, &path.key(name))?;
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = &schema.items else {
                return Ok(());
            };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_part(item, item_schema, malformed, &path.index(index))?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// The field that is wrong, and why.
fn coerce_resource(
    resource: &mut Value,
    malformed: MalformedFields,
) -> Result<(), (&'static str, String)> {
    let Some(fields) = resource.as_object_mut() else {
        return Ok(());
    };
    for name in META_FIELDS {
        let Some(value) = fields.get_mut(name) else {
            continue;
        };
        let result = match name {
            "metadata" => coerce_object_meta(value, malformed),
            _ if value.is_string() => Ok(()),
            _ => Err("must be a string".to_owned()),
        };
        match (result, malformed) {
            (Ok(()), _) => {}
            (Err(_), MalformedFields::Dropped) => drop(fields.remove(name)),
            (Err(detail), MalformedFields::Refused) => return Err((name, detail)),
        }
    }
    Ok(())
}

fn coerce_object_meta(value: &mut Value, malformed: MalformedFields) -> Result<(), String> {
    match value {
        Value::Null => {
            *value = Value::Object(Map::new());
            Ok(())
        }
        Value::Object(metadata) => {
            coerce_struct(metadata, OBJECT_META, "ObjectMeta", "", malformed)
        }
        other => Err(mismatch(other, "", "v1.ObjectMeta")),
    }
}

/// Keeps the known fields in their canonical form.
fn coerce_struct(
    object: &mut Map<String, Value>,
    fields: &[GoField],
    struct_name: &str,
    path: &str,
    malformed: MalformedFields,
) -> Result<(), String> {
    let mut failure = None;
    object.retain(|name, value| {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            return false;
        };
        let field_path = || {
            if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            }
        };
        match coerce_value(value, field.go_type, struct_name, &field_path) {
            Ok(()) => !(field.omit_empty && is_empty(value, field.go_type)),
            Err(message) => {
                failure.get_or_insert(message);
                false
            }
        }
    });
    match failure {
        Some(message) if malformed == MalformedFields::Refused => return Err(message),
        _ => {}
    }
    for field in fields.iter().filter(|field| !field.omit_empty) {
        object
            .entry(field.name)
            .or_insert_with(|| Value::String(String::new()));
    }
    Ok(())
}

/// Whether `omitempty` leaves the value out. Pointers (flags, the grace period, the deletion time) stay.
fn is_empty(value: &Value, go_type: GoType) -> bool {
    match (value, go_type) {
        (Value::Null, _) => true,
        (Value::String(text), GoType::Text) => text.is_empty(),
        (Value::Object(map), GoType::Texts) => map.is_empty(),
        (Value::Array(items), _) => items.is_empty(),
        _ => false,
    }
}

fn coerce_value(
    value: &mut Value,
    go_type: GoType,
    struct_name: &str,
    path: &impl Fn() -> String,
) -> Result<(), String> {
    let target = || format!("Go struct field {struct_name}.{}", path());
    match (go_type, &mut *value) {
        (GoType::Raw, _)
        | (_, Value::Null)
        | (GoType::Text, Value::String(_))
        | (GoType::Flag, Value::Bool(_)) => Ok(()),
        (GoType::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
        (GoType::Time, Value::String(text)) => coerce_time(text),
        (GoType::Texts, Value::Object(map)) => {
            for text in map.values_mut() {
                // A null decodes into the empty string.
                if text.is_null() {
                    *text = Value::String(String::new());
                }
                if !text.is_string() {
                    return Err(mismatch(text, &target(), "string"));
                }
            }
            Ok(())
        }
        (GoType::TextList, Value::Array(items)) => {
            for item in items.iter_mut() {
                if item.is_null() {
                    *item = Value::String(String::new());
                }
                if !item.is_string() {
                    return Err(mismatch(item, &target(), "string"));
                }
            }
            Ok(())
        }
        (GoType::Structs(fields), Value::Array(items)) => {
            coerce_structs(items, fields, struct_name, &path())
        }
        (_, other) => Err(mismatch(other, &target(), go_type.name(&path()))),
    }
}

fn coerce_structs(
    items: &mut [Value],
    fields: &[GoField],
    struct_name: &str,
    path: &str,
) -> Result<(), String> {
    for item in items {
        if item.is_null() {
            *item = Value::Object(Map::new());
        }
        match item {
            Value::Object(object) => {
                let name = if path == "ownerReferences" {
                    "OwnerReference"
                } else {
                    "ManagedFieldsEntry"
                };
                coerce_struct(object, fields, name, path, MalformedFields::Refused)?;
            }
            other => {
                let target = format!("Go struct field {struct_name}.{path}");
                return Err(mismatch(other, &target, "v1.OwnerReference"));
            }
        }
    }
    Ok(())
}

/// Seconds in UTC, as `metav1.Time` is written.
fn coerce_time(text: &mut String) -> Result<(), String> {
    dialect::check_time(dialect::RFC3339, text).map_err(|error| error.to_string())?;
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|error| format!("parsing time {}: {error}", dialect::quote(text)))?;
    *text = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(())
}

/// The decoder's words for a value of a wrong type.
fn mismatch(value: &Value, target: &str, go_type: &str) -> String {
    let found = dialect::json::type_word(value);
    let into = if target.is_empty() {
        String::from("Go value")
    } else {
        target.to_owned()
    };
    format!("json: cannot unmarshal {found} into {into} of type {go_type}")
}

// === impl GoType ===

impl GoType {
    fn name(self, path: &str) -> &'static str {
        match self {
            Self::Text if path.rsplit('.').next() == Some("uid") => "types.UID",
            Self::Text | Self::Time => "string",
            Self::Integer => "int64",
            Self::Flag => "bool",
            Self::Texts => "map[string]string",
            Self::TextList => "[]string",
            Self::Structs(_) if path == "ownerReferences" => "[]v1.OwnerReference",
            Self::Structs(_) => "[]v1.ManagedFieldsEntry",
            Self::Raw => "v1.FieldsV1",
        }
    }
}
