//! Object metadata, typed and in place.
//!
//! Most code holds an object as a [`Value`] and reads its metadata by the accessors here: what is absent or of the
//! wrong type reads as empty, as in Kubernetes' unstructured objects. [`ObjectMeta`] is for code that builds objects.
//!
//! Source: `apimachinery/pkg/apis/meta/v1/{types,unstructured}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::{is_default, or_default};

mod condition;

pub use condition::{Condition, STATUS_FALSE, STATUS_TRUE, STATUS_UNKNOWN};
pub use condition::{
    bounded_message, find_condition, remove_condition, set_condition, set_conditions,
};

/// The finalizer that makes dependents go first.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that makes dependents stay.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The annotation of the bookmark that ends the initial events of a streaming list.
pub const ANNOTATION_INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What every object has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The name, unique within kind and namespace.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub name: String,
    /// The stem from which the server made the name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub generate_name: String,
    /// The namespace; empty for objects that have none.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub namespace: String,
    /// The identity over time and space.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub uid: String,
    /// The opaque version.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resource_version: String,
    /// Counts the changes of the desired state; 0 when unset.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub generation: i64,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When its deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// How long it may take to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// For selection.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// For everything else.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Whose dependent it is.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Who must agree before it goes.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    /// Who set which field.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub managed_fields: Vec<ManagedFieldsEntry>,
}

/// A reference from a dependent to its owner, in the same namespace or cluster-wide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// The API version of the owner.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// The kind of the owner.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The name of the owner.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The uid of the owner.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Whether the owner manages the dependent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner waits for the dependent in foreground deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The fields that one manager set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedFieldsEntry {
    /// The manager's name.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub manager: String,
    /// `Apply` or `Update`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub operation: String,
    /// The version in which the fields are named.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub api_version: String,
    /// When the entry last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `FieldsV1`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub fields_type: String,
    /// The set of fields.
    #[serde(rename = "fieldsV1", skip_serializing_if = "Option::is_none")]
    pub fields_v1: Option<Value>,
    /// The subresource by which it was written; empty for the object itself.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub subresource: String,
}

/// What every list has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version of the whole list.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub resource_version: String,
    /// Where the next page begins; empty on the last one.
    #[serde(
        rename = "continue",
        skip_serializing_if = "is_default",
        deserialize_with = "or_default"
    )]
    pub continue_token: String,
    /// How many objects come after this page, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// The type of an object, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeMeta {
    /// Group and version.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub api_version: String,
    /// The kind.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "or_default")]
    pub kind: String,
}

// === impl TypeMeta ===

impl TypeMeta {
    /// Names a type.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }
}

// === reading ===

/// Borrows the metadata, if it is an object.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// Reads the type that the object says it has; empty where absent.
pub fn api_version(object: &Value) -> &str {
    object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Reads the kind that the object says it has; empty where absent.
pub fn kind(object: &Value) -> &str {
    object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Reads the name; empty where absent.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Reads the stem for a generated name; empty where absent.
pub fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// Reads the namespace; empty where absent.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Reads the uid; empty where absent.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Reads the resource version; empty where absent.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Compares two resource versions of one source, as integers of any length. Returns whether the first is newer.
///
/// Source: apimachinery 1.35 `resourceversion.CompareResourceVersion`.
pub fn is_newer(version: &str, than: &str) -> bool {
    (version.len(), version) > (than.len(), than)
}

/// Reads the generation; 0 where absent.
pub fn generation(object: &Value) -> i64 {
    field(object, "generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Reads when the object was made; empty where absent.
pub fn creation_timestamp(object: &Value) -> &str {
    text(object, "creationTimestamp")
}

/// Reads when the deletion was asked for.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    field(object, "deletionTimestamp")?.as_str()
}

/// Returns whether the deletion was asked for.
pub fn is_terminating(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// Borrows the labels, if there are any.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    field(object, "labels")?.as_object()
}

/// Borrows the annotations, if there are any.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    field(object, "annotations")?.as_object()
}

/// Reads one label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key)?.as_str()
}

/// Reads one annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// Reads the finalizers.
pub fn finalizers(object: &Value) -> Vec<&str> {
    field(object, "finalizers")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Returns whether a finalizer is there.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).contains(&finalizer)
}

