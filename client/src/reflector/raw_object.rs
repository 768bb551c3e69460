//! An object as its bytes, with as much of its metadata as keys, filters and comparisons need.
//!
//! A parsed object takes ten times the memory of its text, so that a cache of many objects holds texts and parses
//! what it looks at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::{OwnerReference, TypeMeta, meta};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode_error::DecodeError;
use crate::bounds::{Budget, Charge, OBJECT_BYTES, parsed_bytes};
use crate::error::BoundError;

/// What an entry of a map costs beside its text.
const ENTRY_BYTES: usize = 40;
/// What an owner reference costs.
const OWNER_BYTES: usize = 320;
/// How many times the largest text an object may be once it is parsed.
const PARSED_FACTOR: usize = 8;

/// An object as its bytes.
#[derive(Clone, Debug)]
pub struct RawObject {
    /// The type. In a list the objects of built-in kinds do not carry it; it is that of the list then.
    pub type_meta: Arc<TypeMeta>,
    /// The name.
    pub name: String,
    /// The namespace, if it has one.
    pub namespace: Option<String>,
    /// The uid.
    pub uid: String,
    /// The opaque version.
    pub resource_version: String,
    /// Counts the changes of the desired state.
    pub generation: i64,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// When its deletion was asked for.
    pub deletion_timestamp: Option<String>,
    /// Who must agree before it goes.
    pub finalizers: Vec<String>,
    /// Whose dependent it is.
    pub owner_references: Vec<OwnerReference>,
    raw: Box<RawValue>,
    /// Stands for this object in the budget of its cluster, if it was read in a list or a watch.
    charge: Option<Arc<Charge>>,
}

/// What is read of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct HeadMeta {
    #[serde(deserialize_with = "nullable")]
    name: String,
    namespace: Option<String>,
    #[serde(deserialize_with = "nullable")]
    uid: String,
    #[serde(deserialize_with = "nullable")]
    resource_version: String,
    #[serde(deserialize_with = "nullable")]
    generation: i64,
    #[serde(deserialize_with = "nullable")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    annotations: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "nullable")]
    finalizers: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    owner_references: Vec<OwnerReference>,
}

/// Who has written an object, and how.
#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow)]
    metadata: ManagedMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedMeta<'a> {
    #[serde(borrow, default)]
    managed_fields: Vec<ManagedBy<'a>>,
}

#[derive(Deserialize)]
struct ManagedBy<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
}

// === impl RawObject ===

impl RawObject {
    /// Reads the metadata of an object; `fallback` is its type where it does not say so itself.
    pub fn from_raw(raw: &RawValue, fallback: &Arc<TypeMeta>) -> Result<Self, serde_json::Error> {
        let head: Head = serde_json::from_str(raw.get())?;
        Ok(Self::with_head(head, raw.to_owned(), fallback))
    }

    fn with_head(head: Head, raw: Box<RawValue>, fallback: &Arc<TypeMeta>) -> Self {
        let type_meta = match (head.api_version, head.kind) {
            (Some(api_version), Some(kind)) => {
                if fallback.api_version == api_version && fallback.kind == kind {
                    Arc::clone(fallback)
                } else {
                    Arc::new(TypeMeta { api_version, kind })
                }
            }
            _ => Arc::clone(fallback),
        };
        let metadata = head.metadata;
        Self {
            type_meta,
            name: metadata.name,
            namespace: metadata.namespace.filter(|namespace| !namespace.is_empty()),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            labels: metadata.labels,
            annotations: metadata.annotations,
            deletion_timestamp: metadata.deletion_timestamp,
            finalizers: metadata.finalizers,
            owner_references: metadata.owner_references,
            raw,
            charge: None,
        }
    }

    /// [`RawObject::from_raw`], within what the object's cluster may make its client hold.
    pub(crate) fn from_cluster(
        raw: &RawValue,
        fallback: &Arc<TypeMeta>,
        budget: &Arc<Budget>,
    ) -> Result<Self, DecodeError> {
        let bytes = raw.get().len();
        let bytes_max = budget.bounds().object_bytes_max;
        // Parsed it must not be much more either: plans do parse it.
        if bytes > bytes_max || parsed_bytes(raw.get().as_bytes()) / PARSED_FACTOR > bytes_max {
            return Err(BoundError::Object { bytes_max }.into());
        }
        let mut charge = budget.take(OBJECT_BYTES)?;
        charge.grow(bytes)?;
        let mut object = Self::from_raw(raw, fallback)?;
        charge.grow(object.metadata_bytes())?;
        object.charge = Some(Arc::new(charge));
        Ok(object)
    }

