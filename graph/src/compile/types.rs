//! Schemas of whole objects, as expressions see them.
//!
//! Every object has the metadata of Kubernetes, whatever its definition says of it (usually just that it is an object);
//! an instance is seen without its status, and without a namespace where it has none.
//!
//! Source: kro `pkg/graph/builder.go` stripStatusFromSchema, `pkg/graph/schema/schema.go`.

use std::sync::Arc;

use schema::Schema;
use schema::builtin::object_meta;
use schema::structural::ValueType;
use serde_json::Value;

use super::SharedSchema;

/// Completes the schema of a kind by what every object has.
pub(super) fn with_object_metadata(schema: &SharedSchema) -> SharedSchema {
    let metadata = schema.properties.get("metadata");
    let is_typed =
        metadata.is_some_and(|metadata| metadata.properties.contains_key("ownerReferences"));
    if is_typed && schema.properties.contains_key("kind") {
        return Arc::clone(schema);
    }
    let mut completed = Schema::clone(schema);
    completed.value_type = Some(ValueType::Object);
    for name in ["apiVersion", "kind"] {
        completed
            .properties
            .entry(name.to_owned())
            .or_insert_with(text);
    }
    completed
        .properties
        .insert("metadata".to_owned(), object_meta());
    Arc::new(completed)
}

/// The schema of an instance as expressions see it under `schema`.
pub(super) fn instance_type(spec: &Value, cluster_scoped: bool) -> Result<SharedSchema, String> {
    let spec = Schema::from_openapi(spec)
        .map_err(|error| format!("failed to get schema without status: {error}"))?;
    let mut metadata = object_meta();
    if cluster_scoped {
        let mut without = Schema::clone(&metadata);
        without.properties.remove("namespace");
        metadata = Arc::new(without);
    }
    let properties = [
        ("apiVersion".to_owned(), text()),
        ("kind".to_owned(), text()),
        ("metadata".to_owned(), metadata),
        ("spec".to_owned(), spec),
    ];
    Ok(Arc::new(Schema {
        value_type: Some(ValueType::Object),
        properties: properties.into(),
        ..Schema::default()
    }))
}

fn text() -> SharedSchema {
    Arc::new(Schema {
        value_type: Some(ValueType::String),
        ..Schema::default()
    })
}
