//! Removes what a schema does not know, and reports it.
//!
//! Invariants: fields that are declared below a node that preserves unknown fields are still pruned by their own
//! schemas; `apiVersion`, `kind` and `metadata` of a resource are never touched here. Pruning twice changes nothing.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/pruning`, `…/defaulting/prunenulls.go`.

use serde_json::Value;

use super::{Additional, Schema, metadata};
use crate::path::Path;

/// Removes the fields of the resource `object` that `schema` does not know.
pub fn prune(object: &mut Value, schema: &Schema) {
    prune_node(object, Some(schema), Met::AsRoot);
}

/// Removes the fields of `value`, which is no resource of its own, that `schema` does not know.
pub(crate) fn prune_part(value: &mut Value, schema: &Schema) {
    prune_node(value, Some(schema), Met::AsDeclared);
}

/// The paths of the fields that [`prune`] and [`coerce_metadata`](super::coerce_metadata) would remove, sorted.
pub fn unknown_fields(object: &Value, schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    report_node(object, Some(schema), Met::AsRoot, &Path::Root, &mut found);
    found.sort();
    found
}

/// Removes nulls that are neither values (`nullable`) nor replaced by a default.
pub fn drop_nulls(object: &mut Value, schema: &Schema) {
    drop_nulls_node(object, Some(schema));
}

/// How a node is met.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    /// As the root of an object, which is a resource whatever its schema says.
    AsRoot,
    /// As a declared field or item.
    AsDeclared,
    /// As an item of a list that preserves unknown fields, which its items then do too.
    Preserved,
}

/// What a schema says of a field.
enum Known<'s> {
    /// It is the resource's own.
    Meta,
    /// It has this schema; `None` where nothing may be inside.
    Declared(Option<&'s Schema>),
    /// It is kept with all that is in it.
    Preserved,
    /// It is unknown.
    No,
}

fn known<'s>(schema: Option<&'s Schema>, name: &str, met: Met) -> Known<'s> {
    let Some(schema) = schema else {
        return Known::No;
    };
    let is_resource = met == Met::AsRoot || schema.embedded_resource;
    if is_resource && metadata::META_FIELDS.contains(&name) {
        return Known::Meta;
    }
    if let Some(property) = schema.properties.get(name) {
        return Known::Declared(Some(property));
    }
    match &schema.additional {
        Additional::Schema(element) => Known::Declared(Some(element)),
        // `additionalProperties: true` keeps the keys and nothing below them.
        Additional::Any => Known::Declared(None),
        Additional::None if schema.preserve_unknown_fields || met == Met::Preserved => {
            Known::Preserved
        }
        Additional::None => Known::No,
    }
}

/// How the items of a list are met; `None` where they are kept as they are.
fn items(schema: Option<&Schema>, met: Met) -> Option<(Option<&Schema>, Met)> {
    let Some(schema) = schema else {
        return Some((None, Met::AsDeclared));
    };
    let preserved = schema.preserve_unknown_fields || met == Met::Preserved;
    match (&schema.items, preserved) {
        (Some(items), true) => Some((Some(items), Met::Preserved)),
        (Some(items), false) => Some((Some(items), Met::AsDeclared)),
        (None, true) => None,
        (None, false) => Some((None, Met::AsDeclared)),
    }
}

