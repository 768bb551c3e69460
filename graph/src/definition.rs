//! The generated definition: the CustomResourceDefinition of an instance kind.
//!
//! One version, served and stored, with a status subresource; `status` has `state` and `conditions` unless the author's
//! status brings its own; the author's printer columns replace the default ones.
//!
//! Source: kro `pkg/graph/crd/crd.go`, `defaults.go`, `pkg/metadata/labels.go`.

use serde_json::{Map, Value, json};

use crate::pluralize;

/// What a definition is made of, besides its schemas.
#[derive(Clone, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) cluster_scoped: bool,
}

// === impl Names ===

impl Names<'_> {
    pub(crate) fn plural(&self) -> String {
        pluralize(&self.kind.to_lowercase())
    }
}

/// Writes the definition; `schema` is `spec.schema` of the ResourceGraphDefinition, which brings short names,
/// categories, columns, labels and annotations.
pub(crate) fn define(names: &Names<'_>, schema: &Value, spec: &Value, status: Value) -> Value {
    let plural = names.plural();
    let singular = names.kind.to_lowercase();
    let mut metadata = json!({"name": format!("{plural}.{}", names.group)});
    for part in ["labels", "annotations"] {
        let map = schema
            .pointer(&format!("/metadata/{part}"))
            .and_then(Value::as_object);
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            metadata[part] = Value::Object(map.clone());
        }
    }
    let mut crd_names = json!({
        "kind": names.kind,
        "listKind": format!("{}List", names.kind),
        "plural": plural,
        "singular": singular,
    });
    for part in ["shortNames", "categories"] {
        if let Some(list) = filled_list(schema, part) {
            crd_names[part] = list.clone();
        }
    }
    let columns = filled_list(schema, "additionalPrinterColumns")
        .cloned()
        .unwrap_or_else(default_columns);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": names.group,
            "names": crd_names,
            "scope": if names.cluster_scoped { "Cluster" } else { "Namespaced" },
            "versions": [{
                "name": names.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": root_schema(spec, &with_builtin_fields(status))},
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn filled_list<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema
        .get(name)
        .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
}

/// The schema of the whole instance.
fn root_schema(spec: &Value, status: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    })
}

/// Adds kro's own status fields where the author has none of that name.
fn with_builtin_fields(mut status: Value) -> Value {
    if status.get("properties").is_none() {
        status["properties"] = Value::Object(Map::new());
    }
    if let Some(properties) = status.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .entry("state")
            .or_insert_with(|| json!({"type": "string"}));
        properties.entry("conditions").or_insert_with(|| {
            json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string"},
                        "reason": {"type": "string"},
                        "message": {"type": "string"},
                        "lastTransitionTime": {"type": "string"},
                        "observedGeneration": {"type": "integer"},
                    },
                },
            })
        });
    }
    status
}

fn default_columns() -> Value {
    json!([
        {
            "name": "State",
            "description": "The state of a ResourceGraphDefinition instance",
            "type": "string",
            "jsonPath": ".status.state",
        },
        {
            "name": "Ready",
            "description": "Whether a ResourceGraphDefinition instance is ready",
            "type": "string",
            "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        },
        {
            "name": "Age",
            "description": "Age of the resource",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
        },
    ])
}
