//! CustomResourceDefinitions: which versions they have stored objects in, what they may claim, and how they end.
//!
//! What a definition makes available is the registry's business, its conditions those of [`crate::definitions`].
//!
//! Source: apiextensions-apiserver/pkg/registry/customresourcedefinition/{strategy,etcd}.go.

use std::borrow::Cow;

use api::crd::{
    CONDITION_ESTABLISHED, CONDITION_TERMINATING, CustomResourceDefinition, FINALIZER_CLEANUP,
};
use api::meta::{STATUS_TRUE, set_conditions};
use api::query::DeleteOptions;
use api::{Condition, FieldError, FieldPath, meta};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::built_in::{self, BUILT_IN};
use super::endpoint::Endpoint;
use super::rules::{AfterCommit, Generation, Judged, PutWithoutVersion};
use super::{Deletion, Strategy};

pub(super) const DEFINITIONS: Strategy = Strategy {
    generation: Generation::Counted,
    put_without_version: PutWithoutVersion::Refused,
    judged: Judged::Rules,
    doubts,
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

const SCOPE: &str = "spec.scope";
const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];

/// A new definition has stored nothing, in the version that it stores in.
fn begin_status(object: &mut Value) {
    let stored: Vec<Value> = storage_version(object)
        .into_iter()
        .map(Value::String)
        .collect();
    object["status"] = json!({
        "conditions": null, "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": stored,
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
    let (object, wrong_scope) = with_scope(object);
    let mut errors = Vec::from_iter(wrong_scope);
    match CustomResourceDefinition::from_value(&object) {
        Ok(definition) => {
            errors.extend(schema::definition::validate_definition(&definition));
            errors.extend(reserved(&definition));
        }
        Err(status) => errors.push(unreadable(&status.message)),
    }
    errors
}

/// Validates a changed definition.
fn validate_update(object: &Value, live: &Value) -> Vec<FieldError> {
    let (object, wrong_scope) = with_scope(object);
    let mut errors = Vec::from_iter(wrong_scope);
    let definitions = (
        CustomResourceDefinition::from_value(&object),
        CustomResourceDefinition::from_value(live),
    );
    match definitions {
        (Ok(new), Ok(old)) => {
            errors.extend(schema::definition::validate_definition_update(&new, &old));
            if old.is_condition_true(CONDITION_ESTABLISHED) {
                if let Some(error) = errors.first().filter(|error| error.path == SCOPE) {
                    let said = error.value.clone().unwrap_or_else(|| json!(""));
                    errors.push(built_in::immutable(&FieldPath::new(SCOPE), &said));
                }
                errors.extend(wrong_bundle(&new, &old));
            }
            // One that an older hub has let in may still lose its finalizers and go.
            if new.spec != old.spec {
                errors.extend(reserved(&new));
            }
        }
        (Err(status), _) | (_, Err(status)) => errors.push(unreadable(&status.message)),
    }
    errors
}

fn doubts(object: &Value, live: Option<&Value>) -> Vec<String> {
    let Ok(definition) = CustomResourceDefinition::from_value(object) else {
        return Vec::new();
    };
    let live = live.and_then(|live| CustomResourceDefinition::from_value(live).ok());
    schema::definition::warnings(&definition, live.as_ref())
}

/// Returns a definition whose scope can be read, and what is wrong with the one that it has.
fn with_scope(object: &Value) -> (Cow<'_, Value>, Option<FieldError>) {
    let scope = object["spec"]["scope"].as_str().unwrap_or_default();
    if SCOPES.contains(&scope) {
        return (Cow::Borrowed(object), None);
    }
    let path = FieldPath::new(SCOPE);
    let error = if scope.is_empty() {
        FieldError::required(&path, "")
    } else {
        FieldError::not_supported(&path, scope, SCOPES)
    };
    let mut readable = object.clone();
    readable["spec"]["scope"] = json!("Namespaced");
    (Cow::Owned(readable), Some(error))
}

/// What a definition claims that is not to be had in any logical cluster.
fn reserved(definition: &CustomResourceDefinition) -> Option<FieldError> {
    let claimed = api::reserved::claim(&definition.spec).err()?;
    if definition.spec.group.is_empty() {
        // Which is said already.
        return None;
    }
    let path = match claimed {
        api::reserved::Reserved::Group { .. } => "spec.group",
        api::reserved::Reserved::Name { .. } => "spec.names",
    };
    Some(FieldError::forbidden(
        &FieldPath::new(path),
        claimed.to_string(),
    ))
}

/// What is wrong with the authorities of a converter, unless something was before.
fn wrong_bundle(
    new: &CustomResourceDefinition,
    old: &CustomResourceDefinition,
) -> Option<FieldError> {
    let (bundle, fault) = bundle_fault(new)?;
    let path = FieldPath::new("spec.conversion.webhookClientConfig.caBundle");
    let error = FieldError::invalid(&path, bundle, fault);
    bundle_fault(old).is_none().then_some(error)
}

fn bundle_fault(definition: &CustomResourceDefinition) -> Option<(&str, String)> {
    let conversion = definition.spec.conversion.as_ref()?;
    let bundle = conversion
        .webhook
        .as_ref()?
        .pointer("/clientConfig/caBundle")?;
    let bundle = bundle.as_str().filter(|it| !it.is_empty())?;
    if conversion.strategy != "Webhook" {
        return None;
    }
    let fault = no_authorities(bundle)?;
    Some((bundle, format!("unable to load root certificates: {fault}")))
}

/// Returns why a bundle, in base64, names no authority.
///
/// Source: client-go `transport/transport.go` (createErrorParsingCAData).
fn no_authorities(bundle: &str) -> Option<String> {
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem).map_while(Result::ok);
    let mut fault = "unable to parse bytes as PEM block".to_owned();
    for certificate in certificates {
        if let Err(error) = roots.add(certificate) {
            fault = format!("failed to parse certificate: {error}");
        }
    }
    roots.is_empty().then_some(fault)
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
