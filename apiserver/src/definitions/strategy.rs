//! The part that definitions have in a write.
//!
//! Source: apiextensions-apiserver/pkg/registry/customresourcedefinition/{strategy,etcd}.go.

use api::crd::{CONDITION_TERMINATING, CustomResourceDefinition, FINALIZER_CLEANUP};
use api::meta::{STATUS_TRUE, set_condition};
use api::{Condition, FieldError, FieldPath, meta};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// A new definition has stored nothing, in the version that it stores in.
pub(crate) fn prepare_create(object: &mut Value) {
    let stored: Vec<Value> = storage_version(object)
        .into_iter()
        .map(Value::String)
        .collect();
    object["status"] = json!({
        "conditions": [], "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": stored,
    });
}

/// A version that becomes the stored one is added to those that objects may be stored in.
pub(crate) fn prepare_update(object: &mut Value) {
    let Some(version) = storage_version(object) else {
        return;
    };
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(versions) = versions.as_array_mut()
        && !versions.iter().any(|known| *known == version)
    {
        versions.push(Value::String(version));
    }
}

fn storage_version(object: &Value) -> Option<String> {
    let versions = object["spec"]["versions"].as_array()?;
    let stored = versions
        .iter()
        .find(|version| version["storage"] == Value::Bool(true))?;
    stored["name"].as_str().map(str::to_owned)
}

/// Judges a new definition.
pub(crate) fn validate_create(object: &Value) -> Vec<FieldError> {
    match CustomResourceDefinition::from_value(object) {
        Ok(definition) => {
            let mut errors = schema::definition::validate_definition(&definition);
            errors.extend(reserved(&definition));
            errors
        }
        Err(status) => vec![unreadable(&status.message)],
    }
}

/// Judges a changed definition.
pub(crate) fn validate_update(object: &Value, live: &Value) -> Vec<FieldError> {
    let definitions = (
        CustomResourceDefinition::from_value(object),
        CustomResourceDefinition::from_value(live),
    );
    match definitions {
        (Ok(new), Ok(old)) => {
            let mut errors = schema::definition::validate_definition_update(&new, &old);
            // One that an older hub has let in may still lose its finalizers and go.
            if new.spec != old.spec {
                errors.extend(reserved(&new));
            }
            errors
        }
        (Err(status), _) | (_, Err(status)) => vec![unreadable(&status.message)],
    }
}

/// What a definition claims that is not to be had in any logical cluster.
fn reserved(definition: &CustomResourceDefinition) -> Option<FieldError> {
    let claimed = api::reserved::claim(&definition.spec).err()?;
    let path = match claimed {
        api::reserved::Reserved::Group { .. } => "spec.group",
        api::reserved::Reserved::Name { .. } => "spec.names",
    };
    Some(FieldError::forbidden(
        &FieldPath::new(path),
        claimed.to_string(),
    ))
}

fn unreadable(message: &str) -> FieldError {
    FieldError::internal(&FieldPath::new("spec"), message)
}

/// Marks a definition whose deletion was asked for. Its instances go first.
pub(crate) fn mark_terminating(live: &Value, now: Timestamp) -> Value {
    let mut object = live.clone();
    let now = meta::time_now_text(now);
    meta::set_deletion_timestamp(&mut object, &now);
    meta::add_finalizer(&mut object, FINALIZER_CLEANUP);
    let condition = Condition::new(
        CONDITION_TERMINATING,
        STATUS_TRUE,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    set_conditions(&mut object, [condition], &now);
    object
}

/// Sets conditions in the status; tells whether one changed.
pub(crate) fn set_conditions(
    object: &mut Value,
    conditions: impl IntoIterator<Item = Condition>,
    now: &str,
) -> bool {
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let mut all =
        Vec::<Condition>::deserialize(&object["status"]["conditions"]).unwrap_or_default();
    let mut changed = false;
    for condition in conditions {
        changed |= set_condition(&mut all, condition, now);
    }
    if changed {
        object["status"]["conditions"] = serde_json::to_value(all).unwrap_or_default();
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_version_is_remembered() {
        let version = |name: &str, storage: bool| json!({"name": name, "storage": storage});
        let mut object = json!({"spec": {"versions": [version("v1", true), version("v2", false)]}});
        prepare_create(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
        object["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
        prepare_update(&mut object);
        prepare_update(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1", "v2"]));
    }
}