fn prune_node(value: &mut Value, schema: Option<&Schema>, met: Met) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            match known(schema, name, met) {
                Known::Declared(child) => prune_node(field, child, Met::AsDeclared),
                Known::Meta | Known::Preserved => {}
                Known::No => return false,
            }
            true
        }),
        Value::Array(list) => {
            let Some((item_schema, met)) = items(schema, met) else {
                return;
            };
            for item in list {
                prune_node(item, item_schema, met);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn report_node(
    value: &Value,
    schema: Option<&Schema>,
    met: Met,
    path: &Path<'_>,
    found: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let field_path = Path::Field(path, name);
                match known(schema, name, met) {
                    Known::Declared(child) => {
                        report_node(field, child, Met::AsDeclared, &field_path, found);
                    }
                    Known::Meta if name == "metadata" => {
                        metadata::report_unknown(field, &field_path, found);
                    }
                    Known::Meta | Known::Preserved => {}
                    Known::No => found.push(field_path.to_string()),
                }
            }
        }
        Value::Array(list) => {
            let Some((item_schema, met)) = items(schema, met) else {
                return;
            };
            for (index, item) in list.iter().enumerate() {
                report_node(item, item_schema, met, &Path::Index(path, index), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_nulls_node(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let child = schema
                .and_then(|schema| schema.field(name))
                .map(AsRef::as_ref);
            if field.is_null() {
                return child.is_none_or(|child| child.nullable || child.default.is_some());
            }
            drop_nulls_node(field, child);
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls_node(item, item_schema);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pruning_follows_the_schema_and_reports_what_it_removes() {
        let cases = [
            (
                "a struct",
                json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}),
                json!({"kind": "K", "metadata": {"name": "n"}, "spec": {"a": "1", "b": {"c": 1}}, "x": 1}),
                json!({"kind": "K", "metadata": {"name": "n"}, "spec": {"a": "1"}}),
                vec!["spec.b", "x"],
            ),
            (
                "lists and maps",
                json!({"type": "object", "properties": {
                    "l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}}}}),
                json!({"l": [{"a": "1", "b": 2}, 3], "m": {"k": {"b": 1}}}),
                json!({"l": [{"a": "1"}, 3], "m": {"k": {}}}),
                vec!["l[0].b", "m.k.b"],
            ),
            (
                "preserving with a declared child",
                json!({"type": "object", "properties": {"p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"d": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}),
                json!({"p": {"u": {"v": 1}, "d": {"a": "1", "b": 2}}}),
                json!({"p": {"u": {"v": 1}, "d": {"a": "1"}}}),
                vec!["p.d.b"],
            ),
            (
                "a list below a preserving node without items",
                json!({"type": "object", "properties": {"p": {"x-kubernetes-preserve-unknown-fields": true}}}),
                json!({"p": [{"a": [1]}]}),
                json!({"p": [{"a": [1]}]}),
                vec![],
            ),
            (
                "an embedded resource",
                json!({"type": "object", "properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}}}}),
                json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "nope": 1}, "spec": {"x": 1}, "status": {}}}),
                json!({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "nope": 1}, "spec": {}}}),
                vec!["t.metadata.nope", "t.spec.x", "t.status"],
            ),
            (
                "additionalProperties true",
                json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}}),
                json!({"m": {"k": {"v": 1}, "s": "x"}}),
                json!({"m": {"k": {}, "s": "x"}}),
                vec!["m.k.v"],
            ),
            (
                "metadata",
                json!({"type": "object"}),
                json!({"metadata": {"name": "n", "nope": 1, "ownerReferences": [{"uid": "u", "x": 1}]}}),
                json!({"metadata": {"name": "n", "nope": 1, "ownerReferences": [{"uid": "u", "x": 1}]}}),
                vec!["metadata.nope", "metadata.ownerReferences[0].x"],
            ),
        ];
        for (name, schema, mut object, want, unknown) in cases {
            let schema = Schema::from_openapi(&schema).unwrap();
            assert_eq!(unknown_fields(&object, &schema), unknown, "{name}");
            prune(&mut object, &schema);
            assert_eq!(object, want, "{name}");
            prune(&mut object, &schema);
            assert_eq!(object, want, "{name}, twice");
        }
    }

    #[test]
    fn nulls_go_unless_they_mean_something() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "nullable": {"type": "string", "nullable": true},
            "defaulted": {"type": "string", "default": "x"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"plain": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap();
        let mut object = json!({"plain": null, "nullable": null, "defaulted": null, "undeclared": null,
            "list": [null, {"plain": null}], "map": {"k": null}});
        drop_nulls(&mut object, &schema);
        assert_eq!(
            object,
            json!({"nullable": null, "defaulted": null, "undeclared": null, "list": [null, {}], "map": {}})
        );
    }
}