    /// Estimates what the parsed metadata needs, which may be many small entries.
    fn metadata_bytes(&self) -> usize {
        let text = |text: &String| text.len() + ENTRY_BYTES;
        let map = |map: &BTreeMap<String, String>| -> usize {
            map.iter().map(|(key, value)| text(key) + text(value)).sum()
        };
        let owners = self.owner_references.len() * OWNER_BYTES;
        let finalizers: usize = self.finalizers.iter().map(text).sum();
        map(&self.labels) + map(&self.annotations) + finalizers + owners
    }

    /// Takes an object that was parsed, the answer to a call for example.
    pub fn from_value(object: &Value) -> Result<Self, serde_json::Error> {
        let raw = serde_json::value::to_raw_value(object)?;
        Ok(Self::with_head(
            Head::deserialize(object)?,
            raw,
            &Arc::default(),
        ))
    }

    /// Parses the object. The type is always in it.
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        let mut object: Value = serde_json::from_str(self.raw.get())?;
        if meta::kind(&object).is_empty() {
            meta::set_type(
                &mut object,
                &self.type_meta.api_version,
                &self.type_meta.kind,
            );
        }
        Ok(object)
    }

    /// Reads a part of the object, which takes a fraction of the time of [`RawObject::value`] and allocates for that part
    /// alone.
    ///
    /// # Errors
    /// The part has another shape.
    pub fn part<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.raw.get())
    }

    /// Returns whether an apply of a field manager is recorded in the object. What cannot be read records none.
    pub fn is_applied_by(&self, manager: &str) -> bool {
        let is_his = |entry: &ManagedBy<'_>| entry.manager == manager && entry.operation == "Apply";
        self.part::<Managed<'_>>()
            .is_ok_and(|managed| managed.metadata.managed_fields.iter().any(is_his))
    }

    /// Borrows the text as it came. In a list the objects of built-in kinds have no type in it.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }
}

/// Reads `null` as the default of a type.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_without_a_type_gets_that_of_its_list() {
        let fallback = Arc::new(TypeMeta::new("v1", "ConfigMap"));
        let object = json!({"metadata": {"name": "a", "namespace": "n", "labels": null,
            "finalizers": ["x/y"], "annotations": {"k": "v"}}, "data": {"b": "c"}});
        let raw = serde_json::value::to_raw_value(&object).unwrap();
        let read = RawObject::from_raw(&raw, &fallback).unwrap();
        assert_eq!(
            (read.name.as_str(), read.namespace.as_deref()),
            ("a", Some("n"))
        );
        assert_eq!(read.annotations["k"], "v");
        assert_eq!(read.finalizers, ["x/y"]);
        let mut want = object;
        meta::set_type(&mut want, "v1", "ConfigMap");
        assert_eq!(read.value().unwrap(), want);
        assert!(Arc::ptr_eq(&read.type_meta, &fallback));
    }

    #[test]
    fn an_apply_counts_for_its_manager_alone() {
        let of = |entries: Value| {
            let object = json!({"metadata": {"name": "a", "managedFields": entries}, "spec": [1, {"a": "b"}]});
            RawObject::from_value(&object).unwrap()
        };
        let apply =
            json!({"manager": "hub \"1\"", "operation": "Apply", "fieldsV1": {"f:spec": {}}});
        let update = json!({"manager": "hub \"1\"", "operation": "Update"});
        let other = json!({"manager": "kubectl", "operation": "Apply"});
        let of_nobody = json!({"operation": "Apply"});
        let cases = [
            (json!([other, of_nobody, apply]), true),
            (json!([update, other]), false),
            (json!([]), false),
            (json!("hub"), false),
            (json!([apply, 7]), false),
        ];
        for (entries, want) in cases {
            let what = entries.to_string();
            assert_eq!(of(entries).is_applied_by("hub \"1\""), want, "{what}");
        }
        let bare = RawObject::from_value(&json!({"metadata": {"name": "a"}})).unwrap();
        assert!(!bare.is_applied_by(""), "an object without managed fields");
    }

    #[test]
    fn an_object_with_a_type_keeps_it() {
        let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}});
        let read = RawObject::from_value(&object).unwrap();
        assert_eq!(*read.type_meta, TypeMeta::new("a/v1", "A"));
        assert_eq!(read.namespace, None);
        assert_eq!(read.value().unwrap(), object);
        for bad in [
            json!({}),
            json!({"metadata": {"labels": {"a": 1}}}),
            json!([]),
        ] {
            assert!(RawObject::from_value(&bad).is_err(), "{bad}");
        }
    }
}
