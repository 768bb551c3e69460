//! CustomResourceDefinitions: which versions they have stored objects in, what they may claim, and how they end.
//!
//! What a definition makes available is the registry's business, its conditions those of [`crate::definitions`].
//!
//! Source: apiextensions-apiserver/pkg/registry/customresourcedefinition/{strategy,etcd}.go.

use api::crd::{CONDITION_TERMINATING, CustomResourceDefinition, FINALIZER_CLEANUP};
use api::meta::{STATUS_TRUE, set_conditions};
use api::query::DeleteOptions;
use api::{Condition, FieldError, FieldPath, meta};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::built_in::{self, BUILT_IN};
use super::endpoint::Endpoint;
use super::rules::{AfterCommit, Generation, PutWithoutVersion};
use super::{Deletion, Strategy};

pub(super) const DEFINITIONS: Strategy = Strategy {
    generation: Generation::Counted,
    put_without_version: PutWithoutVersion::Refused,
    prepare_create: |version, object| {
        built_in::prepare_create(version, object)?;
        begin_status(object);
        Ok(())
    },
    prepare_update: |endpoint, object, _live| {
        if endpoint == Endpoint::Main {
            add_stored_version(object);
        }
    },
    validate: |object, live| match live {
        None => validate_create(object),
        Some(live) => validate_update(object, live),
    },
    after_commit: AfterCommit::AwaitsRegistry,
    deletion: Deletion {
        mark,
        ..Deletion::PLAIN
    },
    ..BUILT_IN
};

/// A new definition has stored nothing, in the version that it stores in.
fn begin_status(object: &mut Value) {
    let stored: Vec<Value> = storage_version(object)
        .into_iter()
        .map(Value::String)
        .collect();
    object["status"] = json!({
        "conditions": [], "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": stored,
    });
}

/// A version that becomes the stored one is added to those that objects may be stored in.
fn add_stored_version(object: &mut Value) {
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

/// Validates a new definition.
fn validate_create(object: &Value) -> Vec<FieldError> {
    match CustomResourceDefinition::from_value(object) {
        Ok(definition) => {
            let mut errors = schema::definition::validate_definition(&definition);
            errors.extend(reserved(&definition));
            errors
        }
        Err(status) => vec![unreadable(&status.message)],
    }
}

/// Validates a changed definition.
fn validate_update(object: &Value, live: &Value) -> Vec<FieldError> {
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

/// A definition terminates first, and its instances are deleted.
fn mark(live: &Value, _options: &DeleteOptions, now: Timestamp) -> Option<Value> {
    if meta::is_terminating(live) {
        return None;
    }
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
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_version_is_remembered() {
        let version = |name: &str, storage: bool| json!({"name": name, "storage": storage});
        let mut object = json!({"spec": {"versions": [version("v1", true), version("v2", false)]}});
        begin_status(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
        object["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
        add_stored_version(&mut object);
        add_stored_version(&mut object);
        assert_eq!(object["status"]["storedVersions"], json!(["v1", "v2"]));
    }
}
