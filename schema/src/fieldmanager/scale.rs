//! Owners through `/scale`: of all fields, the count of replicas.
//!
//! An entry that owns the replicas of an object owns `.spec.replicas` of its `Scale`, and back.
//!
//! One thing is other than in Kubernetes: an updater of the object is recognised in the owners of the scale, though
//! its entry there names the version `autoscaling/v1`. Kubernetes does not see that the two are one, and writes two
//! entries of one identity, of which the next reader keeps one.
//!
//! Source: `apimachinery/pkg/util/managedfields/scalehandler.go`; api-compat 3.6.

use serde_json::Value;

use super::element::PathElement;
use super::managed::{ManagedEntry, ManagedFields, ManagedFieldsError, ManagerIdentity};
use super::set::FieldSet;

/// The version of `Scale`.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the replicas of a version of the object are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicasPath {
    /// The version, `group/version`.
    pub api_version: String,
    /// The path; `None` if the version has no scale.
    pub path: Option<Vec<PathElement>>,
}

/// The owners of a scale, of those of its object.
///
/// # Errors
///
/// The owners of the object cannot be read.
pub fn scale_from_parent(
    parent: Option<&Value>,
    paths: &[ReplicasPath],
) -> Result<Vec<Value>, ManagedFieldsError> {
    let mut scale = ManagedFields::default();
    for entry in ManagedFields::decode(parent)?.entries() {
        let path = at(paths, &entry.api_version).and_then(|at| at.path.as_ref());
        if path.is_some_and(|path| entry.set.contains(path)) {
            scale.put(ManagedEntry {
                identity: entry.identity.clone(),
                api_version: SCALE_VERSION.to_owned(),
                set: scale_replicas(),
                time: entry.time.clone(),
            });
        }
    }
    Ok(scale.encode())
}

/// The owners of an object, of those that it had and those of its scale after a write. Who lost the replicas of the
/// scale loses those of the object, and who gained them gains them at the version of the request.
///
/// # Errors
///
/// Owners of the object or of the scale cannot be read.
pub fn scale_to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: &[ReplicasPath],
) -> Result<Vec<Value>, ManagedFieldsError> {
    let mut scale = ManagedFields::decode(scale)?;
    let mut managed = ManagedFields::default();
    for entry in ManagedFields::decode(parent)?.entries() {
        // Its version is gone, and it with it.
        let Some(at) = at(paths, &entry.api_version) else {
            continue;
        };
        let mut entry = entry.clone();
        if let Some(path) = at.path.as_ref().filter(|path| entry.set.contains(path))
            && scale.take(&in_scale(&entry.identity)).is_none()
        {
            entry.set = entry.set.difference(&FieldSet::from_paths([path]));
            if entry.set.is_empty() {
                continue;
            }
        }
        managed.put(entry);
    }
    let Some(path) = at(paths, api_version).and_then(|at| at.path.as_ref()) else {
        return Ok(managed.encode());
    };
    let replicas = scale_replicas();
    for entry in scale.entries() {
        if !entry.set.intersection(&replicas).is_empty() {
            managed.put(ManagedEntry {
                identity: in_parent(&entry.identity, api_version),
                api_version: api_version.to_owned(),
                set: FieldSet::from_paths([path]),
                time: None,
            });
        }
    }
    Ok(managed.encode())
}

fn at<'p>(paths: &'p [ReplicasPath], api_version: &str) -> Option<&'p ReplicasPath> {
    paths.iter().find(|path| path.api_version == api_version)
}

fn scale_replicas() -> FieldSet {
    FieldSet::from_field_names(&[&["spec", "replicas"]])
}

/// The identity that an entry of the object has in the owners of the scale.
fn in_scale(identity: &ManagerIdentity) -> ManagerIdentity {
    in_parent(identity, SCALE_VERSION)
}

fn in_parent(identity: &ManagerIdentity, api_version: &str) -> ManagerIdentity {
    let mut identity = identity.clone();
    if !identity.is_applier() {
        api_version.clone_into(&mut identity.api_version);
    }
    identity
}
