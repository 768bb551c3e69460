//! Between the stored form of an object and the form in a served version.
//!
//! Most reads need nothing of this: what was stored under the schema and in the version that is asked for is served
//! as it is. Otherwise the object is brought into the version, and pruned and defaulted under its schema, each time it
//! is read: a definition that changes rewrites nothing.
//! Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go (schemaCoercingDecoder, ..Converter).

use bytes::Bytes;
use serde_json::Value;
use storage::Entry;

use crate::objects::{Encoded, RevisionSlot, encode};
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::registry::scope::Conversion;
use crate::strategy::version::VersionRules;

/// The bytes of a stored object in the version of a scope.
pub(crate) fn served_bytes(scope: &ResourceScope, entry: &Entry) -> Result<Bytes, Refusal> {
    if scope.serves_as_stored(entry.tag(), entry.value()) {
        return Ok(entry.bytes());
    }
    let object = convert(scope, entry)?;
    Ok(encode(&object, RevisionSlot::Keep).bytes.into())
}

/// A stored object in the version of a scope.
pub(crate) fn served_value(scope: &ResourceScope, entry: &Entry) -> Result<Value, Refusal> {
    if scope.serves_as_stored(entry.tag(), entry.value()) {
        return parse(entry);
    }
    convert(scope, entry)
}

/// An object of a scope in the form in which it is stored.
pub(crate) fn stored(scope: &ResourceScope, object: &Value) -> Result<Encoded, Refusal> {
    let storage = &scope.rules.storage;
    if storage.api_version == scope.version.api_version {
        return Ok(encode(object, RevisionSlot::Reserve));
    }
    let mut object = object.clone();
    change_version(scope, &mut object, storage)?;
    Ok(encode(&object, RevisionSlot::Reserve))
}

fn convert(scope: &ResourceScope, entry: &Entry) -> Result<Value, Refusal> {
    let mut object = parse(entry)?;
    let (typing, version) = (scope.typing(), &scope.version);
    if api::meta::api_version(&object) == version.api_version {
        typing.coerce(&version.schema, &mut object);
    } else {
        change_version(scope, &mut object, version)?;
    }
    typing.upgrade_stored(version, &mut object);
    // An object that was small under the schema it was written by is served with the defaults that fit: one object must
    // not keep its collection from being read.
    if let Err(error) = typing.default(version, &mut object) {
        tracing::debug!(error = %error, "object is served without all of its defaults");
    }
    Ok(object)
}

/// Brings an object into another version of its resource.
fn change_version(
    scope: &ResourceScope,
    object: &mut Value,
    version: &VersionRules,
) -> Result<(), Refusal> {
    match scope.rules.conversion {
        Conversion::None => {}
        Conversion::Renaming(stored) => (stored.convert)(object, &version.api_version),
        Conversion::Webhook => {
            let kind = scope.gvk();
            return Err(api::Status::internal(format!(
                "conversion webhook for {}, Kind={} failed: webhooks are not supported",
                api::meta::api_version(object),
                kind.kind,
            ))
            .into());
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert(
            "apiVersion".into(),
            Value::from(version.api_version.as_str()),
        );
    }
    scope.typing().coerce(&version.schema, object);
    Ok(())
}

fn parse(entry: &Entry) -> Result<Value, Refusal> {
    serde_json::from_slice(entry.value()).map_err(Refusal::internal)
}