/// Reads the owner references; malformed ones are left out.
pub fn owner_references(object: &Value) -> Vec<OwnerReference> {
    field(object, "ownerReferences")
        .and_then(Value::as_array)
        .map(|references| {
            references
                .iter()
                .filter_map(|it| OwnerReference::deserialize(it).ok())
                .collect()
        })
        .unwrap_or_default()
}

/// Reads the owner reference that manages the object.
pub fn controller_of(object: &Value) -> Option<OwnerReference> {
    owner_references(object)
        .into_iter()
        .find(|reference| reference.controller == Some(true))
}

fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    metadata(object)?.get(name)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

// === writing ===

/// Borrows the metadata for changes; what is no object becomes an empty one.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    entry_mut(map_mut(object), "metadata")
}

/// Sets the type.
pub fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    let fields = map_mut(object);
    fields.insert("apiVersion".to_owned(), Value::from(api_version));
    fields.insert("kind".to_owned(), Value::from(kind));
}

/// Sets the name, or removes it where empty.
pub fn set_name(object: &mut Value, name: &str) {
    set_text(object, "name", name);
}

/// Sets the namespace, or removes it where empty.
pub fn set_namespace(object: &mut Value, namespace: &str) {
    set_text(object, "namespace", namespace);
}

/// Sets the uid, or removes it where empty.
pub fn set_uid(object: &mut Value, uid: &str) {
    set_text(object, "uid", uid);
}

/// Sets the resource version, or removes it where empty.
pub fn set_resource_version(object: &mut Value, resource_version: &str) {
    set_text(object, "resourceVersion", resource_version);
}

/// Sets when the object was made, or removes it where empty.
pub fn set_creation_timestamp(object: &mut Value, time: &str) {
    set_text(object, "creationTimestamp", time);
}

/// Sets when the deletion was asked for, or removes it where empty.
pub fn set_deletion_timestamp(object: &mut Value, time: &str) {
    set_text(object, "deletionTimestamp", time);
}

/// Sets the generation.
pub fn set_generation(object: &mut Value, generation: i64) {
    metadata_mut(object).insert("generation".to_owned(), Value::from(generation));
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    entry_mut(metadata_mut(object), "labels").insert(key.to_owned(), Value::from(value));
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    entry_mut(metadata_mut(object), "annotations").insert(key.to_owned(), Value::from(value));
}

/// Removes one annotation; an empty map goes with it.
pub fn remove_annotation(object: &mut Value, key: &str) {
    remove_member(object, "annotations", key);
}

/// Sets the finalizers, or removes them where there are none.
pub fn set_finalizers<S: AsRef<str>>(object: &mut Value, finalizers: &[S]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        let names = finalizers
            .iter()
            .map(|name| Value::from(name.as_ref()))
            .collect();
        metadata.insert("finalizers".to_owned(), Value::Array(names));
    }
}

/// Adds a finalizer; tells whether it was missing.
pub fn add_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let missing = !has_finalizer(object, finalizer);
    if missing {
        let mut names: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
        names.push(finalizer.to_owned());
        set_finalizers(object, &names);
    }
    missing
}

/// Removes a finalizer; tells whether it was there.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let present = has_finalizer(object, finalizer);
    if present {
        let names: Vec<String> = finalizers(object)
            .into_iter()
            .filter(|&name| name != finalizer)
            .map(str::to_owned)
            .collect();
        set_finalizers(object, &names);
    }
    present
}

/// Removes a field of the metadata and hands it over.
pub fn remove_field(object: &mut Value, name: &str) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(name)
}

fn set_text(object: &mut Value, name: &str, text: &str) {
    let metadata = metadata_mut(object);
    if text.is_empty() {
        metadata.remove(name);
    } else {
        metadata.insert(name.to_owned(), Value::from(text));
    }
}

fn remove_member(object: &mut Value, map: &str, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(members) = metadata.get_mut(map).and_then(Value::as_object_mut) else {
        return;
    };
    if members.remove(key).is_some() && members.is_empty() {
        metadata.remove(map);
    }
}

fn entry_mut<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    map_mut(fields.entry(name.to_owned()).or_insert(Value::Null))
}

fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .expect("what was no object has just become one")
}

// === time ===

/// Renders a time as Kubernetes stores them: in UTC, to the second.
pub fn time_now_text(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses a time in RFC 3339, with or without parts of a second.
pub fn parse_time(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
